"""Copies of functions and statements whose loops, axes and buffers are new.

The copy may have another index dtype: then every loop, axis, shape and index of it has that, and
what reads an index as a value gets it converted back.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorir import expr as e
from tensorir import stmt as s
from tensorir.buffer import Buffer, MatchBufferRegion, Range
from tensorir.dtype import DataType
from tensorir.expr import IterVar, PrimExpr, Var
from tensorir.function import PrimFunc
from tensorir.ops import cast
from tensorir.visit import Rewriter, walk

_ARITHMETIC = (
    e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max,
)  # fmt: skip


def with_index_dtype(func: PrimFunc, dtype: str) -> PrimFunc:
    """Return a copy of a function in which scalars, loops, axes, shapes and indices are `dtype`."""
    renew = Renew({}, DataType(dtype))
    params = [renew.define(param) for param in func.params]
    buffer_map = {}
    for old, new in zip(func.params, params, strict=True):
        if old in func.buffer_map:
            buffer_map[new] = renew.define_buffer(func.buffer_map[old])
    body = renew(func.body)
    return PrimFunc(params, body, func.ret_type, buffer_map, func.attrs)


class Renew(Rewriter):
    """Copies statements; `buffers` says which buffers stand for ones that are defined outside."""

    def __init__(
        self, buffers: Mapping[Buffer, Buffer], index_dtype: DataType | None = None
    ) -> None:
        self._buffers = dict(buffers)
        self._dtype = index_dtype
        self._vars: dict[Var, Var] = {old.data: new.data for old, new in buffers.items()}

    # ---------------------------------------------------------------------------------- definitions

    def define(self, var: Var, *, is_value: bool = False) -> Var:
        """Return the variable that stands for `var` from here on."""
        is_index = var.dtype.is_int and not is_value and self._dtype is not None
        new = type(var)(var.name, self._dtype) if is_index else var.with_name(var.name)  # type: ignore[arg-type]
        self._vars[var] = new
        return new

    def define_buffer(self, buffer: Buffer) -> Buffer:
        """Return the buffer that stands for `buffer` from here on; its shape may define symbols."""
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(part, Var) and part not in self._vars:
                self.define(part)
        new = buffer.with_(
            data=self._vars.get(buffer.data) or self.define(buffer.data),
            shape=[self._index(n) for n in buffer.shape],
            strides=[self._index(n) for n in buffer.strides],
            elem_offset=self._index(buffer.elem_offset),
        )
        self._buffers[buffer] = new
        return new

    def buffer(self, buffer: Buffer) -> Buffer:
        """Return where an access goes."""
        return self._buffers.get(buffer, buffer)

    # ------------------------------------------------------------------------------ indices, values

    def _index(self, node: PrimExpr) -> PrimExpr:
        """Return an integer expression in the index dtype."""
        dtype = self._dtype
        if dtype is None:
            return self(node)
        if isinstance(node, Var):
            return cast(dtype, self._vars.get(node, node))
        if isinstance(node, e.Select):
            values = self._index(node.true_value), self._index(node.false_value)
            return e.Select(self(node.condition), *values)
        if isinstance(node, _ARITHMETIC):
            return type(node)(self._index(node.a), self._index(node.b))
        if isinstance(node, e.Cast) and node.dtype.bits >= node.value.dtype.bits:
            return self._index(node.value) if node.value.dtype.is_int else cast(dtype, self(node))
        return cast(dtype, self(node))

    def _reads_index(self, node: PrimExpr) -> bool:
        """Say whether a value is computed from loops and axes alone."""
        if self._dtype is None or not node.dtype.is_int:
            return False
        parts = list(walk(node))
        plain = (*_ARITHMETIC, e.IntImm, Var)
        return all(isinstance(part, plain) for part in parts) and any(
            isinstance(part, Var) and part in self._vars for part in parts
        )

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Return what stands for a variable, as a value of the dtype it had."""
        return cast(node.dtype, new) if (new := self._vars.get(node)) is not None else node

    def rewrite_CmpOp(self, node: e.CmpOp) -> PrimExpr:  # noqa: N802
        """Compare indices as they are."""
        if self._reads_index(node.a) or self._reads_index(node.b):
            return type(node)(self._index(node.a), self._index(node.b))
        return self.generic(node)

    def rewrite_Cast(self, node: e.Cast) -> PrimExpr:  # noqa: N802
        """Convert an index as it is."""
        if self._reads_index(node.value):
            return cast(node.dtype, self._index(node.value))
        return self.generic(node)

    def rewrite_BufferLoad(self, node: e.BufferLoad) -> PrimExpr:  # noqa: N802
        """Read where the copy has the buffer."""
        indices = [self._index(i) for i in node.indices]
        return e.BufferLoad(self.buffer(node.buffer), indices, self.maybe(node.predicate))

    def rewrite_Range(self, node: Range) -> Range:  # noqa: N802
        """Copy bounds."""
        return Range.from_min_extent(self._index(node.min), self._index(node.extent))

    # ----------------------------------------------------------------------------------- statements

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        """Write where the copy has the buffer."""
        indices = [self._index(i) for i in node.indices]
        target = self.buffer(node.buffer)
        return s.BufferStore(target, self(node.value), indices, self.maybe(node.predicate))

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        """Copy a loop with a variable of its own."""
        low, extent = self._index(node.min), self._index(node.extent)
        loop_var = self.define(node.loop_var)
        body = self(node.body)
        return node.with_(loop_var=loop_var, min=low, extent=extent, body=body)

    def rewrite_LetStmt(self, node: s.LetStmt) -> s.Stmt:  # noqa: N802
        """Copy a binding; what is bound is a value."""
        value = self(node.value)
        return s.LetStmt(self.define(node.var, is_value=True), value, self(node.body))

    def rewrite_Let(self, node: e.Let) -> PrimExpr:  # noqa: N802
        """Copy a binding; what is bound is a value."""
        value = self(node.value)
        return e.Let(self.define(node.var, is_value=True), value, self(node.body))

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        """Copy an instance."""
        values = [self._index(value) for value in node.iter_values]
        return s.BlockRealize(values, self(node.predicate), self(node.block))

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        """Copy a block with axes, allocations and views of its own."""
        axes = []
        for axis in node.iter_vars:
            domain = self.maybe(axis.dom)
            axes.append(IterVar(domain, self.define(axis.var), axis.iter_type, axis.thread_tag))
        allocated = [self.define_buffer(buffer) for buffer in node.alloc_buffers]
        sources = [self(view.source) for view in node.match_buffers]
        views = [
            MatchBufferRegion(self.define_buffer(view.buffer), source)
            for view, source in zip(node.match_buffers, sources, strict=True)
        ]
        return node.with_(
            iter_vars=axes,
            reads=self.each(node.reads),
            writes=self.each(node.writes),
            body=self(node.body),
            init=self.maybe(node.init),
            alloc_buffers=allocated,
            match_buffers=views,
            annotations=self.value(node.annotations),
        )
