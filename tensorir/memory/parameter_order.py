"""Tensor functions whose parameters have their dimensions in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.function import PrimFunc
from tensorir.nodes.buffer import Buffer, Range, decl_buffer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.stmt import Block
from tensorir.rewriting.element_rewriter import ElementRewriter
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import walk


def with_parameters_in_order(
    func: PrimFunc, orders: Mapping[Var, Sequence[int]]
) -> PrimFunc | None:
    """Return a function that accepts some parameters before they are transposed.

    Dimension `k` of a parameter is dimension `axes[k]` of the new one, as in `numpy.transpose`.
    None if a parameter has strides, or is accessed otherwise than by its elements.
    """
    buffers = {}
    for param, axes in orders.items():
        old = func.buffer_map[param]
        if old.strides:
            return None
        shape = [old.shape[axes.index(k)] for k in range(len(axes))]
        buffers[old] = decl_buffer(shape, old.dtype, old.name), axes
    pointers = {buffer.data for buffer in buffers}
    for node in walk(func.body):
        if isinstance(node, Var) and node in pointers:
            return None
        if isinstance(node, Block) and any(m.source.buffer in buffers for m in node.match_buffers):
            return None
    body = _Reordered(buffers)(func.body)
    buffer_map = {p: buffers[b][0] if b in buffers else b for p, b in func.buffer_map.items()}
    return renew_defs(func.with_(body=body, buffer_map=buffer_map))


class _Reordered(ElementRewriter):
    def __init__(self, buffers: Mapping[Buffer, tuple[Buffer, Sequence[int]]]) -> None:
        self._buffers = buffers

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer in the other order."""
        return self._buffers[buffer][0] if buffer in self._buffers else buffer

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        """Return the indices in the other order."""
        _, axes = self._buffers[buffer]
        return [indices[axes.index(k)] for k in range(len(axes))]

    def region(self, buffer: Buffer, region: Sequence[Range]) -> Sequence[Range]:
        """Return the region in the other order."""
        _, axes = self._buffers[buffer]
        return [region[axes.index(k)] for k in range(len(axes))]
