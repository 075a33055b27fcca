"""Doing without the views that `match_buffer` makes of a buffer."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.redirect import RedirectElements
from tensorir.nodes.buffer import Buffer, BufferRegion, MatchBufferRegion
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.stmt import Block, Stmt
from tensorir.rewriting.element_rewriter import indices_in_source
from tensorir.rewriting.visit import walk


class InlineViews(RedirectElements):
    """Redirects accesses through views of a buffer, and views of these, to the buffer itself.

    Before: V = T.match_buffer(A[vi, 0:8], (8,)); V[j] = x
    After:  A[vi, j] = x

    `is_complete` is True if only loads and stores used the views.
    """

    def __init__(self, buffer: Buffer) -> None:
        super().__init__({}, None)
        self._buffer = buffer
        self._sources: dict[Buffer, BufferRegion] = {}
        self._extents: dict[Var, PrimExpr] = {}
        self._memory: set[Var] = set()
        """The pointers, strides and offsets of the removed views."""

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
        self._buffers[view] = source.buffer
        surplus = len(source.region) - len(view.shape)
        for extent, dim in zip(view.shape, source.region[surplus:], strict=True):
            if type(extent) is Var:
                self._extents[extent] = dim.extent
        memory = (view.data, view.elem_offset, *view.strides)
        self._memory.update(var for var in memory if type(var) is Var)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        """Replace the extents of views."""
        return self._extents.get(node, node)

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return the indices in the buffer of an element of a view."""
        return indices_in_source(self._sources[buffer], indices)
