"""From multi-dimensional buffers to offsets into memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from codegen.errors import LoweringError
from codegen.lower.hoist_allocations import MOST_BYTES
from codegen.lower.indices import as_ramp
from codegen.lower.lower_match_buffers import offset_of
from codegen.lower.rewriters import ScopedRewriter
from tensorir.arith.linear import Linear, Term
from tensorir.arith.linearize import Linearizer
from tensorir.arith.terms import variables_of
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, wide_index
from tensorir.nodes.dtype import INT32, INT64, DataType
from tensorir.nodes.expr import Add, BufferLoad, IntImm, PrimExpr, Ramp, Sub, Var
from tensorir.nodes.ops import add, cast, const, is_const_int, mul
from tensorir.rewriting.visit import children, defined

_INT32_ELEMENTS: Final = 1 << 31
"""Buffers with fewer elements are indexed in int32."""


def flatten_buffers(func: PrimFunc) -> PrimFunc:
    """Access every buffer through one index: offset plus indices times strides.

    Before: B: (16, 8); B[i * 4 + a, b]
    After:  B: (128);   B[i * 32 + a * 8 + b]

    The terms of an index are in the nesting order of the loops that they use, outermost first, so
    that the copies of an unrolled body share the first terms. Axis separators, which group
    dimensions for other memories, are ignored in row-major memory. An index into 2**31 elements
    or more, or an unknown number, is int64. Parameters keep their shape in `buffer_map`, by which
    the runtime checks arguments.
    """
    return func.with_body(_Flatten(func)(func.body))


def _check_bytes(node: s.Allocate) -> None:
    """Raise LoweringError for a buffer that is larger than the address space."""
    known = _constant_product(node.extents) * node.dtype.nbytes
    if known > MOST_BYTES:
        shape = ", ".join(str(n.value if isinstance(n, IntImm) else n) for n in node.extents)
        raise LoweringError(
            f"the buffer {node.buffer_var.name} of shape ({shape}) would have {known:,} bytes or "
            "more, which exceeds the address space"
        )


class _Flatten(ScopedRewriter):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self._flat: dict[Buffer, Buffer] = {}
        self._strides: dict[Buffer, tuple[PrimExpr, ...]] = {}
        self._depth = _loop_depths(func.body)
        self._written: dict[tuple[object, DataType], PrimExpr] = {}
        """Flat indices of the current `_scope`, so that equal indices of a statement share an
        expression.
        """
        self._scope: object = None

    @property
    def _linear(self) -> Linearizer:
        return self.analyzer.linearizer

    def buffer(self, buffer: Buffer) -> Buffer:
        flat = self._flat.get(buffer)
        if flat is None:
            wide = _with_wide_sizes(buffer)
            flat = self._flat[buffer] = flatten_buffer(wide)
            self._strides[buffer] = wide.all_strides()
        return flat

    def rewrite_DeclBuffer(self, node: s.DeclBuffer) -> s.Stmt:  # noqa: N802
        return self(node.body)

    def rewrite_Allocate(self, node: s.Allocate) -> s.Stmt:  # noqa: N802
        new = self.generic(node)
        size: PrimExpr = const(1, wide_index(node.extents[0].dtype) if node.extents else INT32)
        _check_bytes(new)
        if _constant_product(new.extents) >= _INT32_ELEMENTS:
            size = const(1, INT64)
        for extent in new.extents:
            size = mul(size, extent)
        extents = (self.analyzer.simplify(size),)
        return new if extents == new.extents else new.with_(extents=extents)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        flat = self.buffer(node.buffer)
        index = self._index(node.buffer, node.indices)
        return BufferLoad(flat, (index,), self.maybe(node.predicate))

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        flat = self.buffer(node.buffer)
        value = self(node.value)
        index = self._index(node.buffer, node.indices)
        return s.BufferStore(flat, value, (index,), self.maybe(node.predicate))

    def _index(self, buffer: Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        indices = self.each(indices)
        strides = [self._linear(stride) for stride in self._strides[buffer]]
        offset = self._linear(buffer.elem_offset)
        dtype = index_dtype(buffer, indices)
        is_vector = bool(indices) and indices[-1].dtype.lanes > 1
        scalars = indices[:-1] if is_vector else indices
        for index, stride in zip(scalars, strides, strict=False):
            offset = self._plus_scaled(offset, self._linear(index), stride)
        if not is_vector:
            return self._write(offset, dtype)
        last, stride = as_ramp(indices[-1]), strides[-1]
        if type(last) is Ramp:
            base = self._plus_scaled(offset, self._linear(last.base), stride)
            step = self._linear.product(self._linear(last.stride), stride)
            return Ramp(self._write(base, dtype), self._write(step, dtype), last.lanes)
        lanes = last.dtype.lanes
        # Simplified like the other indices, which removes the variables of loops that run once.
        last = self.analyzer.simplify(last)
        vector = mul(cast(dtype.with_lanes(lanes), last), self._write(stride, dtype))
        return add(self._write(offset, dtype), vector)

    def _plus_scaled(self, offset: Linear, index: Linear, stride: Linear) -> Linear:
        if stride.terms:
            return offset.plus(self._linear.product(index, stride))
        return offset.plus(index, stride.const)

    def _write(self, index: Linear, dtype: DataType) -> PrimExpr:
        if self._scope is not self._linear.context:
            self._scope, self._written = self._linear.context, {}
        key = (index.key, dtype)
        known = self._written.get(key)
        if known is None:
            known = self._written[key] = self._write_outermost_first(index, dtype)
        return known

    def _write_outermost_first(self, index: Linear, dtype: DataType) -> PrimExpr:
        groups: dict[int, dict[Term, int]] = {}
        for term, coefficient in index.terms.items():
            groups.setdefault(self._depth_of(term), {})[term] = coefficient
        if not groups:
            return const(index.const, dtype)
        depths = sorted(groups)
        result: PrimExpr | None = None
        for depth in depths:
            part = Linear(groups[depth], index.const if depth == depths[-1] else 0)
            result = self._sum(result, part, dtype)
        assert result is not None
        return result

    def _sum(self, left: PrimExpr | None, part: Linear, dtype: DataType) -> PrimExpr:
        if left is None:
            return self._linear.write(part, dtype)
        constant = part.const
        terms = Linear(part.terms, 0)
        if all(c < 0 for c in part.terms.values()):
            total = left - self._linear.write(terms.times(-1), dtype)
        else:
            total = add(left, self._linear.write(terms, dtype))
        return total if constant == 0 else plus_constant(total, constant)

    def _depth_of(self, term: Term) -> int:
        if isinstance(term, Var):
            return self._depth.get(term, 0)
        return max((self._depth.get(var, 0) for var in variables_of(term)), default=0)


def plus_constant(index: PrimExpr, value: int) -> PrimExpr:
    """Return `index + value`, written as a difference where `value` is negative."""
    if value < 0:
        return Sub(index, const(-value, index.dtype))
    return Add(index, const(value, index.dtype))


def _loop_depths(body: s.Stmt) -> dict[Var, int]:
    """Return the nesting depth of each loop variable and let variable."""
    depths: dict[Var, int] = {}

    def visit(node: s.Stmt, depth: int) -> None:
        for var in defined(node) if isinstance(node, (s.For, s.LetStmt)) else ():
            depths[var] = max(depth, depths.get(var, 0))
            depth += 1
        for part in children(node):
            if isinstance(part, s.Stmt):
                visit(part, depth)

    visit(body, 1)
    return depths


def _constant_product(extents: Iterable[PrimExpr]) -> int:
    return math.prod(n.value for n in extents if isinstance(n, IntImm))


def _with_wide_sizes(buffer: Buffer) -> Buffer:
    """Return a buffer with sizes of int64 if int32 cannot hold its constant number of elements.

    Constants would wrap around when they are multiplied.
    """
    by_dim = zip(buffer.shape, buffer.strides, strict=True) if buffer.strides else [buffer.shape]
    parts = [(buffer.elem_offset,), *by_dim]
    if sum(map(_constant_product, parts)) < _INT32_ELEMENTS:
        return buffer
    return buffer.with_(
        shape=tuple(n.astype(INT64) for n in buffer.shape),
        strides=tuple(n.astype(INT64) for n in buffer.strides),
        elem_offset=buffer.elem_offset.astype(INT64),
    )


def flatten_buffer(buffer: Buffer) -> Buffer:
    """Return the rank-1 buffer over the same memory."""
    if len(buffer.shape) == 1 and not buffer.strides and is_const_int(buffer.elem_offset, 0):
        return buffer
    size: PrimExpr = const(1, wide_index(buffer.shape[0].dtype) if buffer.shape else INT32)
    if buffer.strides:
        # The index of the last element that the strides reach.
        for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
            size = add(size, mul(extent - 1, stride))
    else:
        for extent in buffer.shape:
            size = mul(size, extent)
    return buffer.with_(
        shape=(size,), strides=(), elem_offset=const(0, size.dtype), axis_separators=()
    )


def index_dtype(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> DataType:
    """Return a dtype that holds every offset into `buffer`."""
    if any(index.dtype.bits == 64 for index in indices):
        return INT64
    buffer = _with_wide_sizes(buffer)
    size = offset_of(buffer, buffer.shape, buffer.all_strides())
    return INT32 if type(size) is IntImm and size.value < _INT32_ELEMENTS else INT64
