"""Substitution that folds the constants it brings in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tensorir import expr as e
from tensorir import stmt as s
from tensorir.expr import IntImm, PrimExpr, Var
from tensorir.node import Node
from tensorir.ops import add, compare, fold_binary, logical_and, logical_or, mul, sub
from tensorir.visit import Rewriter

N = TypeVar("N", bound=Node)


def substitute_folding(node: N, values: Mapping[Var, PrimExpr]) -> N:
    """Return `node` with variables replaced and what became constant computed.

    `base + 3 + 4` becomes `base + 7`, so that indices that differ by a constant keep their common
    part.
    """
    return _Substitute(values)(node)


class _Substitute(Rewriter):
    def __init__(self, values: Mapping[Var, PrimExpr]) -> None:
        self._values = values

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        return self._values.get(node, node)

    def rewrite_BinaryOp(self, node: e.BinaryOp) -> PrimExpr:  # noqa: N802
        return rebuild_binary(node, self(node.a), self(node.b))

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        new = self.generic(node)
        if type(new.condition) is not IntImm:
            return new
        taken = new.then_case if new.condition.value else new.else_case
        return s.sequence([taken])


def rebuild_binary(node: e.BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return `node` with operands `a` and `b`, folding integer constants."""
    if a is node.a and b is node.b:
        return node
    kind = type(node)
    if type(b) is IntImm:
        if kind is e.Add:
            return _plus(a, b.value) if b.dtype.is_int else add(a, b)
        if kind is e.Sub and b.dtype.is_int:
            return _plus(a, -b.value)
        if kind is e.Mul:
            return mul(a, b)
    if type(a) is IntImm:
        if kind is e.Add:
            return add(a, b)
        if kind is e.Mul:
            return mul(a, b)
        if kind is e.Sub:
            return sub(a, b)
    if isinstance(node, e.CmpOp):
        return compare(kind, a, b)  # type: ignore[arg-type]
    if kind is e.And and a.dtype.lanes == 1:
        return logical_and(a, b)
    if kind is e.Or and a.dtype.lanes == 1:
        return logical_or(a, b)
    if type(b) is IntImm and (b.value or type(a) is not IntImm):
        folded = fold_binary(kind, a, b) if b.value else None
        if folded is not None:
            return folded
    return kind(a, b)


def _plus(index: PrimExpr, value: int) -> PrimExpr:
    """Return `index + value` with one constant at the end."""
    base = index
    if isinstance(index, e.Add) and isinstance(index.b, IntImm):
        base, value = index.a, index.b.value + value
    elif isinstance(index, e.Sub) and isinstance(index.b, IntImm):
        base, value = index.a, value - index.b.value
    return sub(base, -value) if value < 0 else add(base, value)
