"""Conditions without which a reduction combines its result with something neutral."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from schedule.analysis.reducer import Reduction
from tensorir.arith.coefficients import coefficients
from tensorir.comparison.equal import expr_deep_equal
from tensorir.nodes.expr import (
    EQ,
    Call,
    Cast,
    FloatImm,
    FloorMod,
    IntImm,
    Mul,
    PrimExpr,
    Select,
    Var,
)
from tensorir.nodes.ops import conjuncts, const, floormod
from tensorir.rewriting.visit import substitute


@dataclass(frozen=True, slots=True)
class Period:
    """A remainder that an axis has wherever a reduction combines more than the neutral element."""

    modulus: int
    remainder: PrimExpr
    """The value of `axis % modulus` there, in terms of the other axes."""


def period_of(axis: Var, reduction: Reduction) -> Period | None:
    """Return the first period along an axis in the order of the conditions, None if there is none.

    The product of zero and another number counts as zero in a sum, whatever the other number is.
    """
    if reduction.reducer.size != 1:
        return None
    (term,) = reduction.values
    (neutral,) = reduction.reducer.identity([term.dtype])
    return next((found for c in _needed(term, neutral) if (found := _solved(axis, c))), None)


def _needed(term: PrimExpr, neutral: PrimExpr) -> Iterator[PrimExpr]:
    """Yield conditions that hold wherever a term is not neutral."""
    choice = _choice(term)
    if choice is not None:
        condition, inside, outside = choice
        if expr_deep_equal(outside, neutral):
            yield from conjuncts(condition)
            yield from _needed(inside, neutral)
    elif isinstance(neutral, IntImm | FloatImm) and neutral.value == 0:
        if isinstance(term, Mul):
            for factor in (term.a, term.b):
                yield from _needed(factor, neutral)
        elif isinstance(term, Cast):
            yield from _needed(term.value, const(0, term.value.dtype))


def _choice(term: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    if isinstance(term, Select):
        return term.condition, term.true_value, term.false_value
    if isinstance(term, Call) and getattr(term.op, "short_name", "") == "if_then_else":
        condition, inside, outside = term.args
        return condition, inside, outside
    return None


def _solved(axis: Var, condition: PrimExpr) -> Period | None:
    """Solve `(scale * axis + rest) % modulus == value` for the remainder of the axis."""
    if not (isinstance(condition, EQ) and isinstance(condition.a, FloorMod)):
        return None
    index, modulus, value = condition.a.a, condition.a.b, condition.b
    if not (isinstance(modulus, IntImm) and isinstance(value, IntImm) and modulus.value > 1):
        return None
    m = modulus.value
    scale = coefficients(index).step(axis)
    if scale is None or gcd(scale, m) != 1:
        return None
    rest = substitute(index, {axis: const(0, axis.dtype)})
    # The inverse of the negative scale keeps the common `index = axis + rest` free of negatives.
    return Period(m, floormod((rest - value) * (pow(-scale, -1, m)), m))
