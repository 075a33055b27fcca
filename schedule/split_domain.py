"""The ways to split an extent that a knob offers, in the order that AutoTVM gives them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from math import prod
from typing import Any, Final

from schedule.decision_domain import Decision
from schedule.factorization import count_factorizations, divisors
from schedule.indexed_domain import MOST_LISTED, ListedDomain

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

    -1 is what is left for the outermost part. ValueError if there are more than a million.
    """
    factors = [f for f in split_factors(extent, policy) if f <= max_factor]

    def chosen(count: int, product: int) -> Iterator[Sizes]:
        """Yield the sizes of `count` parts, inner ones first, around a product."""
        if count == 0:
            yield ()
            return
        for factor in factors:
            whole = product * factor
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
        raise ValueError(
            f"splitting {extent} in {parts} parts by {policy} gives more than {MOST_LISTED} "
            "alternatives; limit max_factor or list candidates"
        )
    return tuple(found)


@dataclass(frozen=True)
class SplitDomain(ListedDomain):
    """Splits of `extent` in `parts` by a policy.

    A decision has the sizes of the parts, outermost first; the first is -1 for what is left.
    """

    extent: int
    parts: int
    policy: str = "factors"
    max_factor: int = NO_LIMIT
    no_tail: bool = True

    def listed(self) -> Sequence[Decision]:
        """Return the splits."""
        return split_sizes(self.extent, self.parts, self.policy, self.max_factor, self.no_tail)

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        """Return the splits in which one part differs, or a factor moved between two inner ones."""
        assert isinstance(decision, tuple)
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

    def numbers(self, decision: Decision) -> tuple[float, ...]:
        """Return the sizes, the first as what is left over."""
        assert isinstance(decision, tuple)
        inner = prod(decision[1:])
        return (-(-self.extent // inner), *decision[1:])

    def repair(self, decision: Any) -> Decision:
        """Return the sizes as they are: a stored split is kept, also if it is not offered now.

        ValueError unless there are as many sizes as parts, and all but the first at least 1.
        """
        sizes = tuple(decision) if isinstance(decision, (list, tuple)) else ()
        whole = all(type(size) is int for size in sizes)
        if len(sizes) != self.parts or not whole or any(size < 1 for size in sizes[1:]):
            raise ValueError(
                f"is {decision!r}; a split must have {self.parts} whole sizes, after the first "
                "at least 1 each"
            )
        if prod(sizes[1:]) >= 1 << 63:
            raise ValueError(f"is {decision!r}, whose product is beyond int64")
        return sizes

    def __str__(self) -> str:
        limit = "" if self.max_factor >= NO_LIMIT else f", each at most {self.max_factor}"
        return f"{self.extent} in {self.parts} parts by {self.policy}{limit}"
