"""The parts of the terms of a linear combination: other terms, variables, loads."""

from __future__ import annotations

from typing import Final

from tensorir.arith.linear import Atom, Linear, Opaque, Product, Term
from tensorir.nodes.expr import BufferLoad, Call, PrimExpr, Select, Var
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import walk

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
