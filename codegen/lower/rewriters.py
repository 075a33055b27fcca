"""The rewriters that passes are made of: those of statements only, and of shared expressions."""

from __future__ import annotations

from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, PrimExpr
from tensorir.rewriting.visit import Rewriter


class StatementRewriter(Rewriter):
    """A rewriter that leaves expressions, stores and what is evaluated as they are."""

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Return an expression unchanged."""
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        """Return a store unchanged."""
        return node


class SharedRewriter(Rewriter):
    """A rewriter that rewrites each expression once: copies of an unrolled body share many.

    Subclasses say what becomes of loads.
    """

    def __init__(self) -> None:
        self._memo: dict[PrimExpr, PrimExpr] = {}

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Return an expression rewritten, once."""
        known = self._memo.get(node)
        if known is None:
            known = self._memo[node] = self.generic(node)
        return known

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        """Return the replacement of a load, computed once."""
        known = self._memo.get(node)
        if known is None:
            known = self._memo[node] = self.load(node)
        return known

    def load(self, node: BufferLoad) -> PrimExpr:
        """Return the replacement of a load."""
        return self.generic(node)
