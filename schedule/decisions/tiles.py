"""The tiles of a loop: factors whose product is its extent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, prod
from typing import Any, Final

from schedule.decisions.domain import Decision, DecisionDomain, NoDecision
from schedule.random_state import RandomState

MOST_PARTS: Final = 64
"""The maximum number of factors above 1 of an int64 extent."""
_MOST_DRAWS: Final = 10_000
"""The number of draws before giving up on a condition that nearly no draw satisfies."""


@dataclass(frozen=True)
class TileDomain(DecisionDomain):
    """`n` >= 1 factors whose product is `extent` >= 1, under a further condition (`allows`)."""

    extent: int
    n: int

    @abstractmethod
    def allows(self, tile: Sequence[int]) -> bool:
        """Return True if factors of the extent satisfy the further condition."""

    def __contains__(self, decision: object) -> bool:
        return (
            isinstance(decision, tuple)
            and len(decision) == self.n
            and all(isinstance(part, int) and part > 0 for part in decision)
            and prod(decision) == self.extent
            and self.allows(decision)
        )

    def __iter__(self) -> Iterator[Decision]:
        return (tile for tile in factorizations(self.extent, self.n) if self.allows(tile))

    def numbers(self, decision: tuple[int, ...]) -> tuple[float, ...]:
        """Return the factors."""
        return decision

    def is_disjoint(self, other: DecisionDomain) -> bool:
        """Return True if the tiles of two domains have different products or numbers of parts."""
        if not isinstance(other, TileDomain):
            return False
        return (self.extent, self.n) != (other.extent, other.n)

    def neighbours(self, decision: tuple[int, ...]) -> Sequence[Decision]:
        """Return the tiles with one factor moved from one part to another."""
        moves = self._moves(decision)
        ends = (_move_factor(decision, *pair, factor) for pair, row in moves for factor in row)
        return list(dict.fromkeys(ends))

    def step(self, decision: tuple[int, ...], rng: RandomState) -> Decision | None:
        """Draw a move: first the two parts, then the factor.

        So parts with many divisors and parts with few are equally likely sources.
        """
        moves = self._moves(decision)
        if not moves:
            return None
        pair, factors = moves[rng.uniform_int(0, len(moves))]
        return _move_factor(decision, *pair, factors[rng.uniform_int(0, len(factors))])

    def _moves(self, tile: tuple[int, ...]) -> list[tuple[tuple[int, int], list[int]]]:
        """Return the possible moves: pairs of parts, from and to, with the factors above 1."""
        moves = []
        for source, part in enumerate(tile):
            if part <= 1:
                continue
            for target in range(len(tile)):
                if target == source:
                    continue
                factors = [
                    factor
                    for factor in divisors(part)[1:]
                    if self.allows(_move_factor(tile, source, target, factor))
                ]
                if factors:
                    moves.append(((source, target), factors))
        return moves

    def decide(self, rng: RandomState, decision: Any) -> Decision:
        """Return the repaired decision, or draw one; NoDecision if there can be no such tile."""
        check_parts(self.n, decision)
        return super().decide(rng, decision)

    def repair(self, decision: Any) -> Decision:
        """Return factors of the extent near a stored decision, with the same number of parts.

        From the last part back, each part is divided out of the extent. A part that does not divide
        the remaining quotient is replaced by the quotient; the first part gets the rest. A valid
        decision is returned unchanged.
        """
        tile = [int(part) for part in decision]
        left = self.extent
        for k in range(len(tile) - 1, 0, -1):
            if tile[k] <= 0 or left % tile[k]:
                tile[k] = left
            left //= tile[k]
        tile[0] = left
        return tuple(tile)


@dataclass(frozen=True)
class PerfectTileDomain(TileDomain):
    """Tiles whose last factor is at most `limit` (-1: no limit).

    The limit applies to drawn tiles and to the results of a step, not to a given decision.
    """

    limit: int = -1

    def allows(self, tile: Sequence[int]) -> bool:
        """Return whether the last factor is within the limit."""
        return self.limit == -1 or tile[-1] <= self.limit

    @cached_property
    def size(self) -> int:
        """The number of tiles."""
        return sum(
            count_factorizations(self.extent // last, self.n - 1)
            for last in divisors(self.extent)
            if self.allows((last,))
        )

    def sample(self, rng: RandomState) -> Decision:
        """Draw a tile, all equally likely.

        Draws are repeated until the last factor is within the limit; after too many draws, the last
        factor is moved to the first part. Raises NoDecision for a single part with a limit.
        """
        if self.n == 1 and self.limit != -1 and self.extent > 1:
            reason = "needs at least 2 parts; pass -1 for no limit"
            raise NoDecision("max_innermost_factor", reason)
        for _ in range(_MOST_DRAWS):
            tile = random_factorization(rng, self.extent, self.n)
            if self.allows(tile):
                return tuple(tile)
        tile[0] *= tile[-1]
        tile[-1] = 1
        return tuple(tile)

    def __str__(self) -> str:
        limit = "" if self.limit == -1 else f", the last at most {self.limit}"
        return f"{self.extent} in {self.n} parts{limit}"


@dataclass(frozen=True)
class PartitionedTileDomain(TileDomain):
    """Tiles whose parts from `position` on have a product that is a multiple of `factor`.

    `factor` divides the extent; unless it is 1, `position` is less than the number of parts.
    """

    position: int = 0
    factor: int = 1

    def allows(self, tile: Sequence[int]) -> bool:
        """Return True if the product of the inner parts is such a multiple."""
        return prod(tile[self.position :]) % self.factor == 0

    @cached_property
    def size(self) -> int:
        """The number of tiles."""
        return sum(
            count_factorizations(self.extent // inner, self.position)
            * count_factorizations(inner, self.n - self.position)
            for inner in divisors(self.extent)
            if inner % self.factor == 0
        )

    def sample(self, rng: RandomState) -> Decision:
        """Draw a tile, all equally likely.

        Draws are repeated until one satisfies the condition; after too many draws, a tile of
        `extent // factor` is drawn and multiplied by `factor` at `position`.
        """
        for _ in range(_MOST_DRAWS):
            tile = random_factorization(rng, self.extent, self.n)
            if self.allows(tile):
                return tuple(tile)
        tile = random_factorization(rng, self.extent // self.factor, self.n)
        tile[rng.uniform_int(self.position, self.n)] *= self.factor
        return tuple(tile)

    def decide(self, rng: RandomState, decision: Any) -> Decision:
        """Return the repaired decision, or draw one; NoDecision for a position out of range."""
        check_parts(self.n, decision, self.position, self.factor)
        return super().decide(rng, decision)

    def repair(self, decision: Any) -> Decision:
        """Return factors of the extent near a stored decision that satisfy the condition.

        If the inner parts are not such a multiple, the result has `factor` at `position` and the
        rest in the first part.
        """
        if self.allows([int(part) for part in decision]):
            tile = super().repair(decision)
            assert isinstance(tile, tuple)
            if self.allows(tile):
                return tile
        fallback = [1] * len(decision)
        fallback[0] = self.extent // self.factor
        fallback[min(self.position, len(fallback) - 1)] *= self.factor
        return tuple(fallback)

    def __str__(self) -> str:
        inner = f"those from {self.position} on a multiple of {self.factor}"
        return f"{self.extent} in {self.n} parts" + (f", {inner}" if self.factor > 1 else "")


@dataclass(frozen=True)
class InferredTileDomain(DecisionDomain):
    """The only tile of a symbolic or indivisible extent: -1 ("infer"), followed by `n - 1` ones.

    The instruction returns `first` in place of the -1. `position` and `factor` are the attributes
    of `sample_partitioned_tile`; they are only checked here.
    """

    n: int
    first: int | None = None
    position: int = 0
    factor: int = 1

    def __iter__(self) -> Iterator[Decision]:
        return iter((self._tile(self.n),))

    def numbers(self, decision: tuple[int, ...]) -> tuple[float, ...]:
        """Return the factors; the first is a placeholder, since it is unknown."""
        return decision

    def outputs(self, decision: tuple[int, ...]) -> Any:
        """Return the factors, with the symbolic extent of the first."""
        return [self.first, *decision[1:]]

    def decide(self, rng: RandomState, decision: Any) -> Decision:
        """Return the tile; NoDecision if it is impossible for constant extents."""
        check_parts(self.n, decision, self.position, self.factor)
        return super().decide(rng, decision)

    def repair(self, decision: Any) -> Decision:
        """Return the tile with as many parts as the decision has."""
        return self._tile(len(decision))

    @staticmethod
    def _tile(n: int) -> tuple[int, ...]:
        return (-1, *[1] * (n - 1))

    def __str__(self) -> str:
        return f"an unknown extent in {self.n} parts"


def check_parts(n: int, decision: Any, position: int = 0, factor: int = 1) -> None:
    """Raise NoDecision unless there are 1 to 64 parts and `position` is one of them.

    The number of parts is that of the decision if there is one. With a `factor` above 1 there must
    be a part at the position.
    """
    count = n if decision is None else len(decision)
    if not 1 <= count <= MOST_PARTS:
        name = "n" if decision is None else "decision"
        raise NoDecision(
            name, f"gives {count} parts: a tile has at least 1 part and at most {MOST_PARTS}"
        )
    last = count if factor == 1 else count - 1
    if not 0 <= position <= last:
        raise NoDecision(
            "partition_pos",
            f"is {position}; with {count} parts and this factor it must be in [0, {last}]",
        )


def _move_factor(tile: tuple[int, ...], source: int, target: int, factor: int) -> tuple[int, ...]:
    """Return the tile with one factor moved."""
    parts = list(tile)
    parts[source] //= factor
    parts[target] *= factor
    return tuple(parts)


# ----------------------------------------------------------------------------------- factorizations


@lru_cache(maxsize=4096)
def factorize(value: int) -> tuple[tuple[int, int], ...]:
    """Return the prime factors of `value` >= 1 as (prime, exponent), ascending.

    If a value above 2**32 has a cofactor without prime factors below 2**16, the cofactor counts as
    a prime.
    """
    factors = []
    prime = 2
    while prime * prime <= value and prime < 1 << 16:
        exponent = 0
        while value % prime == 0:
            value //= prime
            exponent += 1
        if exponent:
            factors.append((prime, exponent))
        prime += 1
    if value > 1:
        factors.append((value, 1))
    return tuple(factors)


@lru_cache(maxsize=4096)
def divisors(value: int) -> tuple[int, ...]:
    """Return the divisors of `value` >= 1, ascending."""
    found = [1]
    for prime, exponent in factorize(value):
        found = [d * prime**k for d in found for k in range(exponent + 1)]
    return tuple(sorted(found))


def count_factorizations(value: int, n: int) -> int:
    """Return the number of ordered factorizations of `value` >= 1 into `n` >= 0 factors."""
    if n == 0:
        return int(value == 1)
    return prod(comb(exponent + n - 1, n - 1) for _, exponent in factorize(value))


def factorizations(value: int, n: int) -> Iterator[tuple[int, ...]]:
    """Yield the `n` >= 1 factors whose product is `value` >= 1, in lexicographic order."""
    if n == 1:
        yield (value,)
        return
    for first in divisors(value):
        for rest in factorizations(value // first, n - 1):
            yield (first, *rest)


def random_factorization(rng: RandomState, value: int, n: int) -> list[int]:
    """Return `n` >= 1 factors whose product is `value` >= 1, all equally likely.

    If there is only one factorization, no random number is drawn.
    """
    if n == 1:
        return [value]
    tile = [1] * n
    for prime, exponent in factorize(value):
        if n == 2:
            if prime > 65535:
                tile[1 if rng.uniform_int(0, 2) else 0] *= prime
                continue
            first = rng.uniform_int(0, exponent + 1)
            tile[0] *= prime**first
            tile[1] *= prime ** (exponent - first)
        elif exponent == 1:
            tile[rng.uniform_int(0, n)] *= prime
        else:
            bars = sorted(rng.subset(exponent + n - 1, n - 1))
            edges = [-1, *bars, exponent + n - 1]
            for k in range(n):
                tile[k] *= prime ** (edges[k + 1] - edges[k] - 1)
    return tile
