"""Numbers as integers times a scale: `(q - zero_point) * scale`.

Scales and zero points are single numbers, or one for each place along an axis, or tensors of the
rank of the data whose elements are each for a block along the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import FLOAT32, DataType
from tensorir.nodes.expr import EQ, IntImm, IterVar, PrimExpr
from tensorir.nodes.leaves import integer_limits
from tensorir.nodes.ops import cast, compare, const, div, floordiv
from tensorir.relax.declaration import operator
from tensorir.relax.signature import DTypeName
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import sum_dtype
from tensorir.topi.extents import axis_of, check_equal, check_floats

_FLOAT8_LARGEST = {"e4m3_float8": 448.0, "e5m2_float8": 57344.0}


@operator("quantize")
def quantize(
    data: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int = -1,
    out_dtype: DTypeName = "int8",
    block_size: int = 0,
) -> Tensor:
    """Return `round(data / scale) + zero_point`, saturated, as integers of `out_dtype`.

    Halves are rounded to even numbers. `axis` is that of scales for each place, and with
    `block_size` for each block of so many places.
    """
    check_floats("scale", scale)
    wide = FLOAT32 if data.dtype.is_integral else sum_dtype(data.dtype)
    shares = _Shares(data, axis, block_size, scale=scale, zero_point=zero_point)
    kind = DataType(out_dtype)

    def element(*indices: PrimExpr) -> PrimExpr:
        value = div(cast(wide, data[indices]), cast(wide, shares.of(scale, indices)))
        zero = None if zero_point is None else shares.of(zero_point, indices)
        return _saturated(value, zero, kind)

    return te.compute(data.shape, element, name="T_quantize")


@operator("dequantize")
def dequantize(
    data: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int = -1,
    out_dtype: DTypeName = "float32",
    block_size: int = 0,
) -> Tensor:
    """Return `(data - zero_point) * scale`; axis and blocks are as in `quantize`."""
    check_floats("scale", scale)
    shares = _Shares(data, axis, block_size, scale=scale, zero_point=zero_point)
    kind = DataType(out_dtype)
    wide = sum_dtype(kind)

    def element(*indices: PrimExpr) -> PrimExpr:
        value: PrimExpr = data[indices]
        if zero_point is not None:
            zero: PrimExpr = shares.of(zero_point, indices)
            if value.dtype.is_integral and value.dtype.bits < 64:
                value = cast("int32", value) - cast("int32", zero)
            else:
                value = cast(wide, value) - cast(wide, zero)
        return cast(kind, cast(wide, value) * cast(wide, shares.of(scale, indices)))

    return te.compute(data.shape, element, name="T_dequantize")


@operator("requantize")
def requantize(
    data: Tensor,
    scale: Tensor,
    zero_point: Tensor | None = None,
    axis: int = -1,
    out_dtype: DTypeName = "int8",
) -> Tensor:
    """Return `round(data * scale) + zero_point`, saturated; `data` are sums of products."""
    check_floats("scale", scale)
    shares = _Shares(data, axis, 0, scale=scale, zero_point=zero_point)
    kind = DataType(out_dtype)

    def element(*indices: PrimExpr) -> PrimExpr:
        factor = cast(FLOAT32, shares.of(scale, indices))
        zero = None if zero_point is None else shares.of(zero_point, indices)
        return _saturated(cast(FLOAT32, data[indices]) * factor, zero, kind)

    return te.compute(data.shape, element, name="T_requantize")


@operator("dynamic_quantize")
def dynamic_quantize(data: Tensor, out_dtype: DTypeName = "uint8") -> tuple[Tensor, Tensor, Tensor]:
    """Return numbers quantized to their range, 0 included, with scale and zero point."""
    check_floats("data", data)
    kind = DataType(out_dtype)
    if not kind.is_integral or kind.bits > _EXACT:
        raise IRTypeError(f"out_dtype must be integers of 16 bits at most, got {kind}")
    low, high = integer_limits(kind)
    wide = sum_dtype(data.dtype)
    zero, one = const(0, wide), const(1, wide)
    extremes = [
        _all_of(data, lambda v, axis: te.min(cast(wide, v), axis=axis), "T_min"),
        _all_of(data, lambda v, axis: te.max(cast(wide, v), axis=axis), "T_max"),
    ]

    def range_scale() -> PrimExpr:
        span = te.max(extremes[1](), zero) - te.min(extremes[0](), zero)
        # A tensor of zeros is itself, whatever the scale.
        safe: PrimExpr = te.Select(
            compare(EQ, span, zero), one, span / const(high - low, wide)
        )  # fmt: skip
        return safe

    scale = te.compute((), range_scale, name="T_scale")

    def offset() -> PrimExpr:
        lowest = te.min(extremes[0](), zero)
        place = te.nearbyint(const(low, wide) - lowest / scale())
        return cast(kind, te.min(te.max(place, const(low, wide)), const(high, wide)))

    zero_point = te.compute((), offset, name="T_zero_point")
    result = te.compute(
        data.shape,
        lambda *i: _saturated(cast(wide, data[i]) / scale(), zero_point(), kind),
        name="T_quantize",
    )
    given = te.compute((), lambda: cast(data.dtype, scale()), name="T_given_scale")
    return result, given if data.dtype is not wide else scale, zero_point


_EXACT = 16
"""Bits of integers that are added to rounded float32 numbers without another rounding."""


def _saturated(value: PrimExpr, zero: PrimExpr | None, kind: DataType) -> PrimExpr:
    """Return a number rounded and shifted, or the nearest one that a dtype has."""
    wide = value.dtype
    largest = _FLOAT8_LARGEST.get(str(kind))
    if largest is not None:
        shifted = value if zero is None else value + cast(wide, zero)
        limit = const(largest, wide)
        return cast(kind, te.min(te.max(shifted, -limit), limit))
    if not kind.is_integral:
        raise IRTypeError(f"out_dtype must be integers or 8-bit floats, got {kind}")
    low, high = integer_limits(kind)
    rounded: PrimExpr = te.nearbyint(value)
    if kind.bits <= _EXACT:
        if zero is not None:
            rounded = rounded + cast(wide, zero)
        return cast(kind, te.min(te.max(rounded, const(low, wide)), const(high, wide)))
    # Limits of wider integers are no float32 numbers; those of int64 hold what is beyond them.
    far = const(float(1 << 40), wide)
    whole = cast("int64", te.min(te.max(rounded, -far), far))
    if zero is not None:
        whole = whole + cast("int64", zero)
    return cast(kind, te.min(te.max(whole, const(low, "int64")), const(high, "int64")))


class _Shares:
    """Tensors of scales or zero points for the elements of data."""

    def __init__(self, data: Tensor, axis: int, block_size: int, **tensors: Tensor | None) -> None:
        self.block_size = block_size
        self.axis = axis_of(axis, data.ndim) if data.ndim else 0
        for name, tensor in tensors.items():
            if tensor is None or _is_single(tensor):
                continue
            if block_size:
                self._check_blocks(name, tensor, data)
            elif tensor.ndim != 1 or not data.ndim:
                raise IRValueError(
                    f"{name} must be one number, or one for each place along axis {axis}, got rank "
                    f"{tensor.ndim} for data of rank {data.ndim}"
                )
            else:
                check_equal(
                    tensor.shape[0], f"the length of {name}", data.shape[self.axis], f"axis {axis}"
                )

    def _check_blocks(self, name: str, tensor: Tensor, data: Tensor) -> None:
        if tensor.ndim != data.ndim:
            raise IRValueError(
                f"{name} of blocks must have {data.ndim} dimensions, got {tensor.ndim}"
            )
        for k, (n, extent) in enumerate(zip(tensor.shape, data.shape, strict=True)):
            if k == self.axis:
                extent = floordiv(extent + (self.block_size - 1), self.block_size)
            check_equal(n, f"dimension {k} of {name}", extent, "that of the blocks of data")

    def of(self, tensor: Tensor, indices: Sequence[PrimExpr]) -> PrimExpr:
        """Return what a tensor has for an element of the data."""
        if _is_single(tensor):
            return tensor[(0,) * tensor.ndim]
        if not self.block_size:
            return tensor[indices[self.axis]]
        place = list(indices)
        place[self.axis] = floordiv(place[self.axis], self.block_size)
        return tensor[tuple(place)]


def _is_single(tensor: Tensor) -> bool:
    return all(isinstance(n, IntImm) and n.value == 1 for n in tensor.shape)


def _all_of(
    data: Tensor, reduce: Callable[[PrimExpr, Sequence[IterVar]], PrimExpr], name: str
) -> Tensor:
    axes = [te.reduce_axis((0, n), f"k{k}") for k, n in enumerate(data.shape)]
    if not axes:
        return te.compute((), lambda: cast(sum_dtype(data.dtype), data()), name=name)
    return te.compute((), lambda: reduce(data[tuple(axes)], axes), name=name)
