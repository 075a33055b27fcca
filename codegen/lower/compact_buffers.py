"""Shrinking each allocated buffer to the part that one lifetime of it uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codegen.lower.forms import DIM_ALIGN, EXPLICIT_REGIONS
from codegen.lower.rewriters import ScopedRewriter
from tensorir.arith.const_interval import HALF_INFINITE
from tensorir.arith.linear import Linear
from tensorir.arith.linearize import Linearizer
from tensorir.arith.span import UNLIMITED, Ends, Span
from tensorir.arith.terms import reads_memory
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Ramp, Var
from tensorir.nodes.ops import const, floormod, mul
from tensorir.rewriting.element_rewriter import ElementRewriter
from tensorir.rewriting.visit import defined, statements


def compact_buffers(func: PrimFunc) -> PrimFunc:
    """Shrink every buffer of an opaque block to the region that is accessed below its allocation.

    Before: for i: alloc B[64]; for j in 4: B[i * 4 + j] = ...; for j in 4: ... = B[i * 4 + j]
    After:  for i: alloc B[4];  for j in 4: B[j] = ...;         for j in 4: ... = B[j]

    Loops inside the allocation are relaxed; loops outside stay symbolic in the offset that is
    subtracted from each index. Extents are constant upper bounds, or those of the buffer if there
    is not a bound. For blocks annotated with `explicit_read_region` or `explicit_write_region`, the
    declared regions count instead of the accesses; `buffer_dim_align` becomes strides. Buffers
    whose pointer the program uses stay unchanged.
    """
    return compact_to(func, LiveRegions(func))


def compact_to(func: PrimFunc, live: LiveRegions) -> PrimFunc:
    """Give every buffer of an opaque block the shape of its live region."""
    live(func.body)
    alignments = alignments_of(func.body)
    regions = {}
    for region in live.regions():
        padded = region.buffer in alignments and not region.has_fixed_layout
        if padded or region.changes_shape():
            region.compact = _compact(region, alignments.get(region.buffer, {}))
            regions[region.buffer] = region
    if not regions:
        return func
    return func.with_body(_Compact(func, regions)(func.body))


Alignment = dict[int, tuple[int, int]]
"""Factor and offset by axis."""


def alignments_of(body: s.Stmt) -> dict[Buffer, Alignment]:
    """Return the alignments of dimensions that blocks ask for (`Schedule.storage_align`)."""
    found: dict[Buffer, Alignment] = {}

    for node in statements(body):
        if isinstance(node, s.Block):
            for entry in node.annotations.get(DIM_ALIGN, ()):
                index, axis, factor, offset = (int(part) for part in entry)
                buffer = node.writes[index].buffer
                axis %= len(buffer.shape)
                found.setdefault(buffer, {})[axis] = (factor, offset)
    return found


def _compact(region: LiveRegion, alignment: Alignment) -> Buffer:
    strides = aligned_strides(region.shape, alignment) if alignment else ()
    return region.buffer.with_(shape=tuple(region.shape), strides=tuple(strides))


def aligned_strides(shape: Sequence[PrimExpr], alignment: Alignment) -> list[PrimExpr]:
    """Return the strides of a buffer: that of an aligned axis is `offset` modulo `factor`."""
    strides: list[PrimExpr] = []
    stride: PrimExpr = const(1, shape[-1].dtype)
    for axis in reversed(range(len(shape))):
        if axis in alignment:
            factor, offset = alignment[axis]
            stride = stride + floormod(factor + offset - floormod(stride, factor), factor)
        strides.insert(0, stride)
        stride = mul(stride, shape[axis])
    return strides


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


# ------------------------------------------------------------------------------------- live regions


Extent = tuple[Linear, Linear]
"""First and last index (inclusive), as linear combinations of variables outside the allocation."""


class LiveRegion:
    """The box of `buffer` that is used while one allocation of it lives.

    `low[k]` is the offset to subtract from the k-th index (None for 0), `shape[k]` the new extent.
    """

    __slots__ = ("buffer", "compact", "has_fixed_layout", "low", "shape")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.low: list[Linear | None] = [None] * len(buffer.shape)
        self.shape: list[PrimExpr] = list(buffer.shape)
        self.compact = buffer
        """The buffer that replaces it."""
        self.has_fixed_layout = False
        """True if the program uses the pointer, or another buffer shares the memory."""

    def changes_shape(self) -> bool:
        """Return True if an extent is smaller than in the buffer, or an index gets an offset."""
        same = all(a is b for a, b in zip(self.shape, self.buffer.shape, strict=True))
        return not same or any(low is not None for low in self.low)


class Uses:
    """The recorded accesses to one buffer."""

    __slots__ = ("buffer", "depth", "spans", "whole")

    def __init__(self, buffer: Buffer, depth: int) -> None:
        self.buffer = buffer
        self.depth = depth
        """The number of loops and lets around the allocation; variables defined inside are
        relaxed.
        """
        self.spans: list[list[Extent] | None] = [[] for _ in buffer.shape]
        """The recorded extents, by dimension; None after an unbounded access."""
        self.whole = False


class LiveRegions(ScopedRewriter):
    """Collects the accesses to every buffer that a block of the program allocates."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self._regions: list[LiveRegion] = []
        self._uses: dict[Var, Uses] = {}
        self._defined = 0
        """The number of loops and lets around the visited statement."""
        self._depth: dict[Var, int] = {}
        self._trusted_reads: set[Buffer] = set()
        self._trusted_writes: set[Buffer] = set()

    @property
    def _linear(self) -> Linearizer:
        return self.analyzer.linearizer

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        """Record a store."""
        if node.buffer not in self._trusted_writes:
            self._access(node.buffer, node.indices)
        return self.generic(node)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        """Record a load."""
        if node.buffer not in self._trusted_reads:
            self._access(node.buffer, node.indices)
        return self.generic(node)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Record a use of the pointer of a buffer."""
        uses = self._uses.get(node)
        if uses is not None:
            uses.whole = True
        return node

    def rewrite_For(self, node: s.For | s.LetStmt) -> s.Stmt:  # noqa: N802
        """Record the accesses in a loop or let."""
        (var,) = defined(node)
        outer = self._depth.get(var)
        self._depth[var] = self._defined
        self._defined += 1
        self.generic(node)
        self._defined -= 1
        if outer is not None:
            self._depth[var] = outer
        return node

    rewrite_LetStmt = rewrite_For  # noqa: N815

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        """Record the accesses in a block, and the live regions of its allocations."""
        for buffer in node.alloc_buffers:
            self._uses[buffer.data] = Uses(buffer, self._defined)
        for match in node.match_buffers:
            self._region(match.source)
        read, written = (_declared_regions(node, key) for key in EXPLICIT_REGIONS)
        for region in (*read, *written):
            self._region(region)
        outer = self._trusted_reads, self._trusted_writes
        self._trusted_reads = outer[0] | {region.buffer for region in read}
        self._trusted_writes = outer[1] | {region.buffer for region in written}
        self.maybe(node.init)
        self(node.body)
        self._trusted_reads, self._trusted_writes = outer
        for buffer in node.alloc_buffers:
            self._regions.append(self._live(self._uses[buffer.data]))
        return node

    def _region(self, region: BufferRegion) -> None:
        uses = self._uses.get(region.buffer.data)
        if uses is None:
            return
        if uses.buffer is not region.buffer:
            uses.whole = True
            return
        for k, dim in enumerate(region.region):
            first = self._range_below(dim.min, uses)
            last = self._range_below(dim.min + dim.extent - 1, uses)
            both = None if first is None or last is None else (first[0], last[1])
            self._add(uses, k, both)

    def _access(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> None:
        uses = self._uses.get(buffer.data)
        if uses is None:
            return
        if uses.buffer is not buffer:
            uses.whole = True
            return
        for k, index in enumerate(indices):
            self._add(uses, k, self.span(index, uses))

    def _add(self, uses: Uses, k: int, span: Extent | None) -> None:
        known = uses.spans[k]
        if known is None:
            return
        if span is None:
            uses.spans[k] = None
        elif all(span[0].key != a.key or span[1].key != b.key for a, b in known):
            known.append(span)

    # ---------------------------------------------------------------------------------- relaxation

    def span(self, index: PrimExpr, uses: Uses) -> Extent | None:
        """Return what an index covers while one allocation lives, None without a limit."""
        if index.dtype.lanes == 1:
            return self._range_below(index, uses)
        if type(index) is not Ramp or type(index.stride) is not IntImm:
            return None
        span = self._range_below(index.base, uses)
        reach = index.stride.value * (index.lanes - 1)
        if span is None:
            return None
        return span[0].plus_const(min(reach, 0)), span[1].plus_const(max(reach, 0))

    def _range_below(self, index: PrimExpr, uses: Uses) -> Extent | None:
        """Return the range of `index` while the variables defined inside the allocation vary.

        None if it is unbounded, or if a bound is loaded from memory.
        """
        span = Span(self._linear, lambda var: self._bounds_of(var, uses), known=True)
        low, high = span(self._linear(index))
        if low is None or high is None:
            return None
        if any(reads_memory(term) for end in (low, high) for term in end.terms):
            return None
        return low, high

    def is_inside(self, var: Var, uses: Uses) -> bool:
        """Return whether a variable takes all its values while one allocation lives."""
        return self._depth.get(var, -1) >= uses.depth

    def _bounds_of(self, var: Var, uses: Uses) -> Ends | None:
        """Return the bounds of a variable that is defined inside the allocation."""
        if not self.is_inside(var, uses):
            return None
        origin = self._linear.context.bound_to.get(var)
        if origin is None:
            return UNLIMITED
        if len(origin) == 1:
            return origin[0], origin[0]
        low, extent = origin
        return low, low.plus(extent).plus_const(-1)

    # -------------------------------------------------------------------------------------- result

    def regions(self) -> list[LiveRegion]:
        """Return the live region of each buffer, in the order in which their lifetimes end."""
        return self._regions

    def _live(self, uses: Uses) -> LiveRegion:
        region = LiveRegion(uses.buffer)
        region.has_fixed_layout = uses.whole
        if uses.whole or uses.buffer.strides:
            return region
        for k, spans in enumerate(uses.spans):
            if not spans:
                continue
            low = self._smallest_first_index(spans)
            if low is None:
                continue
            last = max(self._linear.bound(high.plus(low, -1))[1] for _, high in spans)
            extent = max(last + 1, 1)
            full = uses.buffer.shape[k]
            if not self.is_better(extent, full) or extent >= HALF_INFINITE:
                continue
            region.shape[k] = const(extent, full.dtype)
            if low.terms or low.const:
                region.low[k] = low
        return region

    def is_better(self, extent: int, full: PrimExpr) -> bool:
        """Return True if an extent is to replace that of a buffer."""
        return extent < self._linear.bound(self._linear(full))[1]

    def _smallest_first_index(self, spans: list[Extent]) -> Linear | None:
        """Return a combination that is provably at most every first index."""
        for candidate, _ in spans:
            if all(self._linear.bound(low.plus(candidate, -1))[0] >= 0 for low, _ in spans):
                return candidate
        return None


def _declared_regions(block: s.Block, key: str) -> list[BufferRegion]:
    regions = block.reads if key == EXPLICIT_REGIONS[0] else block.writes
    indices = block.annotations.get(key, ())
    if type(indices) is IntImm:
        indices = (indices,)
    return [regions[int(k)] for k in indices]
