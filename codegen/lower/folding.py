"""Rebuilding arithmetic with the constants folded that a substitution brings in."""

from __future__ import annotations

from tensorir.nodes import expr as e
from tensorir.nodes.expr import IntImm, PrimExpr, integer_limits
from tensorir.nodes.ops import add, compare, const, fold_binary, logical_and, logical_or, mul, sub


def rebuild_binary(node: e.BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return `node` with operands `a` and `b`, folding integer constants.

    `base + 3 + 4` becomes `base + 7`, so that indices that differ by a constant keep their common
    part.
    """
    if a is node.a and b is node.b:
        return node
    kind = type(node)
    if type(b) is IntImm:
        if kind is e.Add:
            return plus(a, b.value) if b.dtype.is_int else add(a, b)
        if kind is e.Sub and b.dtype.is_int:
            return plus(a, -b.value)
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


def plus(index: PrimExpr, value: int) -> PrimExpr:
    """Return `index + value` with one constant at the end, which wraps as the type does."""
    base = index
    if isinstance(index, e.Add) and isinstance(index.b, IntImm):
        base, value = index.a, index.b.value + value
    elif isinstance(index, e.Sub) and isinstance(index.b, IntImm):
        base, value = index.a, value - index.b.value
    low, high = integer_limits(index.dtype)
    value = (value - low) % (high - low + 1) + low
    if low < value < 0:
        return sub(base, const(-value, index.dtype))
    return add(base, const(value, index.dtype))
