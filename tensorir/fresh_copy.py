"""Copies of statements that may stand beside the original: everything they define is new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tensorir.buffer import Buffer, MatchBufferRegion
from tensorir.expr import IterVar, Let, PrimExpr, Var
from tensorir.stmt import Allocate, AllocateConst, Block, DeclBuffer, For, LetStmt, Stmt
from tensorir.visit import Rewriter

S = TypeVar("S", bound=Stmt)


class FreshCopy(Rewriter):
    """Copies a statement, with new loop variables, axes, buffers and bound names.

    `values` replaces variables that are defined outside, `buffers` such buffers. Subclasses may
    rename blocks and give axes another domain.
    """

    def __init__(
        self,
        values: Mapping[Var, PrimExpr] | None = None,
        buffers: Mapping[Buffer, Buffer] | None = None,
    ) -> None:
        self._values: dict[Var, PrimExpr] = dict(values or {})
        self._buffers: dict[Buffer, Buffer] = dict(buffers or {})
        self._values.update((old.data, new.data) for old, new in self._buffers.items())

    def block_name(self, block: Block) -> str:
        """Return the name of the copy of a block."""
        return block.name_hint

    def axis(self, axis: IterVar) -> IterVar:
        """Return the copy of an axis, with the domain rewritten already."""
        return IterVar(axis.dom, self.define(axis.var), axis.iter_type, axis.thread_tag)

    def define(self, var: Var) -> Var:
        """Return the new variable that stands for `var` from here on."""
        new = var.with_name(var.name)
        self._values[var] = new
        return new

    def define_buffer(self, buffer: Buffer) -> Buffer:
        """Return the new buffer that stands for `buffer` from here on."""
        data = self._values.get(buffer.data)
        new = buffer.with_(
            data=data if isinstance(data, Var) else self.define(buffer.data),
            shape=[self.size(n) for n in buffer.shape],
            strides=[self.size(n) for n in buffer.strides],
            elem_offset=self.size(buffer.elem_offset),
        )
        self._buffers[buffer] = new
        return new

    def size(self, size: PrimExpr) -> PrimExpr:
        """Return the copy of a dimension, stride or offset of a buffer."""
        return self(size)

    def define_parameter(self, buffer: Buffer) -> Buffer:
        """Return the new buffer for one that binds the variables in its shape and strides."""
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(part, Var) and part not in self._values:
                self.define(part)
        return self.define_buffer(buffer)

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return where an access goes."""
        return self._buffers.get(buffer, buffer)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Return what a variable stands for."""
        return self._values.get(node, node)

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        """Copy a loop with a variable of its own."""
        low, extent = self(node.min), self(node.extent)
        var = self.define(node.loop_var)
        thread = fresh_thread(node)
        body = self(node.body)
        return For(var, low, extent, node.kind, body, thread, self.value(node.annotations))

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Copy a block with axes, allocations and views of its own."""
        axes = [self.axis(self.generic(axis)) for axis in node.iter_vars]
        allocated = [self.define_buffer(buffer) for buffer in node.alloc_buffers]
        sources = [self(view.source) for view in node.match_buffers]
        views = [
            MatchBufferRegion(self.define_buffer(view.buffer), source)
            for view, source in zip(node.match_buffers, sources, strict=True)
        ]
        return Block(
            axes,
            self.each(node.reads),
            self.each(node.writes),
            self.block_name(node),
            self(node.body),
            self.maybe(node.init),
            allocated,
            views,
            self.value(node.annotations),
        )

    def rewrite_LetStmt(self, node: LetStmt) -> Stmt:  # noqa: N802
        """Copy a binding."""
        value = self(node.value)
        return LetStmt(self.define(node.var), value, self(node.body))

    def rewrite_Let(self, node: Let) -> PrimExpr:  # noqa: N802
        """Copy a binding."""
        value = self(node.value)
        return Let(self.define(node.var), value, self(node.body))

    def rewrite_Allocate(self, node: Allocate) -> Stmt:  # noqa: N802
        """Copy an allocation."""
        extents, condition = self.each(node.extents), self(node.condition)
        var = self.define(node.buffer_var)
        return Allocate(var, node.dtype, extents, condition, self(node.body), node.annotations)

    def rewrite_AllocateConst(self, node: AllocateConst) -> Stmt:  # noqa: N802
        """Copy an allocation of constants."""
        extents = self.each(node.extents)
        var = self.define(node.buffer_var)
        return AllocateConst(var, node.dtype, extents, node.data, self(node.body), node.annotations)

    def rewrite_DeclBuffer(self, node: DeclBuffer) -> Stmt:  # noqa: N802
        """Copy a view of a pointer."""
        return DeclBuffer(self.define_buffer(node.buffer), self(node.body))


def fresh_thread(loop: For) -> IterVar | None:
    """Return the thread axis for a copy of a loop: the same axis, a variable of its own."""
    old = loop.thread_binding
    if old is None:
        return None
    return IterVar(old.dom, old.var.with_name(old.var.name), old.iter_type, old.thread_tag)
