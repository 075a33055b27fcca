"""The axes of a block that multiplies matrices, named as those of a product of two matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.stmt import Block, BufferStore
from tensorir.rewriting.visit import collect_vars, walk

BATCH: Final = "b"
_KINDS: Final = {
    (True, True, True): BATCH,
    (True, True, False): "i",
    (True, False, True): "j",
    (False, True, True): "k",
}
"""The kind of an axis that indexes the result, the left factor, the right factor."""


@dataclass(frozen=True)
class MatrixAxes:
    """The axes of `C[b, i, j] += A[b, i, k] * B[b, k, j]`, where each letter is several axes.

    The axes of batches index all three buffers, the others two of them.
    """

    axes: tuple[Var, ...]
    extents: tuple[int, ...]
    kinds: str
    """The letter of each axis."""
    loads: tuple[BufferLoad, BufferLoad]
    """The loads of A and B."""
    result: Buffer

    def count(self, kind: str) -> int:
        """Return the number of iterations of the axes with a letter."""
        return math.prod(n for n, own in zip(self.extents, self.kinds, strict=True) if own == kind)

    @property
    def batches(self) -> int:
        """The number of axes of batches."""
        return self.kinds.count(BATCH)

    def dims(self, load: BufferLoad) -> list[str]:
        """Return the letters in each index of a load."""
        kind = dict(zip(self.axes, self.kinds, strict=True))
        return ["".join(kind[v] for v in collect_vars(index)) for index in load.indices]

    def fused(self, order: str) -> IndexMap:
        """Return the map that fuses the axes of each letter of `order`, after those of batches.

        Axes with other letters are not indices of the map.
        """
        own = [
            (Var(axis.name, axis.dtype), kind, extent)
            for axis, kind, extent in zip(self.axes, self.kinds, self.extents, strict=True)
            if kind in (BATCH, *order)
        ]
        made: list[PrimExpr] = [var for var, kind, _ in own if kind == BATCH]
        for letter in order:
            first, *others = [(var, extent) for var, kind, extent in own if kind == letter]
            index: PrimExpr = first[0]
            for var, extent in others:
                index = index * extent + var
            made.append(index)
        return IndexMap([var for var, _, _ in own], made)


def matrix_axes(block: Block) -> MatrixAxes | None:
    """Return the axes of a block that adds up products of two buffers; None for other blocks.

    Also None if an extent is not constant, or if no axis has one of the letters i, j and k.
    """
    store = block.body
    if not isinstance(store, BufferStore):
        return None
    found = [node for node in walk(store.value) if isinstance(node, BufferLoad)]
    loads = [load for load in found if load.buffer is not store.buffer]
    if len(loads) != 2 or loads[0].buffer is loads[1].buffer:
        return None
    result, left, right = (_used(x) for x in (store.indices, loads[0].indices, loads[1].indices))
    kinds, extents = "", []
    for axis in block.iter_vars:
        kind = _KINDS.get((axis.var in result, axis.var in left, axis.var in right), "")
        is_reduced = axis.iter_type == IterVar.COMM_REDUCE
        extent = axis.dom.extent if axis.dom is not None else None
        if not isinstance(extent, IntImm) or not kind or is_reduced != (kind == "k"):
            return None
        kinds += kind
        extents.append(extent.value)
    if not {"i", "j", "k"} <= set(kinds):
        return None
    axes = tuple(axis.var for axis in block.iter_vars)
    return MatrixAxes(axes, tuple(extents), kinds, (loads[0], loads[1]), store.buffer)


def _used(indices: Sequence[PrimExpr]) -> set[Var]:
    return {var for index in indices for var in collect_vars(index)}
