"""The rewriters that passes are made of: those of statements only, and of shared expressions."""

from __future__ import annotations

from typing import Any, TypeVar

from tensorir.nodes import stmt as s
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import Rewriter

N = TypeVar("N", bound=Node)


def changed(node: N, **fields: Any) -> N:
    """Return a node that differs in some fields, itself if it differs in none of them."""
    same = all(getattr(node, name) is value for name, value in fields.items())
    return node if same else node.with_(**fields)


class StatementRewriter(Rewriter):
    """A rewriter that leaves expressions, stores and what is evaluated as they are."""

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Return an expression as it is."""
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        """Return a store as it is."""
        return node


class SharedRewriter(Rewriter):
    """A rewriter that rewrites each expression once: copies of an unrolled body share many.

    Subclasses override `changed` for the expressions that change.
    """

    def __init__(self) -> None:
        self._memo: dict[PrimExpr, PrimExpr] = {}

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Return what an expression was rewritten to before, else `changed`."""
        known = self._memo.get(node)
        if known is None:
            known = self._memo[node] = self.expression(node)
        return known

    def expression(self, node: PrimExpr) -> PrimExpr:
        """Return an expression rewritten."""
        return self.generic(node)
