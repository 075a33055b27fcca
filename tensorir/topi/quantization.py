"""Quantized numbers, which represent real numbers: `x = (q - zero_point) * scale`.

A scale and a zero point apply to the whole tensor (rank 0, or one element), to a slice along an
axis (rank 1), or to blocks along it (the rank of the tensor, shorter along the axis).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import FLOAT32, INT32, DataType
from tensorir.nodes.expr import IntImm, PrimExpr, integer_limits
from tensorir.nodes.ops import cast, ceildiv, const, floordiv
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.extents import axis_of, check_equal, check_floats

_LARGEST_FLOAT8 = {"e4m3_float8": 448.0, "e5m2_float8": 57344.0}
_MOST_BITS = 16
"""The maximum width of integers that are exact in float32; numbers are rounded in float32."""


@operator("quantize")
def quantize(
    data: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int = -1,
    out_dtype: str = "int8",
    block_size: int | None = None,
) -> Tensor:
    """Return `round(data / scale) + zero_point`, ties to even, saturated to the dtype.

    `out_dtype` is an integer of at most 16 bits, or a float of 8 bits. The computation is in
    float32.
    """
    dtype = DataType(out_dtype)
    check_floats("scale", scale)
    scales = _parameter(data, scale, axis, block_size)
    zeros = None if zero_point is None else _parameter(data, zero_point, axis, block_size)
    if dtype.is_integral and not dtype.is_bool and dtype.bits <= _MOST_BITS:
        low, high = (const(float(n), FLOAT32) for n in integer_limits(dtype))
        rounded: Callable[[PrimExpr], PrimExpr] = te.round
    elif str(dtype) in _LARGEST_FLOAT8:
        high = const(_LARGEST_FLOAT8[str(dtype)], FLOAT32)
        low, rounded = -high, lambda x: x
    else:
        raise IRTypeError(f"out_dtype must have 8 or 16 bits, got {dtype}")
    if zero_point is not None and zero_point.dtype is not dtype:
        raise IRTypeError(
            f"the zero point must have the dtype {dtype} of the result, got {zero_point.dtype}"
        )

    def element(*i: PrimExpr) -> PrimExpr:
        value = rounded(cast(FLOAT32, data[i]) / cast(FLOAT32, scales(i)))
        if zeros is not None:
            value = value + cast(FLOAT32, zeros(i))
        return cast(dtype, te.max(te.min(value, high), low))

    return te.compute(data.shape, element, name="T_quantize")


@operator("dequantize")
def dequantize(
    data: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int = -1,
    out_dtype: str = "float32",
    block_size: int | None = None,
) -> Tensor:
    """Return `(data - zero_point) * scale`, in float32 for integers of 8 and 16 bits."""
    check_floats("scale", scale)
    is_float = data.dtype.is_floating
    scales = _parameter(data, scale, axis, block_size)
    zeros = None
    if zero_point is not None and not is_float:
        zeros = _parameter(data, zero_point, axis, block_size)

    def element(*i: PrimExpr) -> PrimExpr:
        value: PrimExpr = data[i] if is_float else cast(INT32, data[i])
        if zeros is not None:
            value = value - cast(INT32, zeros(i))
        return cast(out_dtype, cast(FLOAT32, value) * cast(FLOAT32, scales(i)))

    return te.compute(data.shape, element, name="T_dequantize")


def _parameter(
    data: Tensor, values: Tensor, axis: int, block_size: int | None
) -> Callable[[Sequence[PrimExpr]], PrimExpr]:
    """Return a function that maps the indices of an element to its scale or zero point."""
    alone = values.ndim == 1 and isinstance(values.shape[0], IntImm) and values.shape[0].value == 1
    if values.ndim == 0 or (alone and block_size is None):
        return lambda i: values[(const(0, "int64"),) * values.ndim]
    place = axis_of(axis, data.ndim)
    if values.ndim == 1 and block_size is None:
        check_equal(values.shape[0], "the number of scales", data.shape[place], "the extent")
        return lambda i: values[i[place]]
    if values.ndim != data.ndim:
        raise IRValueError(
            f"a tensor of {data.ndim} dimension(s) has scales of 0, 1 or {data.ndim}, not "
            f"{values.ndim}"
        )
    for k, (n, blocks) in enumerate(zip(data.shape, values.shape, strict=True)):
        if k != place:
            check_equal(n, f"dimension {k} of the tensor", blocks, "that of the scales")
    size: PrimExpr | int = block_size or ceildiv(data.shape[place], values.shape[place])
    return lambda i: values[(*i[:place], floordiv(i[place], size), *i[place + 1 :])]
