"""Ordered factorisations of a number: how many there are, all of them, one at random."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import comb, prod

from schedule.random_state import RandomState


@lru_cache(maxsize=4096)
def factorize(value: int) -> tuple[tuple[int, int], ...]:
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
    return tuple(factors)


@lru_cache(maxsize=4096)
def divisors(value: int) -> tuple[int, ...]:
    """Return the divisors of `value` >= 1, ascending."""
    found = [1]
    for prime, exponent in factorize(value):
        found = [d * prime**k for d in found for k in range(exponent + 1)]
    return tuple(sorted(found))


def count_factorizations(value: int, n: int) -> int:
    """Return in how many ways `value` >= 1 is a product of `n` >= 0 factors, in order."""
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

    Where there is one way only, nothing is drawn.
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
