"""Offsets in which a quotient and the remainder that it leaves are one index again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensorir.nodes.expr import Add, Call, FloorDiv, FloorMod, IntImm, Mul, PrimExpr, Var
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import add, const, mul


def merge_quotients(offset: PrimExpr) -> PrimExpr:
    """Return an offset with `x // n * n + x % n` put back together as `x`, wherever that occurs.

    An offset in which it does not is returned as it is. The law holds for values that wrap, too.
    """
    terms = _terms(offset)
    merged = False
    while (pair := _pair(terms)) is not None:
        quotient, remainder = pair
        left = terms[remainder]
        assert isinstance(left.value, FloorMod)
        whole = _terms(left.value.a, left.scale, left.factors)
        first = min(pair)
        rest = [term for k, term in enumerate(terms) if k not in (quotient, remainder)]
        terms = [*rest[:first], *whole, *rest[first:]]
        merged = True
    if not merged:
        return offset
    total: PrimExpr = const(0, offset.dtype)
    for term in terms:
        value = term.value
        for factor in term.factors:
            value = mul(value, factor)
        total = add(total, value if term.scale == 1 else mul(value, term.scale))
    return total


class _Term(NamedTuple):
    """A summand of an offset: `value * scale`, times the symbolic factors."""

    value: PrimExpr
    scale: int
    factors: tuple[PrimExpr, ...]


def _terms(expr: PrimExpr, scale: int = 1, factors: tuple[PrimExpr, ...] = ()) -> list[_Term]:
    """Return the summands of a multiple of an expression; strides are right operands."""
    if isinstance(expr, Add):
        return [*_terms(expr.a, scale, factors), *_terms(expr.b, scale, factors)]
    if isinstance(expr, Mul):
        if isinstance(expr.b, IntImm):
            return _terms(expr.a, scale * expr.b.value, factors)
        return _terms(expr.a, scale, (*factors, expr.b))
    return [_Term(expr, scale, factors)]


def _pair(terms: Sequence[_Term]) -> tuple[int, int] | None:
    """Return the positions of a quotient and the remainder that make up a whole, if there are."""
    for k, term in enumerate(terms):
        if not isinstance(term.value, FloorMod):
            continue
        x, n = term.value.a, term.value.b
        scale, factors = term.scale, term.factors
        if isinstance(n, IntImm):
            scale *= n.value
        else:
            factors = (*factors, n)
        for j, other in enumerate(terms):
            if (
                isinstance(other.value, FloorDiv)
                and other.scale == scale
                and _same(other.value.b, n)
                and _same_factors(other.factors, factors)
                and _same(other.value.a, x)
            ):
                return j, k
    return None


def _same_factors(a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> bool:
    left = list(b)
    for factor in a:
        found = next((k for k, other in enumerate(left) if _same(factor, other)), None)
        if found is None:
            return False
        del left[found]
    return not left


def _same(a: object, b: object) -> bool:
    """Say whether two expressions are written alike, so that they have one value."""
    if a is b:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if type(a) is not type(b) or isinstance(a, Var):
        return False
    if not isinstance(a, Node):
        return bool(a == b)
    if isinstance(a, Call) and not (
        isinstance(a.op, Op) and a.op.effect in (Effect.PURE, Effect.READ)
    ):
        return False
    return all(_same(getattr(a, name), getattr(b, name)) for name in a.fields)
