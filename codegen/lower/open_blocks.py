"""Replacing the axes of blocks by the expressions that they are bound to."""

from __future__ import annotations

from typing import Any

from codegen.lower.annotations import DIM_ALIGN, EXPLICIT_REGIONS
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.node import EMPTY_ATTRS, Attrs
from tensorir.rewriting.visit import Rewriter

_STILL_NEEDED = (*EXPLICIT_REGIONS, DIM_ALIGN)


def open_blocks(func: PrimFunc) -> PrimFunc:
    """Substitute bindings for axes, so that blocks have none.

    Before: for i, j: with block: vi = i * 4 + j; where(i * 4 + j < 30); B[vi] = A[vi]
    After:  for i, j: with block: where(i * 4 + j < 30); B[i * 4 + j] = A[i * 4 + j]

    What a block declares to read and write has no reader after this, and is dropped, except where
    an annotation refers to it (`explicit_read_region`, `explicit_write_region`,
    `buffer_dim_align`). Other annotations of blocks are hints to earlier stages and go as well.
    """
    return func.with_body(_OpenBlocks()(func.body))


class _OpenBlocks(Rewriter):
    def __init__(self) -> None:
        self._values: dict[Var, PrimExpr] = {}
        self._buffers: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        return self._buffers.get(buffer, buffer)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        return self._values.get(node, node)

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        block = node.block
        values = self.each(node.iter_values)
        predicate = self(node.predicate)
        for axis, value in zip(block.iter_vars, values, strict=True):
            self._values[axis.var] = value.astype(axis.var.dtype)
        for buffer in block.alloc_buffers:
            self._open_layout(buffer)
        kept = Attrs({k: v for k, v in block.annotations.items() if k in _STILL_NEEDED})
        needs_regions = bool(kept)
        opened = s.Block(
            (),
            self.each(block.reads) if needs_regions else (),
            self.each(block.writes) if needs_regions else (),
            block.name_hint,
            self(block.body),
            self.maybe(block.init),
            tuple(self.buffer(buffer) for buffer in block.alloc_buffers),
            self.each(block.match_buffers),
            kept or EMPTY_ATTRS,
        )
        return s.BlockRealize((), predicate, opened)

    def _open_layout(self, buffer: Buffer) -> None:
        """Replace a buffer whose extents or strides depend on axes."""
        shape, strides = self.each(buffer.shape), self.each(buffer.strides)
        if shape is not buffer.shape or strides is not buffer.strides:
            self._buffers[buffer] = buffer.with_(shape=shape, strides=strides)

    def value(self, value: Any) -> Any:
        return value
