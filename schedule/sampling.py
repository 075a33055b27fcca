"""The distributions behind the sampling primitives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from schedule.random_state import RandomState


def perfect_tile(rng: RandomState, extent: int, n: int, max_innermost_factor: int) -> list[int]:
    """Return `n` factors whose product is `extent`, uniform over ordered factorisations.

    `extent` and `n` are at least 1. Draws are repeated until the last factor is at most
    `max_innermost_factor` (-1: no limit; else at least 1, and `n` at least 2); where that takes too
    long, the last factor goes to the first part.
    """
    if extent == 1:
        return [1] * n
    if n == 1:
        return [extent]
    for _ in range(_MOST_DRAWS):
        tile = _factorization(rng, extent, n)
        if max_innermost_factor == -1 or tile[-1] <= max_innermost_factor:
            return tile
    tile[0] *= tile[-1]
    tile[-1] = 1
    return tile


_MOST_DRAWS: Final = 10_000
"""How often to draw for what nearly no draw satisfies."""


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

    `extent` and `n` are at least 1, `factor` divides `extent`, and there is a part from `position`
    on unless it is 1. Draws are repeated until they succeed; where that takes too long, `factor` is
    multiplied to what is drawn for the rest.
    """
    for _ in range(_MOST_DRAWS):
        tile = perfect_tile(rng, extent, n, -1)
        if math.prod(tile[position:]) % factor == 0:
            return tile
    tile = perfect_tile(rng, extent // factor, n, -1)
    tile[rng.uniform_int(position, n)] *= factor
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
    """Return the prime factors of `value` >= 1 as (prime, exponent), ascending.

    What is left of a value beyond 32 bits without factors below 2**16 counts as a prime.
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
