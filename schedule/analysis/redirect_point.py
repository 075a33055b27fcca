"""Sending the accesses of one element an instance to another buffer."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.rebuild import BlockRewriter
from tensorir.buffer import Buffer, BufferRegion
from tensorir.expr import BufferLoad, PrimExpr
from tensorir.stmt import Block, BufferStore, Stmt


class RedirectPoint(BlockRewriter):
    """Sends what a block does with `old` to the element of `new` at `indices`.

    For blocks whose every instance touches a single element of `old`.
    """

    def __init__(self, block: Block, old: Buffer, new: Buffer, indices: Sequence[PrimExpr]) -> None:
        super().__init__()
        self._block = block
        self._old = old
        self._new = new
        self._indices = tuple(indices)
        self._inside = False

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Enter a block; in the chosen one accesses are redirected."""
        before = self._inside
        self._inside = before or node is self._block
        new = super().rewrite_Block(node)
        self._inside = before
        return new

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        """Redirect a load."""
        if not self._inside or node.buffer is not self._old:
            return self.generic(node)
        return BufferLoad(self._new, self._indices)

    def rewrite_BufferStore(self, node: BufferStore) -> Stmt:  # noqa: N802
        """Redirect a store."""
        if not self._inside or node.buffer is not self._old:
            return self.generic(node)
        return BufferStore(self._new, self(node.value), self._indices)

    def rewrite_BufferRegion(self, node: BufferRegion) -> BufferRegion:  # noqa: N802
        """Redirect a declared access."""
        if not self._inside or node.buffer is not self._old:
            return self.generic(node)
        return BufferRegion.from_point(self._new, self._indices)
