"""Doing without the views that `match_buffer` makes of a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.rebuild import BlockRewriter
from tensorir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tensorir.expr import BufferLoad, PrimExpr, Var
from tensorir.ops import add, const
from tensorir.stmt import Block, BufferStore, Stmt
from tensorir.visit import walk


class InlineViews(BlockRewriter):
    """Lets what goes through views of a buffer, and views of these, go to the buffer itself.

    Before: V = T.match_buffer(A[vi, 0:8], (8,)); V[j] = x
    After:  A[vi, j] = x

    `is_complete` says whether nothing but loads and stores used the views.
    """

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self._buffer = buffer
        self._sources: dict[Buffer, BufferRegion] = {}
        self._extents: dict[Var, PrimExpr] = {}
        self._memory: set[Var] = set()
        """The pointers, strides and offsets of the views, which are no more."""

    def is_complete(self, stmt: Stmt) -> bool:
        """Say whether a rewritten statement can do without the views."""
        return not any(node in self._memory for node in walk(stmt) if type(node) is Var)

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Take the views out of a block."""
        kept: list[MatchBufferRegion] = []
        for match in node.match_buffers:
            source = self(match.source)
            if source.buffer is self._buffer:
                self._define(match.buffer, source)
            else:
                kept.append(match)
        if len(kept) == len(node.match_buffers):
            return super().rewrite_Block(node)
        plain = node.with_(match_buffers=kept)
        new = super().rewrite_Block(plain)
        self.reuse.pop(plain, None)
        self.reuse[node] = new
        return new

    def _define(self, view: Buffer, source: BufferRegion) -> None:
        self._sources[view] = source
        surplus = len(source.region) - len(view.shape)
        for extent, dim in zip(view.shape, source.region[surplus:], strict=True):
            if type(extent) is Var:
                self._extents[extent] = dim.extent
        memory = (view.data, view.elem_offset, *view.strides)
        self._memory.update(var for var in memory if type(var) is Var)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Replace the extents of views."""
        return self._extents.get(node, node)

    def _indices(self, source: BufferRegion, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        surplus = len(source.region) - len(indices)
        starts = [dim.min for dim in source.region]
        inner = [add(start, i) for start, i in zip(starts[surplus:], indices, strict=True)]
        return [*starts[:surplus], *inner]

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        """Load from the buffer."""
        source = self._sources.get(node.buffer)
        if source is None:
            return self.generic(node)
        indices = self._indices(source, self.each(node.indices))
        return BufferLoad(source.buffer, indices, self.maybe(node.predicate))

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:  # noqa: N802
        """Store to the buffer."""
        source = self._sources.get(node.buffer)
        if source is None:
            return self.generic(node)
        indices = self._indices(source, self.each(node.indices))
        return BufferStore(source.buffer, self(node.value), indices, self.maybe(node.predicate))

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:  # noqa: N802
        """Declare an access of the buffer."""
        source = self._sources.get(node.buffer)
        if source is None:
            return self.generic(node)
        starts = self._indices(source, [self(dim.min) for dim in node.region])
        surplus = len(source.region) - len(node.region)
        extents = [const(1, start.dtype) for start in starts[:surplus]]
        extents += [self(dim.extent) for dim in node.region]
        pairs = zip(starts, extents, strict=True)
        return BufferRegion(source.buffer, [Range.from_min_extent(a, n) for a, n in pairs])
