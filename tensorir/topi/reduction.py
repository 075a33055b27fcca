"""Reductions along axes: sums, extrema, statistics, cumulative sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import EQ, BufferLoad, IterVar, PrimExpr
from tensorir.nodes.ops import cast, compare, const, if_then_else
from tensorir.nodes.stmt import BufferStore, Stmt
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.relax.signature import DTypeName
from tensorir.te.reduction import Reducer, largest, place_of_best, smallest
from tensorir.te.tensor import Tensor
from tensorir.topi.arithmetic import log_of_sum
from tensorir.topi.block_nests import block_nest
from tensorir.topi.broadcast import convert_dtype, map_elements, sum_dtype
from tensorir.topi.extents import axes_of, axis_of, in_order, is_number, product
from tensorir.topi.reshaping import flatten

Axes: TypeAlias = int | Sequence[int] | None
"""The axes of a reduction: one axis, several axes, or None for all axes."""


class _Along:
    """A tensor with the axes of a reduction; the result lacks them, or has them with extent 1."""

    def __init__(self, x: Tensor, axis: Axes, keepdims: bool) -> None:
        self.x = x
        self.axes = tuple(range(x.ndim)) if axis is None else axes_of(axis, x.ndim)
        self.keepdims = keepdims
        one = const(1, INT64)
        self.shape = [
            one if k in self.axes else n
            for k, n in enumerate(x.shape)
            if keepdims or k not in self.axes
        ]

    def reduced(
        self, name: str, element: Callable[[Sequence[PrimExpr], list[IterVar]], Sequence[PrimExpr]]
    ) -> tuple[Tensor, ...]:
        """Return the tensors of `element(indices of x, axes)`, which returns the reductions."""
        over = [te.reduce_axis((0, self.x.shape[k]), f"k{k}") for k in self.axes]
        return te.compute(self.shape, lambda *i: element(self._indices(i, over), over), name=name)

    def _indices(
        self, indices: Sequence[PrimExpr], over: Sequence[IterVar]
    ) -> tuple[PrimExpr, ...]:
        along = {k: axis.var for k, axis in zip(self.axes, over, strict=True)}
        if self.keepdims:
            return tuple(along.get(k, i) for k, i in enumerate(indices))
        own = iter(indices)
        return tuple(along[k] if k in along else next(own) for k in range(self.x.ndim))

    def at(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Return the indices of the result for indices of `x`."""
        zero = const(0, INT64)
        return tuple(
            zero if k in self.axes else i
            for k, i in enumerate(indices)
            if self.keepdims or k not in self.axes
        )

    @property
    def count(self) -> PrimExpr:
        """The number of elements that are reduced to one."""
        return product(self.x.shape[k] for k in self.axes)


def _reduced(
    along: _Along,
    reducer: Reducer,
    function: Callable[[PrimExpr], PrimExpr] = lambda v: v,
    name: str = "",
) -> Tensor:
    x = along.x
    name = name or f"{x.name}_red"
    if not along.axes:
        return te.compute(x.shape, lambda *i: function(x[i]), name=name)
    return along.reduced(name, lambda i, over: (reducer(function(x[tuple(i)]), axis=over),))[0]


def _numbers(name: str, x: Tensor) -> DataType:
    """Return the dtype of accumulation. Raises IRTypeError for bools."""
    if x.dtype.is_bool:
        raise IRTypeError(f"{name} needs numbers, got bool; use any or all, or convert by astype")
    return sum_dtype(x.dtype)


