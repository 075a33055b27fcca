"""Reductions: reduction axes, and reducers that combine values along them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, overload

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes import ops
from tensorir.nodes.buffer import Range
from tensorir.nodes.constants import infinity
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import EQ, NE, CommReducer, ExprLike, IterVar, PrimExpr, Reduce, Var
from tensorir.nodes.ops import (
    FALSE,
    TRUE,
    add,
    as_expr,
    compare,
    const,
    logical_and,
    logical_or,
    match_types,
    max_value,
    min_value,
    mul,
    select,
    sub,
)


def reduce_axis(dom: Range | tuple[ExprLike, ExprLike], name: str = "rv") -> IterVar:
    """Return an axis to reduce over; `dom` is `(begin, end)` or a Range.

    The axis has the wider dtype of its bounds. Raises IRTypeError unless they are signed integers.
    """
    if isinstance(dom, Range):
        low, extent = match_types(dom.min, dom.extent)
    else:
        low, end = match_types(*dom)
        extent = sub(end, low)
    if not low.dtype.is_int:
        raise IRTypeError(f"the domain of axis {name} is {low.dtype}, not a signed integer")
    domain = Range.from_min_extent(low, extent)
    return IterVar(domain, Var(name, low.dtype), IterVar.COMM_REDUCE)


class Reducer:
    """An associative and commutative combination of values, such as `te.sum`.

    `r(expr, axis)` reduces along axes (one, or several, outermost first), over the positions where
    `where` holds, starting from `init` instead of the identity element. For a tuple of expressions
    the result is a tuple of reductions that run together. `r(a, b, c)`, without an axis, combines
    values.
    """

    def __init__(
        self, fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
    ) -> None:
        self.combine = fcombine
        self.identity = fidentity
        self.name = name

    @overload
    def __call__(
        self, expr: ExprLike, *operands: Any, axis: Any = None, where: Any = None, init: Any = None
    ) -> PrimExpr: ...
    @overload
    def __call__(
        self,
        expr: Sequence[ExprLike],
        *operands: Any,
        axis: Any = None,
        where: Any = None,
        init: Any = None,
    ) -> tuple[PrimExpr, ...]: ...
    def __call__(
        self, expr: Any, *operands: Any, axis: Any = None, where: Any = None, init: Any = None
    ) -> PrimExpr | tuple[PrimExpr, ...]:
        """Reduce `expr` along `axis`, or combine it with `operands` if there is no axis.

        Raises IRTypeError for an axis that is not from `te.reduce_axis`, or if the dtypes of
        values, identity and combination differ.
        """
        if axis is None and operands and _is_axes(operands[0]):
            axis, operands = operands[0], operands[1:]
            if operands and where is None:
                where, operands = operands[0], operands[1:]
            if operands and init is None:
                init, operands = operands[0], operands[1:]
        if axis is None:
            if where is not None or init is not None:
                raise IRTypeError(f"te.{self.name} accepts where and init only with an axis")
            return self._fold(expr, operands)
        if operands:
            raise IRTypeError(
                f"te.{self.name} accepts a value, an axis, where and init; "
                f"got {len(operands)} more argument(s)"
            )
        created = self._reduce(expr, axis, where, init)
        return created if isinstance(expr, (tuple, list)) else created[0]

    def _fold(self, first: Any, others: Sequence[Any]) -> PrimExpr | tuple[PrimExpr, ...]:
        def operand(value: Any) -> Any:
            return value if isinstance(value, (tuple, list)) else as_expr(value)

        folded: PrimExpr | tuple[PrimExpr, ...] = functools.reduce(
            self.combine, map(operand, others), operand(first)
        )
        return folded

    def _reduce(self, expr: Any, axis: Any, where: Any, init: Any) -> tuple[PrimExpr, ...]:
        axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
        for one in axes:
            if not isinstance(one, IterVar) or one.iter_type != IterVar.COMM_REDUCE:
                raise IRTypeError(
                    f"te.{self.name} reduces along axes made by te.reduce_axis, "
                    f"got {one.var.name if isinstance(one, IterVar) else repr(one)}"
                )
        source = tuple(map(as_expr, expr if isinstance(expr, (tuple, list)) else (expr,)))
        condition = TRUE if where is None else as_expr(where)
        if not condition.dtype.is_bool:
            raise IRTypeError(f"`where` of te.{self.name} is {condition.dtype}, not bool")
        start = () if init is None else self._check_values(init, source, "`init`")
        combiner = self._combiner(source)
        return tuple(
            Reduce(combiner, source, axes, condition, k, start) for k in range(len(source))
        )

    def _combiner(self, source: tuple[PrimExpr, ...]) -> CommReducer:
        identity = self._check_values(
            self.identity(*(value.dtype for value in source)), source, "the identity element"
        )
        lhs = [Var(f"x{k}", value.dtype) for k, value in enumerate(source)]
        rhs = [Var(f"y{k}", value.dtype) for k, value in enumerate(source)]
        if len(source) == 1:
            combined = self.combine(lhs[0], rhs[0])
        else:
            combined = self.combine(lhs, rhs)
        result = self._check_values(combined, source, "the combination")
        return CommReducer(lhs, rhs, result, identity)

    def _check_values(
        self, values: Any, source: Sequence[PrimExpr], what: str
    ) -> tuple[PrimExpr, ...]:
        """Return one value for each component of `source`, with its dtype.

        Plain numbers adopt the dtype.
        """
        parts = values if isinstance(values, (tuple, list)) else (values,)
        if len(parts) != len(source):
            raise IRValueError(
                f"{what} of te.{self.name} has {len(parts)} component(s), "
                f"the reduction has {len(source)}"
            )
        created = []
        for part, value in zip(parts, source, strict=True):
            typed = const(part, value.dtype) if _is_number(part) else as_expr(part)
            if typed.dtype is not value.dtype:
                raise IRTypeError(
                    f"dtype mismatch in te.{self.name}: "
                    f"{what} is {typed.dtype}, the values are {value.dtype}"
                )
            created.append(typed)
        return tuple(created)


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_))


def _is_axes(value: Any) -> bool:
    axes = value if isinstance(value, (tuple, list)) else (value,)
    return all(isinstance(axis, IterVar) for axis in axes)


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Reducer:
    """Return a user-defined reduction.

    `fcombine(x, y)` combines two values and `fidentity(dtype)` returns the identity element. For
    tuples `fcombine` receives two lists and returns a tuple, and `fidentity` receives a dtype for
    each component:

        argmax = te.comm_reducer(
            lambda x, y: (te.Select(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])),
            lambda index, value: (te.const(-1, index), te.min_value(value)),
        )
        index, value = te.compute((n,), lambda i: argmax((k, A[i, k]), axis=k), name="argmax")
    """
    return Reducer(fcombine, fidentity, name)


sum_ = Reducer(add, lambda dtype: const(0, dtype), "sum")
prod = Reducer(mul, lambda dtype: const(1, dtype), "prod")
min_ = Reducer(ops.min_, max_value, "min")
max_ = Reducer(ops.max_, min_value, "max")
all_ = Reducer(logical_and, lambda _: TRUE, "all")
any_ = Reducer(logical_or, lambda _: FALSE, "any")


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
            return ops.max_(x, y) if better is _greater else ops.min_(x, y)
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
