"""Arithmetic, norms and statistics along axes, composed of other operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.declaration import composite, dtype_of, rank_of
from tensorir.relax.declaration import shape_of as extents_of
from tensorir.relax.expr import GraphExpr, ShapeExpr


@composite("ewise_fma")
def ewise_fma(x1: GraphExpr, x2: GraphExpr, x3: GraphExpr) -> GraphExpr:
    """Return `x1 * x2 + x3`."""
    return x1 * x2 + x3


@composite("masked_fill")
def masked_fill(x: GraphExpr, mask: GraphExpr, value: GraphExpr | PrimExpr) -> GraphExpr:
    """Return `value` where the bool mask is true, and `x` elsewhere."""
    return op.where(mask, value, x)


@composite("collapse_sum_to")
def collapse_sum_to(data: GraphExpr, shape: Sequence[PrimExpr]) -> GraphExpr:
    """Return the sums over the dimensions along which `shape` broadcasts to the data."""
    added = rank_of(data) - len(shape)
    if added < 0:
        raise IRValueError(
            f"{data.struct_info} cannot become a tensor of {len(shape)} dimension(s)"
        )
    ones = [k for k, n in enumerate(shape) if isinstance(n, IntImm) and n.value == 1]
    axes = [*range(added), *(k + added for k in ones)]
    total = op.sum(data, axes, keepdims=True) if axes else data
    return op.squeeze(total, list(range(added))) if added else total


@composite("collapse_sum_like")
def collapse_sum_like(data: GraphExpr, collapse_target: GraphExpr) -> GraphExpr:
    """Return `collapse_sum_to` with the shape of another tensor."""
    return op.collapse_sum_to(data, op.shape_of(collapse_target))


@composite("shape_of")
def shape_of(x: GraphExpr) -> GraphExpr:
    """Return the known shape as a shape value; `shape_to_tensor` converts it to a tensor."""
    return ShapeExpr(extents_of(x))


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
    # An infinite maximum is not subtracted, because the difference would be NaN.
    largest = op.where(op.isfinite(largest), largest, op.zeros_like(largest))
    total = op.log(op.sum(op.exp(x - largest), axis, keepdims=True)) + largest
    return total if keepdims else op.squeeze(total, _axes(x, axis))


def _axes(x: GraphExpr, axis: int | Sequence[int] | None) -> int | Sequence[int]:
    if axis is not None:
        return axis
    return tuple(range(rank_of(x)))


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

    An `ord` of infinity returns the maximum magnitude, minus infinity the minimum, 0 the number of
    nonzero elements.
    """
    if ord == 1:
        return op.sum(op.abs(x), axis, keepdims)
    if ord == 2:
        return op.sqrt(op.sum_of_squares(x, axis, keepdims))
    if ord == 0:
        return op.sum(op.astype(op.not_equal(x, 0), dtype_of(x)), axis, keepdims)
    if math.isinf(ord):
        return (op.max if ord > 0 else op.min)(op.abs(x), axis, keepdims)
    return op.power(op.sum(op.power(op.abs(x), ord), axis, keepdims), 1 / ord)


@composite("median")
def median(x: GraphExpr, axis: int | None = None, keepdims: bool = False) -> GraphExpr:
    """Return the median along an axis; for an even number of elements, the lower of the middle two.

    The median is NaN if any element is NaN.
    """
    if axis is None:
        whole = op.median(op.flatten(x), 0, False)
        return op.reshape(whole, [1] * rank_of(x)) if keepdims else whole
    ordered, last = op.sort(x, axis), extents_of(x)[axis] - 1

    def element(k: PrimExpr) -> GraphExpr:
        return op.strided_slice(ordered, [axis], [k], [k + 1], assume_inbound=True)

    found = element(last // 2)
    if dtype_of(x).is_floating:  # NaN is sorted after all numbers
        found = op.where(op.isnan(element(last)), element(last), found)
    return found if keepdims else op.squeeze(found, axis)