@operator("sum", dimension_order=order_of("axis"))
def sum(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the sum along axes (default: all); float16 is accumulated in float32."""
    wide = _numbers("sum", x)
    return convert_dtype(
        _reduced(_Along(x, axis, keepdims), te.sum, lambda v: cast(wide, v)), x.dtype
    )


@operator("prod", dimension_order=order_of("axis"))
def prod(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the product along axes (default: all)."""
    wide = _numbers("prod", x)
    return convert_dtype(
        _reduced(_Along(x, axis, keepdims), te.prod, lambda v: cast(wide, v)), x.dtype
    )


@operator("mean", dimension_order=order_of("axis"))
def mean(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the sum along axes divided by the number of elements; integers round toward zero."""
    return convert_dtype(_mean(_Along(x, axis, keepdims), _numbers("mean", x)), x.dtype)


def _mean(
    along: _Along, wide: DataType, function: Callable[[PrimExpr], PrimExpr] = lambda v: v
) -> Tensor:
    total = _reduced(along, te.sum, lambda v: function(cast(wide, v)))
    count = cast(wide, along.count)
    return map_elements("T_divide", lambda v: te.div(v, count), total)


@operator("variance", dimension_order=order_of("axis"))
def variance(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the mean of the squared deviations from the mean along axes."""
    if not x.dtype.is_floating:
        raise IRTypeError(f"variance needs floating-point numbers, got {x.dtype}; use astype")
    wide = sum_dtype(x.dtype)
    along = _Along(x, axis, True)
    average = _mean(along, wide)
    apart = te.compute(
        x.shape, lambda *i: cast(wide, x[i]) - average[along.at(i)], name="T_subtract"
    )
    squares = _mean(_Along(apart, axis, keepdims), wide, lambda v: v * v)
    return convert_dtype(squares, x.dtype)


@operator("max", dimension_order=order_of("axis"))
def max(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the maximum along axes (default: all); NaN if any element is NaN."""
    return _extremum(any, largest, x, axis, keepdims)


@operator("min", dimension_order=order_of("axis"))
def min(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return the minimum along axes (default: all); NaN if any element is NaN."""
    return _extremum(all, smallest, x, axis, keepdims)


def _extremum(
    of_bools: Callable[..., Tensor], reducer: Reducer, x: Tensor, axis: Axes, keepdims: bool
) -> Tensor:
    if x.dtype.is_bool:
        return of_bools(x, axis, keepdims)
    return _reduced(_Along(x, axis, keepdims), reducer)


@operator("all", dimension_order=order_of("axis"))
def all(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return True if all elements along axes are true; nonzero numbers are true."""
    return _reduced(_Along(x, axis, keepdims), te.all, lambda v: cast("bool", v))


@operator("any", dimension_order=order_of("axis"))
def any(x: Tensor, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
    """Return True if any element along axes is true; nonzero numbers are true."""
    return _reduced(_Along(x, axis, keepdims), te.any, lambda v: cast("bool", v))


@operator("argmax", dimension_order=order_of("axis"))
def argmax(
    x: Tensor, axis: int | None = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Return the index of the maximum along an axis; for None, the index in row-major order.

    The index is an int64. Among equal elements the first is selected, or the last one with
    `select_last_index`. NaN is larger than any number.
    """
    return _place(True, x, axis, keepdims, select_last_index)


@operator("argmin", dimension_order=order_of("axis"))
def argmin(
    x: Tensor, axis: int | None = None, keepdims: bool = False, select_last_index: bool = False
) -> Tensor:
    """Return the index of the minimum along an axis; otherwise like `argmax`.

    NaN is smaller than any number.
    """
    return _place(False, x, axis, keepdims, select_last_index)


def _place(of_largest: bool, x: Tensor, axis: int | None, keepdims: bool, last: bool) -> Tensor:
    along = _Along(x, axis, keepdims)
    extents = [x.shape[k] for k in along.axes]
    for extent in extents:
        if is_number(extent, 0):
            raise IRValueError("argmax and argmin of an empty axis are undefined")
    if not along.axes:
        return te.compute((), lambda: const(0, INT64), name="argreduce")
    reducer = place_of_best(of_largest, last)

    def element(indices: Sequence[PrimExpr], over: list[IterVar]) -> tuple[PrimExpr, ...]:
        place = in_order([cast(INT64, axis.var) for axis in over], extents)
        return reducer((place, x[tuple(indices)]), axis=over)

    return along.reduced(f"{x.name}_red_temp", element)[0]


@operator("cumsum", dimension_order=order_of("axis"))
def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Return the cumulative sums along an axis; for None, of all elements in row-major order.

    Exclusive sums omit the element itself; with `reverse` they start at the end.
    """
    return _scan("T_cumsum", te.add, 0, data, axis, dtype, exclusive, reverse)


@operator("cumprod", dimension_order=order_of("axis"))
def cumprod(
    data: Tensor,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Return the cumulative products along an axis; otherwise like `cumsum`."""
    return _scan("T_cumprod", te.multiply, 1, data, axis, dtype, exclusive, reverse)


@operator("logcumsumexp", dimension_order=order_of("axis"))
def logcumsumexp(
    data: Tensor, axis: int | None = None, exclusive: bool = False, reverse: bool = False
) -> Tensor:
    """Return the logarithms of the cumulative sums of exponentials, without intermediate overflow.

    For the axis, `exclusive` and `reverse` see `cumsum`.
    """
    if not data.dtype.is_floating:
        raise IRTypeError(
            f"logcumsumexp needs floating-point numbers, got {data.dtype}; convert by astype"
        )
    return _scan("T_logcumsumexp", log_of_sum, -math.inf, data, axis, None, exclusive, reverse)


def _scan(
    name: str,
    combine: Callable[[PrimExpr, PrimExpr], PrimExpr],
    first: float,
    data: Tensor,
    axis: int | None,
    dtype: str | None,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    if axis is None:
        data, axis = flatten(data), 0
    along = axis_of(axis, data.ndim)
    kind = data.dtype if dtype is None else DataType(dtype)
    if kind.is_bool:
        raise IRTypeError("a cumulative sum needs numbers, got bool; convert by dtype")
    wide = sum_dtype(kind)
    extent = data.shape[along]
    start = const(first, wide)

    def at(axes: Sequence[PrimExpr], position: PrimExpr) -> list[PrimExpr]:
        own = extent - 1 - position if reverse else position
        return [*axes[:along], own, *axes[along + 1 :]]

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        source, result = ins[0], outs[0]

        def step(axes: Sequence[PrimExpr]) -> Stmt:
            position = axes[along]
            before = BufferLoad(result, at(axes, position - 1))
            place = at(axes, position - 1 if exclusive else position)
            taken = cast(wide, BufferLoad(source, place))
            begin = start if exclusive else combine(start, taken)
            is_first = compare(EQ, position, const(0, INT64))
            value = if_then_else(is_first, begin, combine(before, taken))
            return BufferStore(result, value, at(axes, position))

        kinds = [*[IterVar.DATA_PAR] * along, IterVar.OPAQUE]
        visible = {source.data: source, result.data: result}
        return block_nest(f"{name}_step", data.shape, step, visible, kinds=kinds)

    result = te.extern(data.shape, [data], body, name=name, dtype=wide)
    assert isinstance(result, Tensor)
    return convert_dtype(result, kind)
