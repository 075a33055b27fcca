"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir.frontend.torch.dtypes import (
    as_list,
    as_tensor,
    axis_of,
    dtype_of,
    in_dtype_of,
    in_shape,
    is_float,
    of_vectors,
    tensor_info,
)
from tensorir.frontend.torch.table import aten, aten_rows
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.topi.extents import known_extent, product

Operator = Callable[..., Any]


def axes_of(dim: Any, self: GraphExpr) -> list[int]:
    """Return the reduced axes: all axes by default."""
    axes = [] if dim is None else as_list(dim)
    return [axis_of(d, self) for d in axes] or list(range(tensor_info(self).ndim))


def _reduced(operator: Operator, self: GraphExpr, dim: Any, keepdim: bool) -> Any:
    axes = axes_of(dim, self)
    return operator(self, axes, keepdims=keepdim) if tensor_info(self).ndim else self


def _in_result_dtype(operator: Operator) -> Operator:
    """Return the converter of a reduction that computes in the dtype of the result."""
    return lambda self, result, dim=None, keepdim=False, **_: _reduced(
        operator, as_tensor(self, str(result.dtype)), dim, keepdim
    )


def _in_own_dtype(operator: Operator) -> Operator:
    return lambda self, dim=None, keepdim=False, **_: _reduced(operator, self, dim, keepdim)


def _of_bools(operator: Operator) -> Operator:
    return lambda self, result, dim=None, keepdim=False: as_tensor(
        _reduced(operator, as_tensor(self, "bool"), dim, keepdim), str(result.dtype)
    )


def _index_reduction(operator: Operator) -> Operator:
    @of_vectors
    def convert(self: Any, dim: int | None, keepdim: bool, result: TensorStructInfo) -> Any:
        if dim is None:
            index = operator(op.flatten(self), 0)
            return in_shape(index, result.shape) if keepdim else index
        return operator(self, axis_of(dim, self), keepdims=keepdim)

    return convert


def _with_index(operator: Operator, place: Operator) -> Operator:
    return of_vectors(
        lambda self, dim, keepdim: (
            operator(self, [axis_of(dim, self)], keepdims=keepdim),
            place(self, axis_of(dim, self), keepdims=keepdim),
        )
    )


