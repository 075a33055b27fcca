"""Expressions that are not analysed: their keys and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from tensorir.arith.const_interval import EVERYTHING, Interval
from tensorir.arith.linear import Key
from tensorir.nodes import expr as e
from tensorir.nodes.expr import IntImm, PrimExpr, Var, integer_limits
from tensorir.nodes.intrin import Effect


def interval_of(expr: PrimExpr, wraps: bool) -> Interval:
    """Return the range of an unanalysed expression.

    `wraps` tells if its arithmetic may wrap around.
    """
    dtype = expr.dtype
    if dtype.is_bool:
        return 0, 1
    if isinstance(expr, e.Cast) and expr.value.dtype.is_bool:
        return 0, 1
    if isinstance(expr, e.Call) and getattr(expr.op, "short_name", "") == "bitwise_and":
        masks = [a.value for a in expr.args if type(a) is IntImm and a.value >= 0]
        if masks:
            return 0, min(masks)
    if dtype.is_integral and (wraps or dtype.bits < 32):
        return integer_limits(dtype)
    return EVERYTHING


def expr_key(expr: PrimExpr) -> Key:
    """Return a hashable value that is equal for structurally equal expressions.

    A call with an effect has a unique key: the next call may return another value.
    """
    if isinstance(expr, Var):
        return Var, expr
    if type(expr) is e.Call and getattr(expr.op, "effect", Effect.OPAQUE) is Effect.OPAQUE:
        return e.Call, expr
    parts: list[Any] = [type(expr).__name__]
    for name in expr.fields:
        parts.append(_structural_key(getattr(expr, name)))
    return tuple(parts)


def _structural_key(value: Any) -> Key:
    if isinstance(value, PrimExpr):
        return expr_key(value)
    if isinstance(value, tuple):
        return tuple(_structural_key(v) for v in value)
    # As floats, 0.0 and -0.0 would be equal, and a NaN would not equal itself.
    return repr(value) if isinstance(value, float) else value


Position: TypeAlias = tuple[tuple[int, str], ...]


def position_of(key: Key, order: Mapping[Var, int]) -> Position:
    """Return the position of an expression in an order that is the same in every process.

    Variables in `order` are sorted by their position there, other variables and buffers by name.
    """
    found: list[tuple[int, str]] = []
    pending = [key]
    while pending:
        part = pending.pop()
        if isinstance(part, tuple):
            found.append((len(part), ""))
            pending.extend(reversed(part))
        elif isinstance(part, Var):
            found.append((order.get(part, -1), "" if part in order else part.name))
        elif isinstance(part, int):
            found.append((part, ""))
        else:
            found.append((0, part if isinstance(part, str) else getattr(part, "name", "")))
    return tuple(found)
