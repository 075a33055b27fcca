"""Products of quantized integers with int32 accumulation.

`(a - u) @ (b - v)` with zero points `u` and `v` is expanded: the only matrix product is `a @ b` of
bytes; the other terms are sums of the rows of `a - u` and of the columns of `b`. Sums of constant
weights are constants (Jacob et al., 2018, "Quantization and Training of Neural Networks for
Efficient Integer-Arithmetic-Only Inference", section 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tensorir.errors import IRTypeError
from tensorir.relax import op
from tensorir.relax.declaration import composite, dtype_of, rank_of, shape_of
from tensorir.relax.expr import Constant, GraphExpr
from tensorir.topi.extents import known_extent
from tensorir.topi.nn.spatial import margins


@composite("quantized.matmul")
def matmul(
    a: GraphExpr,
    b: GraphExpr,
    a_zero_point: GraphExpr | None = None,
    b_zero_point: GraphExpr | None = None,
) -> GraphExpr:
    """Return `(a - a_zero_point) @ (b - b_zero_point)` in int32, for 8-bit integers.

    A zero point is one number, or one for each row of `a` or column of `b`.
    """
    product: GraphExpr = op.matmul(a, b, out_dtype="int32")
    of_a = _zero_point(a_zero_point, rows=True)
    of_b = _zero_point(b_zero_point, rows=False)
    if of_a is not None:
        product = product - of_a * _sum(op.astype(b, "int32"), -2)
    if of_b is not None:
        wide: GraphExpr = op.astype(a, "int32")
        product = product - _sum(wide if of_a is None else wide - of_a, -1) * of_b
    return product


@composite("quantized.conv")
def conv(
    data: GraphExpr,
    weight: GraphExpr,
    data_zero_point: GraphExpr | None = None,
    weight_zero_point: GraphExpr | None = None,
    strides: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> GraphExpr:
    """Return the convolution of `data - data_zero_point` with `weight - weight_zero_point` in
    int32.

    Padding has the value of the zero point. `weight_zero_point` is one number, or one for each
    output channel.
    """
    rank = rank_of(data) - 2
    if rank not in (1, 2, 3):
        raise IRTypeError(f"data must have 3 to 5 dimensions, got {data.struct_info}")
    convolution = (op.nn.conv1d, op.nn.conv2d, op.nn.conv3d)[rank - 1]
    options = {
        "strides": tuple(strides),
        "dilation": tuple(dilation),
        "groups": groups,
        "out_dtype": "int32",
    }
    sides = [side for pair in zip(*margins(tuple(padding), rank), strict=True) for side in pair]
    if not _is_zero(data_zero_point) and any(sides):
        if not isinstance(data_zero_point, Constant) or math.prod(data_zero_point.source.shape) > 1:
            # If the zero point is known only at run time, the padding is 0 in the differences.
            wide = _subtract_zero_point(data, data_zero_point, None)
            kernel = _subtract_zero_point(weight, weight_zero_point, rank + 1)
            differences: GraphExpr = convolution(wide, kernel, padding=sides, **options)
            return differences
        widths = [0, 0, 0, 0]
        for before, behind in zip(sides[:rank], sides[rank:], strict=True):
            widths += [before, behind]
        value = int(data_zero_point.data.ravel()[0])
        data, sides = op.nn.pad(data, pad_width=widths, pad_value=value), [0] * (2 * rank)
    result: GraphExpr = convolution(data, weight, padding=sides, **options)
    if not _is_zero(weight_zero_point):
        sums = convolution(data, _ones_kernel(weight, groups), padding=sides, **options)
        if groups > 1:
            outputs = shape_of(weight)[0]
            sums = op.repeat(sums, repeats=known_extent(outputs, "outputs") // groups, axis=1)
        result = result - sums * _per_channel(weight_zero_point, rank)
    if not _is_zero(data_zero_point):
        kernel = op.astype(_subtract_zero_point(weight, weight_zero_point, rank + 1), "int32")
        total = op.sum(kernel, axis=list(range(1, rank + 2)))
        result = result - _per_channel(total, rank) * _per_channel(data_zero_point, 0)
    return result


def _ones_kernel(weight: GraphExpr, groups: int) -> Constant:
    """Return a kernel of ones with one output channel for each group.

    Its convolution sums windows.
    """
    extents = [known_extent(n, "an extent of the weight") for n in shape_of(weight)[1:]]
    return Constant(np.ones((groups, *extents), str(dtype_of(weight))))


def _per_channel(value: GraphExpr | None, trailing: int) -> GraphExpr:
    """Return numbers for channels, before `trailing` dimensions, as int32."""
    assert value is not None
    wide: GraphExpr = op.astype(value, "int32")
    if rank_of(value) == 1 and trailing:
        wide = op.expand_dims(wide, axis=list(range(1, trailing + 1)))
    return wide


def _is_zero(value: GraphExpr | None) -> bool:
    return value is None or (isinstance(value, Constant) and not np.any(value.data))


def _zero_point(value: GraphExpr | None, rows: bool) -> GraphExpr | None:
    """Return a zero point in a shape that broadcasts over a product; None if it is 0."""
    if _is_zero(value):
        return None
    assert value is not None
    wide: GraphExpr = op.astype(value, "int32")
    per_row = rows and rank_of(value) == 1
    return op.expand_dims(wide, axis=[-1]) if per_row else wide


def _sum(value: GraphExpr, axis: int) -> GraphExpr:
    total: GraphExpr = op.sum(value, axis=[axis], keepdims=True)
    return total


def _subtract_zero_point(
    value: GraphExpr, zero_point: GraphExpr | None, trailing: int | None
) -> GraphExpr:
    """Return a tensor minus its zero point, in a dtype that holds the difference.

    `trailing` dimensions follow the dimension of the zero point.
    """
    if _is_zero(zero_point):
        return value
    assert zero_point is not None
    wide: GraphExpr = op.astype(zero_point, "int16")
    if trailing is not None and rank_of(zero_point) == 1:
        wide = op.expand_dims(wide, axis=[k + 1 for k in range(trailing)])
    return op.subtract(op.astype(value, "int16"), wide)
