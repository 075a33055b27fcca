"""Redirection of buffer accesses to elements of other buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, PrimExpr
from tensorir.nodes.ops import add, const
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import Rewriter


class ElementRewriter(Rewriter):
    """Redirects accesses to buffers that `buffer` replaces; `indices` returns the new indices."""

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        """Return the indices of a buffer's element at `indices` in the buffer that replaces it."""
        raise NotImplementedError

    def region(self, buffer: Buffer, region: Sequence[Range]) -> Sequence[Range]:
        """Return the region of a part of a buffer in the buffer that replaces it.

        It is the box of the same extents that begins at the first element of the part. Additional
        leading dimensions of the other buffer have extent 1.
        """
        starts = self.indices(buffer, tuple(dim.min for dim in region))
        surplus = len(starts) - len(region)
        extents = [const(1, start.dtype) for start in starts[:surplus]]
        extents += [dim.extent for dim in region]
        return [Range.from_min_extent(a, n) for a, n in zip(starts, extents, strict=True)]

    def rewrite_BufferLoad(self, node: BufferLoad | BufferStore) -> Any:  # noqa: N802
        """Redirect a load or a store."""
        new = self.buffer(node.buffer)
        if new is node.buffer:
            return self.generic(node)
        indices = self.indices(node.buffer, self.each(node.indices))
        if isinstance(node, BufferStore):
            return BufferStore(new, self(node.value), indices, self.maybe(node.predicate))
        return BufferLoad(new, indices, self.maybe(node.predicate))

    rewrite_BufferStore = rewrite_BufferLoad  # noqa: N815

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:  # noqa: N802
        """Redirect a declared access."""
        new = self.buffer(node.buffer)
        if new is node.buffer:
            return self.generic(node)
        return BufferRegion(new, self.region(node.buffer, self.each(node.region)))


def indices_in_source(source: BufferRegion, indices: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the indices, in the source buffer, of the element of a view at `indices`.

    A view begins at the start of its source region, and may lack leading dimensions.
    """
    starts = [dim.min for dim in source.region]
    surplus = len(starts) - len(indices)
    inner = [add(start, i) for start, i in zip(starts[surplus:], indices, strict=True)]
    return [*starts[:surplus], *inner]
