"""Shrinking each allocated buffer to the part that one lifetime of it uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codegen.lower.annotations import DIM_ALIGN
from codegen.lower.live_region import LiveRegion, LiveRegions
from codegen.lower.scoped_facts import ScopedRewriter
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import PrimExpr, Ramp
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const, floormod, mul
from tensorir.rewriting.element_rewriter import ElementRewriter
from tensorir.rewriting.visit import pre_order_visit


def compact_buffers(func: PrimFunc) -> PrimFunc:
    """Give every buffer of an opaque block the shape of what is accessed below its allocation.

    Before: for i: alloc B[64]; for j in 4: B[i * 4 + j] = ...; for j in 4: ... = B[i * 4 + j]
    After:  for i: alloc B[4];  for j in 4: B[j] = ...;         for j in 4: ... = B[j]

    Loops inside the allocation are relaxed, loops outside stay symbolic in the offset that is
    taken from each index. Extents are constant upper bounds, or those of the buffer where there is
    none. Blocks annotated with `explicit_read_region` or `explicit_write_region` count with what
    they declare instead of what they access; `buffer_dim_align` becomes strides. Buffers whose
    pointer the program has stay as they are.
    """
    live = LiveRegions(func)
    live(func.body)
    alignments = _alignments(func.body)
    regions = {}
    for region in live.regions():
        padded = region.buffer in alignments and not region.has_fixed_layout
        if padded or region.changes_shape():
            region.compact = _compacted(region, alignments.get(region.buffer, {}))
            regions[region.buffer] = region
    if not regions:
        return func
    return func.with_body(_Compact(func, regions)(func.body))


Alignment = dict[int, tuple[int, int]]
"""Factor and offset by axis."""


def _alignments(body: s.Stmt) -> dict[Buffer, Alignment]:
    found: dict[Buffer, Alignment] = {}

    def visit(node: Node) -> bool | None:
        kind = type(node)
        if kind is s.Block:
            for entry in node.annotations.get(DIM_ALIGN, ()):  # type: ignore[attr-defined]
                index, axis, factor, offset = (int(part) for part in entry)
                buffer = node.writes[index].buffer  # type: ignore[attr-defined]
                axis %= len(buffer.shape)
                found.setdefault(buffer, {})[axis] = (factor, offset)
        return not (kind is s.BufferStore or kind is s.Evaluate or isinstance(node, PrimExpr))

    pre_order_visit(body, visit)
    return found


def _compacted(region: LiveRegion, alignment: Alignment) -> Buffer:
    shape = region.shape
    strides: list[PrimExpr] = []
    if alignment:
        stride: PrimExpr = const(1, shape[-1].dtype)
        for axis in reversed(range(len(shape))):
            if axis in alignment:
                factor, offset = alignment[axis]
                stride = stride + floormod(factor + offset - floormod(stride, factor), factor)
            strides.insert(0, stride)
            stride = mul(stride, shape[axis])
    return region.buffer.with_(shape=tuple(shape), strides=tuple(strides))


class _Compact(ElementRewriter, ScopedRewriter):
    def __init__(self, func: PrimFunc, regions: dict[Buffer, LiveRegion]) -> None:
        super().__init__(func)
        self._regions = regions

    def buffer(self, buffer: Buffer) -> Buffer:
        region = self._regions.get(buffer)
        return buffer if region is None else region.compact

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        return tuple(
            index if low is None else self._shift(index, low)
            for index, low in zip(indices, self._regions[buffer].low, strict=True)
        )

    def _shift(self, index: PrimExpr, low: Any) -> PrimExpr:
        if index.dtype.lanes == 1:
            linear = self.analyzer.linearizer
            return linear.write(linear(index).plus(low, -1), index.dtype)
        if type(index) is Ramp:
            return Ramp(self._shift(index.base, low), index.stride, index.lanes)
        return index - self.analyzer.linearizer.write(low, index.dtype.element)
