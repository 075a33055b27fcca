"""Transposing small matrices in vector registers, by shuffles of two vectors.

Eklundh, "A Fast Computer Method for Matrix Transposing", 1972: halves are exchanged between vectors
at decreasing distances. Within 128 bits, where processors interleave two vectors in one instruction
(`vunpcklps`, `zip1`), a perfect shuffle does the same. Rows that are shorter than a vector share
one, so that loads and shuffles have the full width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tensorir.nodes.dtype import INT32
from tensorir.nodes.expr import PrimExpr, Shuffle, Var
from tensorir.nodes.ops import const

BLOCK_BITS: Final = 128
"""The width in bits of the blocks in which one instruction interleaves vectors of every length."""

Bind = Callable[[PrimExpr], Var]
"""A function that binds a value to a name and returns the variable."""


def columns_of(rows: Sequence[PrimExpr], bind: Bind) -> list[PrimExpr]:
    """Return the columns of the matrix whose `n` rows of `m` elements are given.

    `m` and `n` are powers of two with 1 < `m` <= `n`; the result is `m` vectors of `n` lanes.
    """
    network = _Network(len(rows), bind, rows[0].dtype.bits)
    vectors, columns = list(rows), rows[0].dtype.lanes
    if columns < network.block:
        blocks = [
            network.interleaved_to_blocks(vectors[k : k + network.block])
            for k in range(0, len(vectors), network.block)
        ]
        vectors = [vector for block in blocks for vector in block]
    while len(vectors) > columns:
        pairs = range(0, len(vectors), 2 * columns)
        vectors = [
            network.concatenate(vectors[k + i], vectors[k + columns + i])
            for k in pairs
            for i in range(columns)
        ]
    if columns <= network.block:
        return network.interleave(vectors, network.block)
    return network.square(vectors, columns)


def rows_of(columns: Sequence[PrimExpr], bind: Bind) -> list[PrimExpr]:
    """Return the rows of the matrix whose `m` columns of `n` lanes are given.

    `m` and `n` are powers of two with 1 < `m` <= `n`; the result is `n` vectors of `m` elements.
    """
    lanes = columns[0].dtype.lanes
    network = _Network(lanes, bind, columns[0].dtype.bits)
    count = len(columns)
    if count <= network.block:
        vectors = network.interleave(list(columns), network.block)
        group = network.block
    else:
        vectors, group = network.square(list(columns), count), count
    if count == lanes:
        return vectors
    # Vector i has the rows i * share, ... of each group of lanes.
    share = group // count
    return [
        pick([vectors[row % group // share]], range(start, start + count))
        for row in range(lanes)
        for start in [row // group * group + row % share * count]
    ]


def interleave(columns: Sequence[PrimExpr], bind: Bind) -> list[PrimExpr]:
    """Return the rows of a matrix one after another, in the same number of vectors as `columns`."""
    lanes, count = columns[0].dtype.lanes, len(columns)
    if count & (count - 1) == 0:
        return _Network(lanes, bind, columns[0].dtype.bits).interleave(list(columns), lanes)
    places = [[divmod(k * lanes + lane, count) for lane in range(lanes)] for k in range(count)]
    return [
        bind(pick(columns, [column * lanes + row for row, column in vector])) for vector in places
    ]


def pick(vectors: Sequence[PrimExpr], lanes: Sequence[int]) -> PrimExpr:
    """Return the `lanes` of the concatenation of some vectors."""
    return Shuffle(vectors, [const(lane, INT32) for lane in lanes])


class _Network:
    def __init__(self, lanes: int, bind: Bind, bits: int) -> None:
        self._lanes = lanes
        self._bind = bind
        self.block = min(lanes, BLOCK_BITS // bits)

    def concatenate(self, a: PrimExpr, b: PrimExpr) -> PrimExpr:
        """Return one vector followed by the other."""
        return self._bind(pick([a, b], range(a.dtype.lanes + b.dtype.lanes)))

    def interleaved_to_blocks(self, rows: list[PrimExpr]) -> list[PrimExpr]:
        """Interleave the rows of a block until vectors have the length of a block."""
        while rows[0].dtype.lanes < self.block:
            half, length = len(rows) // 2, rows[0].dtype.lanes
            both = [k + side * length for k in range(length) for side in (0, 1)]
            rows = [self._bind(pick([rows[i], rows[i + half]], both)) for i in range(half)]
        return rows

    def interleave(self, vectors: list[PrimExpr], group: int) -> list[PrimExpr]:
        """Interleave vectors in each group of lanes, repeatedly until they are transposed."""
        count, half = len(vectors), len(vectors) // 2
        lanes = [
            [
                first + k + side * self._lanes
                for base in range(0, self._lanes, group)
                for first in [base + part * group // 2]
                for k in range(group // 2)
                for side in (0, 1)
            ]
            for part in (0, 1)
        ]
        for _ in range(count.bit_length() - 1):
            vectors = [
                self._bind(pick([vectors[i], vectors[i + half]], part))
                for i in range(half)
                for part in lanes
            ]
        return vectors

    def square(self, vectors: list[PrimExpr], group: int) -> list[PrimExpr]:
        """Transpose the square matrices in each group of lanes.

        A group has as many lanes as vectors.
        """
        if group <= self.block:
            return self.interleave(vectors, group)
        half = group // 2
        exchanged: list[list[PrimExpr]] = [
            [
                self._bind(
                    pick(
                        [vectors[i], vectors[i + half]],
                        [
                            base + part * half + k + side * self._lanes
                            for base in range(0, self._lanes, group)
                            for side in (0, 1)
                            for k in range(half)
                        ],
                    )
                )
                for i in range(half)
            ]
            for part in (0, 1)
        ]
        return [vector for part in exchanged for vector in self.square(part, half)]
