"""Simplifying expressions of every kind; an analyzer does it for integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tensorir import expr as e
from tensorir.arith.comparing import NEGATION
from tensorir.arith.linearize import expr_key, is_integer
from tensorir.expr import IntImm, PrimExpr
from tensorir.ops import (
    FALSE,
    all_of,
    conjuncts,
    fold_binary,
    if_then_else,
    logical_not,
    logical_or,
)
from tensorir.visit import Rewriter

if TYPE_CHECKING:
    from tensorir.arith.analyzer import Analyzer


def simplifier(analyzer: Analyzer) -> _Simplifier:
    """Return what simplifies expressions by what `analyzer` knows when it is called."""
    return _Simplifier(analyzer)


_INTEGER_NODES: Final = frozenset(
    {e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max, e.Var, e.SizeVar}
)


class _Simplifier(Rewriter):
    """Simplifies expressions of every kind; integers through the analyzer's linear form."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer

    def __call__(self, node: Any) -> Any:
        kind = type(node)
        if kind is IntImm:
            return node
        if kind in _INTEGER_NODES and is_integer(node):
            return self._analyzer.integer(node)
        if kind is e.Cast and is_integer(node) and is_integer(node.value):
            return self._analyzer.integer(node)
        return super().__call__(node)

    def each(self, nodes: Any) -> Any:
        new = tuple([self(n) for n in nodes])
        return new if any(a is not b for a, b in zip(new, nodes, strict=True)) else nodes

    def operands(self, node: PrimExpr) -> PrimExpr:
        """Return an expression that is not linear with its operands simplified."""
        return super().__call__(node)

    def rewrite_BinaryOp(self, node: e.BinaryOp) -> PrimExpr:  # noqa: N802
        a, b = self(node.a), self(node.b)
        if a.dtype.lanes == 1 and not isinstance(node, (e.CmpOp, e.LogicalOp)):
            divides_by_zero = isinstance(b, IntImm) and b.value == 0
            folded = None if divides_by_zero else fold_binary(type(node), a, b)
            if folded is not None:
                return folded
        return node if a is node.a and b is node.b else type(node)(a, b)

    def rewrite_CmpOp(self, node: e.CmpOp) -> PrimExpr:  # noqa: N802
        if is_integer(node.a):
            return self._analyzer.compare(node)
        if type(node) in (e.GT, e.GE):
            return self({e.GT: e.LT, e.GE: e.LE}[type(node)](node.b, node.a))  # type: ignore[no-any-return]
        return self.rewrite_BinaryOp(node)

    def rewrite_And(self, node: e.And) -> PrimExpr:  # noqa: N802
        if node.dtype.lanes > 1:
            return self.rewrite_BinaryOp(node)
        return all_of(_distinct([q for p in conjuncts(node) for q in conjuncts(self(p))]))

    def rewrite_Or(self, node: e.Or) -> PrimExpr:  # noqa: N802
        if node.dtype.lanes > 1:
            return self.rewrite_BinaryOp(node)
        parts = _distinct([q for p in _alternatives(node) for q in _alternatives(self(p))])
        result: PrimExpr = FALSE
        for part in parts:
            result = logical_or(result, part)
        return result

    def rewrite_Not(self, node: e.Not) -> PrimExpr:  # noqa: N802
        if isinstance(node.a, e.CmpOp) and is_integer(node.a.a):
            negated: PrimExpr = self(NEGATION[type(node.a)](node.a.a, node.a.b))
            return negated
        if isinstance(node.a, e.Not):
            inner_most: PrimExpr = self(node.a.a)
            return inner_most
        if isinstance(node.a, e.And) and node.dtype.lanes == 1:
            return self(e.Or(e.Not(node.a.a), e.Not(node.a.b)))  # type: ignore[no-any-return]
        if isinstance(node.a, e.Or) and node.dtype.lanes == 1:
            return self(e.And(e.Not(node.a.a), e.Not(node.a.b)))  # type: ignore[no-any-return]
        inner = self(node.a)
        return logical_not(inner) if inner.dtype.lanes == 1 else e.Not(inner)

    def rewrite_Select(self, node: e.Select) -> PrimExpr:  # noqa: N802
        condition = self(node.condition)
        if isinstance(condition, IntImm):
            return self(node.true_value if condition.value else node.false_value)  # type: ignore[no-any-return]
        t, f = self(node.true_value), self(node.false_value)
        same = condition is node.condition and t is node.true_value and f is node.false_value
        return node if same else e.Select(condition, t, f)

    def rewrite_Call(self, node: e.Call) -> PrimExpr:  # noqa: N802
        if getattr(node.op, "short_name", "") == "if_then_else":
            return self._if_then_else(node)
        return self.generic(node)

    def _if_then_else(self, node: e.Call) -> PrimExpr:
        condition = self(node.args[0])
        if isinstance(condition, IntImm):
            return self(node.args[1] if condition.value else node.args[2])  # type: ignore[no-any-return]
        with self._analyzer.constraint_scope(condition):
            t = self(node.args[1])
        with self._analyzer.constraint_scope(logical_not(condition)):
            f = self(node.args[2])
        old = node.args
        if condition is old[0] and t is old[1] and f is old[2]:
            return node
        return if_then_else(condition, t, f)

    def rewrite_Cast(self, node: e.Cast) -> PrimExpr:  # noqa: N802
        value = self(node.value)
        if isinstance(value, IntImm) and node.dtype.is_integral:
            return value.astype(node.dtype)
        return node if value is node.value else e.Cast(node.dtype, value)

    def rewrite_Ramp(self, node: e.Ramp) -> PrimExpr:  # noqa: N802
        base, stride = self(node.base), self(node.stride)
        same = base is node.base and stride is node.stride
        return node if same else e.Ramp(base, stride, node.lanes)


def _alternatives(node: PrimExpr) -> list[PrimExpr]:
    """Return the conditions whose disjunction a condition is, in the order written."""
    if isinstance(node, e.Or):
        return [*_alternatives(node.a), *_alternatives(node.b)]
    return [node]


def _distinct(parts: list[PrimExpr]) -> list[PrimExpr]:
    seen: dict[Any, PrimExpr] = {}
    for part in parts:
        seen.setdefault(expr_key(part), part)
    return list(seen.values())