def _nth_smallest(self: Any, n: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """Return the n-th smallest elements along an axis, counted from 1, and their indices."""
    found = op.topk(self, n, axis, "both", False, "int64")
    last = [op.strided_slice(found[k], [axis], [n - 1], [n]) for k in range(2)]
    values, places = last if keepdim else [op.squeeze(part, axis) for part in last]
    return values, places


@aten("kthvalue.default")
@of_vectors
def kthvalue(self: Any, k: int, dim: int, keepdim: bool) -> Any:
    """The k-th smallest elements along an axis, and their indices; NaN is the largest."""
    return _nth_smallest(self, k, axis_of(dim, self), keepdim)


@aten("median.default", "median.dim")
@of_vectors
def median(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The medians along an axis and their indices; of an even number of elements, the lower one.

    The median of elements with a NaN is NaN. Without an axis, the median of all elements.
    """
    if dim is None:
        return median(self=op.flatten(self), dim=0)[0]
    axis = axis_of(dim, self)
    extent = known_extent((tensor_info(self).shape or ())[axis], "the axis of a median")
    found = _nth_smallest(self, (extent + 1) // 2, axis, keepdim)
    if not is_float(dtype_of(self)):
        return found
    largest = op.max(self, [axis], keepdims=keepdim), op.argmax(self, axis, keepdims=keepdim)
    has_nan = op.isnan(largest[0])
    return tuple(op.where(has_nan, nan, own) for nan, own in zip(largest, found, strict=True))


@aten("nanmedian.default", "nanmedian.dim")
@of_vectors
def nanmedian(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The medians of the elements that are not NaN, as `median`; NaN if all are NaN."""
    if not is_float(dtype_of(self)):
        return median(self=self, dim=dim, keepdim=keepdim)
    if dim is None:
        return nanmedian(self=op.flatten(self), dim=0)[0]
    axis = axis_of(dim, self)
    # NaN is sorted to the end.
    count = op.sum(op.astype(op.logical_not(op.isnan(self)), "int64"), [axis], keepdims=True)
    place = op.maximum(op.floor_divide(count - 1, 2), 0)
    ordered = op.sort(self, axis), op.argsort(self, axis, False, "int64")
    found = [op.gather_elements(one, place, axis) for one in ordered]
    return tuple(found if keepdim else [op.squeeze(one, axis) for one in found])


def _cumulative(operator: Operator) -> Operator:
    def convert(self: Any, dim: int, result: TensorStructInfo, **_: Any) -> Any:
        (x,) = in_dtype_of(result, self)
        return operator(x, axis_of(dim, self)) if result.ndim else x

    return convert


def _count(self: GraphExpr, axes: list[int]) -> PrimExpr | int:
    """Return the number of elements along axes."""
    shape = tensor_info(self).shape or ()
    count = product([shape[axis] for axis in axes])
    return count.value if isinstance(count, IntImm) else count


def _variance(self: Any, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    """Return the variance and the mean along axes.

    The sum of squared differences is divided by the number of elements minus `correction`, or by 0
    if that is negative.
    """
    axes = axes_of(dim, self)
    value: GraphExpr = op.variance(self, axes, keepdims=keepdim)
    less = 1 if correction is None else correction
    if less:
        count, given, zero = (as_tensor(n, "float64") for n in (_count(self, axes), less, 0))
        value = value * as_tensor(count / op.maximum(count - given, zero), dtype_of(self))
    return value, op.mean(self, axes, keepdims=keepdim)


def _register_variance(name: str, chosen: Operator) -> None:
    """Register the three overloads of an operator that returns variance, deviation or mean."""
    aten_rows(
        {
            f"{name}.correction": lambda self, dim, correction, keepdim: chosen(
                *_variance(self, dim, correction, keepdim)
            ),
            f"{name}.dim {name}.default": lambda self, unbiased, dim=None, keepdim=False: chosen(
                *_variance(self, dim, int(unbiased), keepdim)
            ),
        }
    )


_register_variance("var", lambda var, mean: var)
_register_variance("std", lambda var, mean: op.sqrt(var))
_register_variance("var_mean", lambda var, mean: (var, mean))
_register_variance("std_mean", lambda var, mean: (op.sqrt(var), mean))


@aten("linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar")
def norm(
    self: Any,
    result: TensorStructInfo,
    ord: Any = None,
    p: Any = None,
    dim: Any = None,
    keepdim: bool = False,
) -> Any:
    """The norm along axes, of a number or infinity."""
    power = next((float(x) for x in (ord, p) if x is not None), 2.0)
    value = as_tensor(self, str(result.dtype))
    return op.norm(value, power, axes_of(dim, self), keepdims=keepdim)


aten_rows(
    {
        "sum.default sum.dim_IntList": _in_result_dtype(op.sum),
        "mean.default mean.dim": _in_result_dtype(op.mean),
        "prod.default prod.dim_int": _in_result_dtype(op.prod),
        "amax.default max.default": _in_own_dtype(op.max),
        "amin.default min.default": _in_own_dtype(op.min),
        "any.default any.dim any.dims": _of_bools(op.any),
        "all.default all.dim all.dims": _of_bools(op.all),
        "argmax.default": _index_reduction(op.argmax),
        "argmin.default": _index_reduction(op.argmin),
        "max.dim": _with_index(op.max, op.argmax),
        "min.dim": _with_index(op.min, op.argmin),
        "logsumexp.default": _in_result_dtype(op.logsumexp),
        "cumsum.default": _cumulative(op.cumsum),
        "cumprod.default": _cumulative(op.cumprod),
        "logcumsumexp.default": of_vectors(
            lambda self, dim: op.logcumsumexp(self, axis_of(dim, self))
        ),
        "cummax.default": of_vectors(
            lambda self, dim: op.cumulative_extreme(self, axis_of(dim, self), True)
        ),
        "cummin.default": of_vectors(
            lambda self, dim: op.cumulative_extreme(self, axis_of(dim, self), False)
        ),
    }
)
