"""Sending the accesses of one element an instance to another buffer."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.rebuild import BlockRewriter
from tensorir.buffer import Buffer, BufferRegion
from tensorir.expr import BufferLoad, PrimExpr
from tensorir.stmt import Block, BlockRealize, BufferStore, For, Stmt


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
        if self._inside or node is self._block:
            before, self._inside = self._inside, True
            new = super().rewrite_Block(node)
            self._inside = before
            return new
        body = self(node.body)
        if body is node.body:
            return node
        self.reuse[node] = new = node.with_(body=body)
        return new

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        """Enter a loop; around the chosen block there is nothing else to redirect."""
        if self._inside:
            return self.generic(node)
        body = self(node.body)
        return node if body is node.body else node.with_(body=body)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        """Enter a block; see `rewrite_For`."""
        if self._inside:
            return self.generic(node)
        block = self(node.block)
        return (
            node if block is node.block else BlockRealize(node.iter_values, node.predicate, block)
        )

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
