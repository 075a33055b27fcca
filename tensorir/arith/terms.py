"""The parts of the terms of a linear combination, and keys and ranges of those not analysed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from tensorir.arith.const_interval import EVERYTHING, Interval
from tensorir.arith.linear import Atom, Key, Linear, Opaque, Product, Term
from tensorir.nodes import expr as e
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Select, Var, integer_limits
from tensorir.nodes.intrin import Effect
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import walk


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


ARITHMETIC_CALLS: Final = frozenset(
    {
        "bitwise_and",
        "bitwise_not",
        "bitwise_or",
        "bitwise_xor",
        "if_then_else",
        "likely",
        "shift_left",
        "shift_right",
    }
)
"""Calls whose result depends only on their arguments."""


def parts_of(term: Atom) -> list[Term]:
    """Return the terms that a nonlinear term contains."""
    if type(term) is Product:
        return list(term.factors)
    return [part for operand in term.operands for part in operand.terms]


def variables_of(term: Term) -> list[Var]:
    """Return the variables in `term`, with repetition."""
    if isinstance(term, Var):
        return [term]
    if type(term) is Opaque:
        return [part for part in walk(term.expr) if isinstance(part, Var)]
    return [var for part in parts_of(term) for var in variables_of(part)]


def mentions(linear: Linear, var: Var) -> bool:
    """Return True if `var` occurs in a linear combination, at any depth."""
    return any(part is var for term in linear.terms for part in variables_of(term))


def reads_memory(term: Term) -> bool:
    """Return True if `term` contains a load, or a call that may return a different value when
    repeated.
    """
    if isinstance(term, Var):
        return False
    if type(term) is Opaque:
        return has_loads(term.expr)
    return any(reads_memory(part) for part in parts_of(term))


def choice_of(expr: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """Return the condition and the two values of a choice; None for anything else."""
    if isinstance(expr, Select):
        return expr.condition, expr.true_value, expr.false_value
    if isinstance(expr, Call) and getattr(expr.op, "short_name", "") == "if_then_else":
        condition, value, other = expr.args
        return condition, value, other
    return None


def has_loads(expr: PrimExpr) -> bool:
    """Return True if an expression contains a load, or a call that may load."""
    return any(type(part) is BufferLoad or _is_opaque_call(part) for part in walk(expr))


def _is_opaque_call(part: Node) -> bool:
    return isinstance(part, Call) and getattr(part.op, "short_name", "") not in ARITHMETIC_CALLS
