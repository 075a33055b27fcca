"""The distributions behind the sampling primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedule.random_state import RandomState


def perfect_tile(rng: RandomState, extent: int, n: int, max_innermost_factor: int) -> list[int]:
    """Return `n` factors whose product is `extent`, uniform over ordered factorisations.

    Draws are repeated until the last factor is at most `max_innermost_factor` (-1: no limit).
    Raises ValueError for an extent or a number of parts below 1, or a limit with one part.
    """
    if extent < 1:
        raise ValueError(f"cannot tile a loop of extent {extent}")
    if n < 1:
        raise ValueError(f"a tile has at least 1 part, got n={n}")
    if extent == 1:
        return [1] * n
    if max_innermost_factor == -1:
        return [extent] if n == 1 else _factorization(rng, extent, n)
    if n < 2:
        raise ValueError("max_innermost_factor needs at least 2 parts; pass -1 for no limit")
    while True:
        tile = _factorization(rng, extent, n)
        if tile[-1] <= max_innermost_factor:
            return tile


def repair_tile(extent: int, decision: Sequence[int]) -> list[int]:
    """Return factors of `extent` near a stored decision.

    From the last part back, a part that does not divide what is left takes all of it; the first
    part takes the rest. A decision that fits is returned as it is.
    """
    tile = [int(part) for part in decision]
    left = extent
    for k in range(len(tile) - 1, 0, -1):
        if tile[k] <= 0 or left % tile[k]:
            tile[k] = left
        left //= tile[k]
    tile[0] = left
    return tile


def partitioned_tile(
    rng: RandomState, extent: int, n: int, position: int, factor: int
) -> list[int]:
    """Return `n` factors of `extent` such that those from `position` on are a multiple of `factor`.

    Draws are repeated until they are. `factor` must divide `extent`. Raises ValueError for an
    extent or a number of parts below 1, or where no draw can succeed.
    """
    if factor > 1 and position >= n:
        raise ValueError(f"no part is left after position {position} to be a multiple of {factor}")
    while True:
        tile = perfect_tile(rng, extent, n, -1)
        if math.prod(tile[position:]) % factor == 0:
            return tile


def repair_partitioned_tile(
    extent: int, decision: Sequence[int], position: int, factor: int
) -> list[int]:
    """Return factors of `extent` near a stored decision, with a multiple of `factor` inside.

    A decision whose parts from `position` on are no such multiple gives way to one that has
    `factor` at `position` and the rest in the first part.
    """
    if math.prod(int(part) for part in decision[position:]) % factor == 0:
        tile = repair_tile(extent, decision)
        if math.prod(tile[position:]) % factor == 0:
            return tile
    tile = [1] * len(decision)
    tile[0] = extent // factor
    tile[min(position, len(tile) - 1)] *= factor
    return tile


def factorize(value: int) -> list[tuple[int, int]]:
    """Return the prime factors of `value` >= 1 as (prime, exponent), ascending."""
    factors = []
    prime = 2
    while prime * prime <= value:
        exponent = 0
        while value % prime == 0:
            value //= prime
            exponent += 1
        if exponent:
            factors.append((prime, exponent))
        prime += 1
    if value > 1:
        factors.append((value, 1))
    return factors


def _factorization(rng: RandomState, extent: int, n: int) -> list[int]:
    tile = [1] * n
    for prime, exponent in factorize(extent):
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
