"""Norms and statistics along axes, composed of other operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorir.errors import IRTypeError
from tensorir.nodes.expr import PrimExpr
from tensorir.relax import op
from tensorir.relax.declaration import composite
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo


@composite("std")
def std(x: GraphExpr, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> GraphExpr:
    """Return the square root of the variance along axes."""
    return op.sqrt(op.variance(x, axis, keepdims))


@composite("logsumexp")
def logsumexp(
    x: GraphExpr, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> GraphExpr:
    """Return the logarithm of the sum of exponentials along axes, without overflow."""
    largest = op.max(x, axis, keepdims=True)
    # Infinities are not subtracted, because the difference would be NaN.
    largest = op.where(op.isfinite(largest), largest, op.zeros_like(largest))
    total = op.log(op.sum(op.exp(x - largest), axis, keepdims=True)) + largest
    return total if keepdims else op.squeeze(total, _axes(x, axis))


def _axes(x: GraphExpr, axis: int | Sequence[int] | None) -> int | Sequence[int]:
    if axis is not None:
        return axis
    info = x.struct_info
    assert isinstance(info, TensorStructInfo)
    if info.ndim < 0:
        raise IRTypeError("the rank of x is not known; match_cast states it")
    return tuple(range(info.ndim))


@composite("sum_of_squares")
def sum_of_squares(
    x: GraphExpr, axis: int | Sequence[int] | None = None, keepdims: bool = False
) -> GraphExpr:
    """Return the sum of the squares of elements along axes."""
    return op.sum(op.square(x), axis, keepdims)


@composite("norm")
def norm(
    x: GraphExpr,
    ord: float = 2.0,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> GraphExpr:
    """Return `sum(abs(x) ** ord) ** (1 / ord)` along axes.

    The maximum magnitude for an `ord` of infinity, the minimum for minus infinity, the number of
    nonzero elements for 0.
    """
    if ord == 1:
        return op.sum(op.abs(x), axis, keepdims)
    if ord == 2:
        return op.sqrt(op.sum_of_squares(x, axis, keepdims))
    if ord == 0:
        dtype = x.struct_info.dtype  # type: ignore[attr-defined]
        return op.sum(op.astype(op.not_equal(x, 0), dtype), axis, keepdims)
    if math.isinf(ord):
        return (op.max if ord > 0 else op.min)(op.abs(x), axis, keepdims)
    return op.power(op.sum(op.power(op.abs(x), ord), axis, keepdims), 1 / ord)


@composite("median")
def median(x: GraphExpr, axis: int | None = None, keepdims: bool = False) -> GraphExpr:
    """Return the median along an axis: the middle element in order, the lower of two.

    NaN if any element is NaN.
    """
    info = x.struct_info
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        raise IRTypeError(f"the shape of x is not known, it is {info}; match_cast states it")
    if axis is None:
        whole = op.median(op.flatten(x), 0, False)
        return op.reshape(whole, [1] * info.ndim) if keepdims else whole
    ordered, last = op.sort(x, axis), info.shape[axis] - 1

    def element(k: PrimExpr) -> GraphExpr:
        return op.strided_slice(ordered, [axis], [k], [k + 1], assume_inbound=True)

    found = element(last // 2)
    if info.dtype is not None and info.dtype.is_floating:  # NaN is behind all numbers
        found = op.where(op.isnan(element(last)), element(last), found)
    return found if keepdims else op.squeeze(found, axis)
