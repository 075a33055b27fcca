"""The number of operations of each sort that a stored value takes."""

from __future__ import annotations

from typing import Final

from search.feature_extractor.stored_program import Bindings
from tensorir.nodes import expr as e
from tensorir.nodes.expr import BufferLoad, Call, PrimExpr, Select, Var
from tensorir.nodes.intrin import Effect, Op
from tensorir.rewriting.visit import children, walk

FLOAT_ADD, FLOAT_MUL, FLOAT_DIV, FLOAT_COMPARE, FLOAT_MATH, FLOAT_CALL = range(1, 7)
INT_OFFSET: Final = 7
BOOL: Final = 14
SELECT: Final = 15
COUNT: Final = 16

_SORTS: Final[dict[type[PrimExpr], int]] = {
    e.Add: FLOAT_ADD,
    e.Sub: FLOAT_ADD,
    e.Mul: FLOAT_MUL,
    e.Div: FLOAT_DIV,
    e.Mod: FLOAT_DIV,
    e.FloorDiv: FLOAT_DIV,
    e.FloorMod: FLOAT_DIV,
    e.Min: FLOAT_COMPARE,
    e.Max: FLOAT_COMPARE,
    e.EQ: FLOAT_COMPARE,
    e.NE: FLOAT_COMPARE,
    e.LT: FLOAT_COMPARE,
    e.LE: FLOAT_COMPARE,
    e.GT: FLOAT_COMPARE,
    e.GE: FLOAT_COMPARE,
}


def arithmetic_counts(value: PrimExpr, scope: Bindings) -> list[int]:
    """Return 16 counts: 7 sorts for floats, 7 for integers, logic, selections.

    The sorts are multiply-add (never counted), addition, multiplication, division, comparison,
    mathematical functions and other calls. Indices of loads count, with the block axes replaced by
    what they are bound to.
    """
    counts = [0] * COUNT
    _count(value, scope, counts)
    return counts


def _count(node: PrimExpr, scope: Bindings, counts: list[int]) -> None:
    kind = type(node)
    if kind is BufferLoad:
        assert isinstance(node, BufferLoad)
        for index in node.indices:
            _count_index(index, scope, counts)
        return
    if kind is Select and not any(isinstance(part, BufferLoad) for part in walk(node)):
        return
    sort = _SORTS.get(kind)
    if sort is not None:
        counts[sort if node.dtype.is_float else sort + INT_OFFSET] += 1
    elif kind in (e.And, e.Or, e.Not):
        counts[BOOL] += 1
    elif kind is Select:
        counts[SELECT] += 1
    elif isinstance(node, Call):
        is_math = isinstance(node.op, Op) and node.op.effect == Effect.PURE
        sort = FLOAT_MATH if is_math else FLOAT_CALL
        counts[sort if node.dtype.is_float else sort + INT_OFFSET] += 1
    elif isinstance(node, Var):
        _count_index(node, scope, counts)
    for child in children(node):
        if isinstance(child, PrimExpr):
            _count(child, scope, counts)


def _count_index(index: PrimExpr, scope: Bindings, counts: list[int]) -> None:
    """Count the operations of an index as a sum over loop variables takes them."""
    total = scope.read(index)
    factors = [f for f in total.of.values() if f != 0] + [f for _, f in total.parts]
    terms = len(factors) + (total.constant != 0)
    counts[INT_OFFSET + FLOAT_ADD] += max(0, terms - 1)
    counts[INT_OFFSET + FLOAT_MUL] += sum(1 for factor in factors if abs(factor) != 1)
    for part, _ in total.parts:
        if not isinstance(part, Var):
            _count(part, scope, counts)
