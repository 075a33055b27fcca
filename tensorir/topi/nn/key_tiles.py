"""The tiles of keys in attention."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final

from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const, min_

LANES: Final = 16
"""Partial maxima and sums of a row, and the sides of a square that is transposed in registers."""


@dataclass(frozen=True)
class KeyTiles:
    """The tiles of keys.

    All tiles have the same length. The last one overlaps its neighbour, so that it ends with the
    last key; if the number of keys is unknown, it has the last key several times.
    """

    size: PrimExpr
    length: int
    lanes: int

    @staticmethod
    def of(size: PrimExpr, most: int) -> KeyTiles:
        """Return the tiles of a number of keys, at most `most` in each."""
        if not isinstance(size, IntImm):
            return KeyTiles(cast(INT64, size), most, LANES)
        count = max(1, -(-size.value // most))
        length = size.value
        if length >= LANES:
            while (length := tile_length(size.value, count, LANES)) > size.value:
                count += 1
        return KeyTiles(const(size.value, INT64), max(length, 1), gcd(length, LANES) or 1)

    @property
    def extent(self) -> int | None:
        """The number of keys, None if it is unknown."""
        return self.size.value if isinstance(self.size, IntImm) else None

    @property
    def may_overlap(self) -> bool:
        """True if the last tile overlaps its neighbour."""
        return self.extent is not None and self.extent % self.length > 0

    def begin(self, start: PrimExpr) -> PrimExpr:
        """Return the first key of the tile that adds the keys from `start` on."""
        return min_(start, self.size - self.length) if self.may_overlap else start

    def row(self, j: PrimExpr) -> PrimExpr:
        """Return the row of a key in memory."""
        return j if self.extent is not None else min_(j, self.size - 1)


def tile_length(extent: int, count: int, step: int) -> int:
    """Return the length of `count` parts of an extent, a multiple of `step`."""
    return -(-extent // count // step) * step
