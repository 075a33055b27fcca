"""Reducers of extrema with NumPy's rules: infinities are the identities, and NaN propagates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

from tensorir.nodes.constants import infinity, max_value, min_value
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import EQ, NE, PrimExpr
from tensorir.nodes.ops import compare, const, logical_and, logical_or, max_, min_, select
from tensorir.te.reduction import Reducer, comm_reducer


def lowest(dtype: str) -> PrimExpr:
    """Return the minimum of a dtype: minus infinity, or the smallest integer."""
    return -infinity(dtype) if DataType(dtype).is_floating else min_value(dtype)


def highest(dtype: str) -> PrimExpr:
    """Return the maximum of a dtype: infinity, or the largest integer."""
    return infinity(dtype) if DataType(dtype).is_floating else max_value(dtype)


def _is_nan(value: PrimExpr) -> PrimExpr:
    return compare(NE, value, value)


def _greater(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a > b


def _less(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    return a < b


def _or_nan(better: Callable[[PrimExpr, PrimExpr], PrimExpr]) -> Callable[..., PrimExpr]:
    """Return the combiner that keeps the value preferred by `better`, or NaN if either value is
    NaN.
    """

    def combine(x: PrimExpr, y: PrimExpr) -> PrimExpr:
        if not x.dtype.is_floating:
            return max_(x, y) if better is _greater else min_(x, y)
        return select(logical_or(better(x, y), _is_nan(x)), x, y)

    return combine


largest: Final = comm_reducer(_or_nan(_greater), lowest, "max")
"""The maximum, NaN if any value is NaN."""

smallest: Final = comm_reducer(_or_nan(_less), highest, "min")
"""The minimum, NaN if any value is NaN."""


@cache
def place_of_best(of_largest: bool, last: bool) -> Reducer:
    """Return the reducer of (index, value) pairs that keeps the largest or the smallest value.

    NaN is preferred to any number. Among equal values the first is kept, or the last with `last`.
    """
    better = _greater if of_largest else _less

    def combine(x: Sequence[PrimExpr], y: Sequence[PrimExpr]) -> tuple[PrimExpr, PrimExpr]:
        (index, value), (other_index, other) = x, y
        nearer = index > other_index if last else index < other_index
        equal = compare(EQ, value, other)
        taken = logical_or(better(value, other), logical_and(equal, nearer))
        if value.dtype.is_floating:
            is_number = compare(EQ, other, other)
            among_nans = logical_and(_is_nan(value), logical_or(is_number, nearer))
            taken = logical_or(taken, among_nans)
        return select(taken, index, other_index), select(taken, value, other)

    def identity(index: str, value: str) -> tuple[PrimExpr, PrimExpr]:
        # The index is the maximum, so every other pair is preferred.
        farthest = const(-1, index) if last else max_value(index)
        return farthest, (lowest if of_largest else highest)(value)

    return comm_reducer(combine, identity, "argmax" if of_largest else "argmin")
