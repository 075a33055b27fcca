"""Indices: constants at their ends, and vectors whose lanes are a constant step apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tensorir.nodes import expr as e
from tensorir.nodes.expr import (
    LT,
    Add,
    And,
    Broadcast,
    IntImm,
    PrimExpr,
    Ramp,
    Sub,
    integer_limits,
)
from tensorir.nodes.ops import (
    add,
    compare,
    const,
    fold_binary,
    is_const_int,
    logical_and,
    logical_or,
    mul,
    sub,
)


def as_ramp(index: PrimExpr) -> PrimExpr:
    """Return the sum of a ramp and a broadcast as one ramp."""
    if type(index) is Add:
        a, b = as_ramp(index.a), as_ramp(index.b)
        if type(a) is Broadcast and type(b) is Ramp:
            return Ramp(add(a.value, b.base), b.stride, b.lanes)
        if type(a) is Ramp and type(b) is Broadcast:
            return Ramp(add(a.base, b.value), a.stride, a.lanes)
    return index


def run_of(index: PrimExpr) -> tuple[PrimExpr, int] | None:
    """Return the first index and the number of lanes, None if the lanes are not contiguous."""
    if type(index) is Ramp:
        is_run = type(index.stride) is IntImm and index.stride.value == 1
        return (index.base, index.lanes) if is_run else None
    return (index, 1) if index.dtype.lanes == 1 else None


def split_constant(index: PrimExpr) -> tuple[PrimExpr | None, int]:
    """Return `index` as an expression (None for 0) plus a constant."""
    kind = type(index)
    if kind is IntImm:
        return None, index.value  # type: ignore[attr-defined]
    if kind is Add and type(index.b) is IntImm:  # type: ignore[attr-defined]
        return index.a, index.b.value  # type: ignore[attr-defined]
    if kind is Sub and type(index.b) is IntImm:  # type: ignore[attr-defined]
        return index.a, -index.b.value  # type: ignore[attr-defined]
    return index, 0


def leading_lanes(mask: PrimExpr | None, lanes: int) -> int:
    """Return a number of lanes after which a mask is false, by default all lanes."""
    if isinstance(mask, And):
        return min(leading_lanes(mask.a, lanes), leading_lanes(mask.b, lanes))
    if isinstance(mask, LT) and isinstance(mask.a, Ramp) and isinstance(mask.b, Broadcast):
        first, limit = mask.a.base, mask.b.value
        if (
            isinstance(first, IntImm)
            and isinstance(limit, IntImm)
            and is_const_int(mask.a.stride, 1)
        ):
            return max(0, min(lanes, limit.value - first.value))
    return lanes


_FOLDING: Final[dict[type, Callable[[PrimExpr, PrimExpr], PrimExpr]]] = {
    Add: add, Sub: sub, e.Mul: mul, **{kind: partial(compare, kind) for kind in e.COMPARISONS},
    And: logical_and, e.Or: logical_or,
}  # fmt: skip

_LOGICAL: Final = frozenset({And, e.Or})
_CONDITIONS: Final = frozenset({*e.COMPARISONS, *_LOGICAL})


def rebuild_binary(node: e.BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return `node` with operands `a` and `b`, folding integer constants.

    `base + 3 + 4` becomes `base + 7`, so that indices that differ by a constant keep their common
    part.
    """
    if a is node.a and b is node.b:
        return node
    kind = type(node)
    if type(b) is IntImm and b.dtype.is_int and (kind is Add or kind is Sub):
        return plus(a, b.value if kind is Add else -b.value)
    if kind in _CONDITIONS:
        return _FOLDING[kind](a, b) if kind not in _LOGICAL or a.dtype.lanes == 1 else kind(a, b)
    if type(a) is not IntImm and type(b) is not IntImm:
        return kind(a, b)
    fold = _FOLDING.get(kind)
    if fold is not None:
        return fold(a, b)
    folded = fold_binary(kind, a, b) if type(b) is IntImm and b.value else None
    return kind(a, b) if folded is None else folded


def plus(index: PrimExpr, value: int) -> PrimExpr:
    """Return `index + value` with one constant at the end, wrapped to the type."""
    base = index
    if isinstance(index, Add) and isinstance(index.b, IntImm):
        base, value = index.a, index.b.value + value
    elif isinstance(index, Sub) and isinstance(index.b, IntImm):
        base, value = index.a, value - index.b.value
    low, high = integer_limits(index.dtype)
    value = (value - low) % (high - low + 1) + low
    if low < value < 0:
        return sub(base, const(-value, index.dtype))
    return add(base, const(value, index.dtype))
