"""The orders of a few loops that a knob offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any

from schedule.decision_domain import Decision
from schedule.indexed_domain import IndexedDomain
from schedule.random_state import RandomState


def checked_order(decision: Any, count: int) -> tuple[int, ...]:
    """Return an order as a tuple; ValueError unless it has every position once."""
    order = tuple(decision) if isinstance(decision, (list, tuple)) else ()
    if not all(type(p) is int for p in order) or sorted(order) != list(range(count)):
        raise ValueError(f"is {decision!r}; an order must have each of 0 to {count - 1} once")
    return order


@dataclass(frozen=True)
class PermutationDomain(IndexedDomain):
    """All orders of positions `begin` to `end` - 1 of `count`; the others stay where they are.

    They come in lexicographic order, and are never listed.
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
        return (*range(self.begin), *inside, *range(self.end, self.count))

    def index_of(self, decision: Decision) -> int | None:
        """Return where an order is, None if it is not here."""
        fixed = [*range(self.begin), *range(self.end, self.count)]
        try:
            order = checked_order(decision, self.count)
        except ValueError:
            return None
        if any(order[p] != p for p in fixed):
            return None
        left = list(range(self.begin, self.end))
        index = 0
        for position in order[self.begin : self.end]:
            place = left.index(position)
            index += place * factorial(len(left) - 1)
            left.pop(place)
        return index

    def sample(self, rng: RandomState) -> Decision:
        """Draw an order, all equally likely."""
        left = list(range(self.begin, self.end))
        inside = [left.pop(rng.uniform_int(0, len(left))) for _ in range(len(left))]
        return (*range(self.begin), *inside, *range(self.end, self.count))

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        """Return the orders in which two that are next to each other change places."""
        assert isinstance(decision, tuple)
        return [
            (*decision[:k], decision[k + 1], decision[k], *decision[k + 2 :])
            for k in range(self.begin, self.end - 1)
        ]

    def repair(self, decision: Any) -> Decision:
        """Return the order as it is; ValueError unless it has every position once."""
        return checked_order(decision, self.count)

    def __str__(self) -> str:
        if self.end - self.begin == self.count:
            return f"the orders of {self.count} loops"
        return f"the orders of loops {self.begin} to {self.end - 1} of {self.count}"
