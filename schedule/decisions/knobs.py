"""The alternatives of knobs: splits of an extent, orders of loops, marks of loops.

They are the alternatives of AutoTVM, in the order of its numbering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, product
from math import factorial, prod
from typing import Any, Final

from schedule.decisions.domain import (
    MOST_LISTED,
    Decision,
    DecisionDomain,
    NoDecision,
    plain_decision,
)
from schedule.decisions.tiles import count_factorizations, divisors
from schedule.random_state import RandomState

# ---------------------------------------------------------------------------------------- splits

NO_LIMIT: Final = 1 << 31
SPLIT_POLICIES: Final = ("factors", "power2", "verbose")

Sizes = tuple[int, ...]


@lru_cache(maxsize=1024)
def split_factors(extent: int, policy: str) -> tuple[int, ...]:
    """Return the sizes that a policy considers for one part, ascending.

    `factors`: the divisors of the extent; `power2`: the powers of two up to it; `verbose`: both.
    """
    powers = tuple(1 << k for k in range(extent.bit_length()))
    if policy == "power2":
        return powers
    if policy == "factors":
        return divisors(extent)
    return tuple(sorted({*powers, *divisors(extent)}))


@lru_cache(maxsize=1024)
def split_sizes(
    extent: int, parts: int, policy: str, max_factor: int, no_tail: bool
) -> tuple[Sizes, ...]:
    """Return all splits of an extent as `[-1, ...]` sizes; the innermost part varies slowest.

    -1 means that the outermost part is inferred. Raises ValueError for more than a million.
    """
    factors = [f for f in split_factors(extent, policy) if f <= max_factor]

    def chosen(count: int, inside: int) -> Iterator[Sizes]:
        """Yield the sizes of `count` parts, inner ones first, around a product."""
        if count == 0:
            yield ()
            return
        for factor in factors:
            whole = inside * factor
            if whole > extent:
                break
            if no_tail and extent % whole:
                continue  # No multiple of it divides the extent either.
            for outer in chosen(count - 1, whole):
                yield (*outer, factor)

    whole = policy == "factors" and max_factor >= extent
    known = count_factorizations(extent, parts) if whole else 0
    ways = chosen(parts - 1, 1)
    found = [] if known > MOST_LISTED else [(-1, *way) for way in islice(ways, MOST_LISTED + 1)]
    if max(known, len(found)) > MOST_LISTED:
        raise NoDecision(
            "parts",
            f"splitting {extent} in {parts} parts by {policy} gives more than {MOST_LISTED} "
            "alternatives; limit max_factor or list candidates",
        )
    return tuple(found)


@dataclass(frozen=True)
class SplitDomain(DecisionDomain):
    """Splits of `extent` in `parts` by a policy.

    A decision has the sizes of the parts, outermost first; the first is -1 (inferred).
    """

    extent: int
    parts: int
    policy: str = "factors"
    max_factor: int = NO_LIMIT
    no_tail: bool = True

    def __iter__(self) -> Iterator[Decision]:
        options = self.policy, self.max_factor, self.no_tail
        return iter(split_sizes(self.extent, self.parts, *options))

    def neighbours(self, decision: tuple[int, ...]) -> Sequence[Decision]:
        """Return the splits in which one part differs, or a factor moved between two inner ones."""
        sizes = split_factors(self.extent, self.policy)
        near: dict[Decision, None] = {}
        for k in range(1, len(decision)):
            for size in sizes:
                near[(*decision[:k], size, *decision[k + 1 :])] = None
            for target in range(1, len(decision)):
                for factor in divisors(decision[k]):
                    moved = list(decision)
                    moved[k] //= factor
                    moved[target] *= factor
                    near[tuple(moved)] = None
        return [other for other in near if other != decision and other in self]

    def outputs(self, decision: tuple[int, ...]) -> Any:
        """Return the sizes, None for the first, which `split` infers."""
        return [None, *decision[1:]]

    def numbers(self, decision: tuple[int, ...]) -> tuple[float, ...]:
        """Return the sizes, with the first one inferred."""
        inner = prod(decision[1:])
        return (-(-self.extent // inner), *decision[1:])

    def repair(self, decision: Any) -> Decision:
        """Return the sizes unchanged: a stored split is kept, even if it is not an alternative now.

        Raises ValueError unless there are as many sizes as parts, and all but the first at least 1.
        """
        sizes = tuple(decision) if isinstance(decision, (list, tuple)) else ()
        whole = all(type(size) is int for size in sizes)
        if len(sizes) != self.parts or not whole or any(size < 1 for size in sizes[1:]):
            raise ValueError(
                f"is {decision!r}; a split must have {self.parts} integer sizes, all but the first "
                "at least 1 each"
            )
        if prod(sizes[1:]) >= 1 << 63:
            raise ValueError(f"is {decision!r}, whose product is beyond int64")
        return sizes

    def __str__(self) -> str:
        limit = "" if self.max_factor >= NO_LIMIT else f", each at most {self.max_factor}"
        return f"{self.extent} in {self.parts} parts by {self.policy}{limit}"


# ---------------------------------------------------------------------------------------- orders


def checked_order(decision: Any, count: int) -> tuple[int, ...]:
    """Return an order as a tuple; ValueError unless it has every position once."""
    order = tuple(decision) if isinstance(decision, (list, tuple)) else ()
    if not all(type(p) is int for p in order) or sorted(order) != list(range(count)):
        raise ValueError(f"is {decision!r}; an order must have each of 0 to {count - 1} once")
    return order


@dataclass(frozen=True)
class PermutationDomain(DecisionDomain):
    """All orders of positions `begin` to `end` - 1 of `count`; the others stay where they are.

    They are in lexicographic order, and are counted without listing them.
    """

    count: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        """The number of orders."""
        return factorial(self.end - self.begin)

    def at(self, index: int) -> Decision:
        """Return the order at an index."""
        left = list(range(self.begin, self.end))
        inside = []
        for k in range(len(left) - 1, -1, -1):
            place, index = divmod(index, factorial(k))
            inside.append(left.pop(place))
        return self._whole_order(inside)

    def _whole_order(self, inside: Sequence[int]) -> Decision:
        return (*range(self.begin), *inside, *range(self.end, self.count))

    def index_of(self, decision: Decision) -> int | None:
        """Return the index of an order, None if it is not in the domain."""
        try:
            order = checked_order(decision, self.count)
        except ValueError:
            return None
        left = list(range(self.begin, self.end))
        inside = order[self.begin : self.end]
        if order != self._whole_order(inside):
            return None
        index = 0
        for position in inside:
            place = left.index(position)
            index += place * factorial(len(left) - 1)
            left.pop(place)
        return index

    def __iter__(self) -> Iterator[Decision]:
        return map(self.at, range(self.size))

    def sample(self, rng: RandomState) -> Decision:
        """Draw an order, all equally likely."""
        left = list(range(self.begin, self.end))
        return self._whole_order(
            [left.pop(rng.uniform_int(0, len(left))) for _ in range(len(left))]
        )

    def neighbours(self, decision: tuple[int, ...]) -> Sequence[Decision]:
        """Return the orders with two adjacent loops swapped."""
        return [
            (*decision[:k], decision[k + 1], decision[k], *decision[k + 2 :])
            for k in range(self.begin, self.end - 1)
        ]

    def repair(self, decision: Any) -> Decision:
        """Return the order unchanged; ValueError unless it has every position once."""
        return checked_order(decision, self.count)

    def __str__(self) -> str:
        if self.end - self.begin == self.count:
            return f"the orders of {self.count} loops"
        return f"the orders of loops {self.begin} to {self.end - 1} of {self.count}"


# ----------------------------------------------------------------------------------------- marks

MARKS: Final = ("none", "vec", "unroll")
"""The marks of a loop: plain, vectorized or unrolled; a sampled mark is the index here."""


@lru_cache(maxsize=256)
def loop_marks(count: int, policy: str) -> tuple[tuple[str, ...], ...]:
    """Return the marks of `count` loops by a policy such as `try_unroll_vec`.

    The words of the policy are what a loop may be, `try` meaning `none`. At most one loop is `vec`.
    The mark of the last loop varies fastest.
    Raises ValueError for other words, and for more than a million combinations.
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
class LoopMarkDomain(DecisionDomain):
    """Marks of `count` loops by a policy, see `loop_marks`; `words` are the possible marks."""

    count: int
    policy: str
    words: tuple[Any, ...] = MARKS

    def __iter__(self) -> Iterator[Decision]:
        return iter(loop_marks(self.count, self.policy))  # type: ignore[arg-type]

    def outputs(self, decision: tuple[int, ...]) -> Any:
        """Return 0, 1 or 2 for each mark."""
        return [MARKS.index(mark) for mark in decision]

    def neighbours(self, decision: tuple[int, ...]) -> Sequence[Decision]:
        """Return the choices that mark one loop differently, else all other choices."""
        others = super().neighbours(decision)
        near = [
            other
            for other in others
            if isinstance(other, tuple)
            and sum(a != b for a, b in zip(other, decision, strict=True)) == 1
        ]
        return near or others

    def repair(self, decision: Any) -> Decision:
        """Return the marks unchanged; ValueError unless each loop has one."""
        marks = tuple(decision) if isinstance(decision, (list, tuple)) else ()
        if len(marks) != self.count or any(mark not in self.words for mark in marks):
            raise ValueError(
                f"is {decision!r}; it must be {self.count} marks, each of {list(self.words)}"
            )
        return plain_decision(marks)

    def __str__(self) -> str:
        return f"{self.policy} of {self.count} loops"
