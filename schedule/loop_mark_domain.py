"""The marks that a knob offers for a few loops: plain, vectorized or unrolled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final

from schedule.decision_domain import Decision, plain_decision
from schedule.indexed_domain import MOST_LISTED, ListedDomain

MARKS: Final = ("none", "vec", "unroll")
"""The marks of a loop; a sampled mark is the index here."""


@lru_cache(maxsize=256)
def loop_marks(count: int, policy: str) -> tuple[tuple[str, ...], ...]:
    """Return the marks of `count` loops by a policy such as `try_unroll_vec`.

    The words of the policy are what a loop may be, `try` meaning `none`. At most one loop is `vec`.
    The mark of the last loop varies fastest.
    ValueError for other words, and for more than a million ways.
    """
    words = policy.replace("try", "none").split("_")
    unknown = [word for word in words if word not in MARKS]
    if unknown:
        raise ValueError(f"is {policy!r}; it must be made of the words try, none, unroll and vec")
    if len(words) ** count > MOST_LISTED:
        raise ValueError(f"marks {count} loops in more than {MOST_LISTED} ways; list candidates")
    ways = product(dict.fromkeys(words), repeat=count)
    return tuple(way for way in ways if way.count("vec") <= 1)


@dataclass(frozen=True)
class LoopMarkDomain(ListedDomain):
    """Marks of `count` loops by a policy, see `loop_marks`; `words` are the marks there are."""

    count: int
    policy: str
    words: tuple[Any, ...] = MARKS

    def listed(self) -> Sequence[Decision]:
        """Return the ways to mark the loops."""
        return loop_marks(self.count, self.policy)  # type: ignore[return-value]

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        """Return the ways in which one loop is marked differently, else all others."""
        assert isinstance(decision, tuple)
        others = [other for other in self.alternatives if other != decision]
        near = [
            other
            for other in others
            if isinstance(other, tuple)
            and sum(a != b for a, b in zip(other, decision, strict=True)) == 1
        ]
        return near or others

    def repair(self, decision: Any) -> Decision:
        """Return the marks as they are; ValueError unless each loop has one."""
        marks = tuple(decision) if isinstance(decision, (list, tuple)) else ()
        if len(marks) != self.count or any(mark not in self.words for mark in marks):
            raise ValueError(
                f"is {decision!r}; it must be {self.count} marks, each of {list(self.words)}"
            )
        return plain_decision(marks)

    def __str__(self) -> str:
        return f"{self.policy} of {self.count} loops"
