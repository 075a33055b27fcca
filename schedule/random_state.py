"""The random engine of a schedule, and the distributions that sampling draws from it.

The engine is the Lehmer generator `minstd_rand` (Park and Miller 1988, multiplier 48271); the
distributions are those of libstdc++, so that a seed gives the same decisions on every machine and
the same decisions as in published traces.
"""

from __future__ import annotations

import bisect
import itertools
import secrets
from collections.abc import Sequence

_MODULUS = 2147483647
_RANGE = _MODULUS - 1


class RandomState:
    """A stream of pseudo-random numbers, determined by its seed.

    `state` is the last number drawn. Seed -1 reads entropy from the device; ValueError for other
    negative seeds. The seed is the initial state, as in published traces, so neighbouring seeds
    begin similarly: for several streams, fork one.
    """

    __slots__ = ("state",)

    def __init__(self, seed: int = -1) -> None:
        self.state = normalize_seed(seed)

    def next(self) -> int:
        """Advance and return an integer in [1, 2**31 - 2]."""
        self.state = self.state * 48271 % _MODULUS
        return self.state

    def fork(self) -> int:
        """Advance and return a seed for an independent stream."""
        return self.next() * 32767 % 1999999973

    def uniform_int(self, low: int, high: int) -> int:
        """Return an integer in [low, high); nothing is drawn if there is one choice."""
        count = high - low
        if count == 1:
            return low
        scale = _RANGE // count
        past = count * scale
        while True:
            drawn = self.next()
            if drawn < past:
                return drawn // scale + low

    def uniform_real(self) -> float:
        """Return a float in [0, 1)."""
        low, high = self.next(), self.next()
        value = (low + high * float(_MODULUS)) / (float(_MODULUS) * float(_MODULUS))
        return min(value, 1.0 - 2.0**-53)

    def categorical(self, weights: Sequence[float]) -> int:
        """Return an index, drawn in proportion to `weights`; nothing is drawn for one weight."""
        if len(weights) == 1:
            return 0
        total = sum(weights)
        bounds = list(itertools.accumulate(w / total for w in weights))
        bounds[-1] = 1.0
        return bisect.bisect_left(bounds, self.uniform_real())

    def subset(self, count: int, size: int) -> list[int]:
        """Return `size` distinct integers of [0, count), in drawing order."""
        if size == 1:
            return [self.uniform_int(0, count)]
        if size == 2:
            first, second = self.uniform_int(0, count), self.uniform_int(0, count - 1)
            return [first, second + 1 if second >= first else second]
        order = list(range(count))
        for i in range(size):
            j = self.uniform_int(i, count)
            order[i], order[j] = order[j], order[i]
        return order[:size]


def normalize_seed(seed: int) -> int:
    """Return the engine state that `seed` means; ValueError for a negative seed other than -1."""
    if seed == -1:
        return secrets.randbelow(_RANGE) + 1
    if seed < 0:
        raise ValueError(f"a seed must be -1 (taken from the device) or at least 0, got {seed}")
    return seed % _MODULUS or 1
