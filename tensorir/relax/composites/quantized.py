"""Products and convolutions of integers with zero points.

`(a - p) @ (b - q)` is computed as the product of the integers as they are, which machines have
instructions for, minus sums of rows and columns times the zero points.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorir.errors import IRTypeError
from tensorir.relax import op
from tensorir.relax.composites.operand_shapes import dtype_of, rank_of, shape_of
from tensorir.relax.declaration import composite
from tensorir.relax.expr import Constant, GraphExpr


@composite("matmul_integer")
def matmul_integer(
    a: GraphExpr,
    b: GraphExpr,
    a_zero_point: GraphExpr | None = None,
    b_zero_point: GraphExpr | None = None,
) -> GraphExpr:
    """Return `(a - a_zero_point) @ (b - b_zero_point)` as int32, of matrices of bytes.

    A zero point is one number, or one for each row of `a`, or column of `b`.
    """
    for name, x in (("a", a), ("b", b)):
        if not dtype_of(x).is_integral or dtype_of(x).bits > 16:
            raise IRTypeError(f"{name} must be integers of 16 bits at most, got {dtype_of(x)}")
    result = op.matmul(a, b, out_dtype="int32")
    q = _wide(b_zero_point)
    if q is not None:
        rows = op.sum(op.astype(a, dtype="int32"), axis=-1, keepdims=rank_of(b) > 1)
        result = op.subtract(result, op.multiply(rows, q))
    p = _wide(a_zero_point)
    if p is not None:
        wide = op.astype(b, dtype="int32")
        columns = op.sum(op.subtract(wide, q) if q is not None else wide, axis=_depth_axis(b))
        if rank_of(a_zero_point) == 1 and rank_of(a) > 1 and not _is_single(a_zero_point):  # type: ignore[arg-type]
            p = op.expand_dims(p, axis=-1)
        if rank_of(b) > 2:
            columns = op.expand_dims(columns, axis=-2)
        result = op.subtract(result, op.multiply(columns, p))
    return result


def _depth_axis(b: GraphExpr) -> int:
    return -2 if rank_of(b) > 1 else -1


@composite("nn.conv_integer")
def conv_integer(
    data: GraphExpr,
    weight: GraphExpr,
    data_zero_point: GraphExpr | None = None,
    weight_zero_point: GraphExpr | None = None,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> GraphExpr:
    """Return the convolution of `data[n, c, ...] - p` with `weight[o, i, ...] - q` as int32.

    The zero point `p` is one number, `q` one or one for each output channel. Padding is with `p`,
    which is 0 minus the zero point.
    """
    rank = rank_of(data) - 2
    conv = {1: op.nn.conv1d, 2: op.nn.conv2d, 3: op.nn.conv3d}.get(rank)
    if conv is None:
        raise IRTypeError(f"data must have 3 to 5 dimensions, got {rank + 2}")
    options = {"strides": strides, "dilation": dilation, "groups": groups, "out_dtype": "int32"}
    p, q = _wide(data_zero_point), _wide(weight_zero_point)
    sides = _sides(padding, rank)
    if p is not None and any(sides):
        value = _number(data_zero_point)
        if value is None:
            # What is padded with is known when the model runs: the numbers themselves, then.
            shifted = op.subtract(op.astype(data, dtype="int32"), p)
            wide = op.astype(weight, dtype="int32")
            kernel = wide if q is None else op.subtract(wide, _per_output(q, rank + 2))
            return conv(shifted, kernel, padding=sides, **options)
        widths = [0, 0, 0, 0]
        for k in range(rank):
            widths += [sides[k], sides[rank + k]]
        data, sides = op.nn.pad(data, pad_width=widths, pad_value=value), [0] * (2 * rank)
    result = conv(data, weight, padding=sides, **options)
    if q is not None:
        # Sums of windows: the same convolution with ones, of one output channel for each group.
        one = Constant(np.ones((groups, *_numbers(weight)[1:]), str(dtype_of(weight))))
        sums = conv(data, one, padding=sides, **options)
        if groups > 1:
            sums = op.repeat(sums, repeats=_numbers(weight)[0] // groups, axis=1)
        result = op.subtract(result, op.multiply(sums, _per_channel(q, rank)))
    if p is not None:
        wide = op.astype(weight, dtype="int32")
        kernel = wide if q is None else op.subtract(wide, _per_output(q, rank + 2))
        total = op.sum(kernel, axis=list(range(1, rank + 2)))
        result = op.subtract(result, op.multiply(_per_channel(total, rank), p))
    return result


def _wide(zero_point: GraphExpr | None) -> GraphExpr | None:
    """Return a zero point as int32; None for none, and for a constant 0."""
    if zero_point is None:
        return None
    if isinstance(zero_point, Constant):
        if not zero_point.data.any():
            return None
        return _scalar(Constant(zero_point.data.astype("int32")))
    return _scalar(op.astype(zero_point, dtype="int32"))


def _scalar(x: GraphExpr) -> GraphExpr:
    """Return a number as a tensor of rank 0."""
    return op.reshape(x, ()) if rank_of(x) == 1 and _is_single(x) else x


def _is_single(x: GraphExpr) -> bool:
    return all(getattr(n, "value", None) == 1 for n in shape_of(x))


def _number(x: GraphExpr | None) -> int | None:
    """Return the number that a constant is, None for another value."""
    return int(x.data.ravel()[0]) if isinstance(x, Constant) and x.data.size == 1 else None


def _numbers(x: GraphExpr) -> list[int]:
    return [int(n.value) for n in shape_of(x)]  # type: ignore[attr-defined]


def _per_channel(x: GraphExpr, rank: int) -> GraphExpr:
    """Return numbers for channels as a tensor that is stretched to `[n, c, ...]`."""
    return op.expand_dims(x, axis=list(range(1, rank + 1))) if rank_of(x) == 1 else x


def _per_output(x: GraphExpr, rank: int) -> GraphExpr:
    """Return numbers for output channels as a tensor that is stretched to a weight."""
    return op.expand_dims(x, axis=list(range(1, rank))) if rank_of(x) == 1 else x


def _sides(padding: int | Sequence[int], rank: int) -> list[int]:
    values = [padding] if isinstance(padding, int) else list(padding)
    return values * (2 * rank // len(values)) if 2 * rank % len(values) == 0 else values
