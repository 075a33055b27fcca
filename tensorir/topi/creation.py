"""Tensors created from numbers, positions and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import cast, const, select
from tensorir.relax.declaration import operator
from tensorir.relax.expr import const_of
from tensorir.relax.signature import DTypeName
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import Value, element
from tensorir.topi.extents import axis_of, product, size_analyzer


def _typed_fill(arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert a plain number to the dtype of the call."""
    value, dtype = arguments.get("fill_value"), arguments.get("dtype")
    if isinstance(dtype, str) and isinstance(value, (bool, int, float)):
        return {**arguments, "fill_value": const_of(value, dtype)}
    return arguments


@operator("full", prepare=_typed_fill)
def full(shape: Sequence[PrimExpr], fill_value: Value, dtype: DTypeName | None = None) -> Tensor:
    """Return a tensor filled with a number, by default with the dtype of the number."""
    if isinstance(fill_value, Tensor) and fill_value.ndim:
        raise IRTypeError(f"fill_value must be a scalar, got {fill_value.ndim} dimension(s)")
    kind = fill_value.dtype if dtype is None else DataType(dtype)
    return te.compute(shape, lambda *i: cast(kind, element(fill_value, i)), name="T_full")


@operator("full_like", prepare=_typed_fill)
def full_like(x: Tensor, fill_value: Value, dtype: DTypeName | None = None) -> Tensor:
    """Return a tensor filled with a number, in the shape and by default the dtype of `x`."""
    return full(x.shape, fill_value, str(x.dtype) if dtype is None else dtype)


@operator("zeros")
def zeros(shape: Sequence[PrimExpr], dtype: DTypeName) -> Tensor:
    """Return a tensor of zeros."""
    return full(shape, const(0, dtype))


@operator("zeros_like")
def zeros_like(x: Tensor, dtype: DTypeName | None = None) -> Tensor:
    """Return zeros in the shape and by default the dtype of `x`."""
    return zeros(x.shape, str(x.dtype) if dtype is None else dtype)


@operator("ones")
def ones(shape: Sequence[PrimExpr], dtype: DTypeName) -> Tensor:
    """Return a tensor of ones."""
    return full(shape, const(1, dtype))


@operator("ones_like")
def ones_like(x: Tensor, dtype: DTypeName | None = None) -> Tensor:
    """Return ones in the shape and by default the dtype of `x`."""
    return ones(x.shape, str(x.dtype) if dtype is None else dtype)


@operator("arange")
def arange(
    start: PrimExpr,
    end: PrimExpr | None = None,
    step: PrimExpr | int = 1,
    dtype: DTypeName | None = None,
) -> Tensor:
    """Return `start, start + step, ...` up to `end`, which is excluded.

    A single number is the end; the start is 0. The dtype is int64 for integers, otherwise float32.
    """
    if end is None:
        start, end = const(0, start.dtype), start
    by = const(step, INT64) if isinstance(step, int) else step
    floating = any(v.dtype.is_floating for v in (start, end, by))
    kind = DataType(dtype or ("float32" if floating else "int64"))
    if (number := getattr(by, "value", None)) == 0:
        raise IRValueError("the step must not be 0")
    if floating:
        numbers = [float(getattr(v, "value", "nan")) for v in (start, end, by)]
        if any(n != n for n in numbers):
            raise IRTypeError("a range of floating-point numbers needs constant bounds and step")
        length: PrimExpr = const(
            max(0, -int(-((numbers[1] - numbers[0]) / numbers[2]) // 1)), INT64
        )
    else:
        if number is None:
            raise IRTypeError(f"the step of a range of integers must be constant, got {by}")
        start, end = cast(INT64, start), cast(INT64, end)
        distance = end - start if number > 0 else start - end
        size = size_analyzer([start], [end])
        length = size.simplify(te.ceildiv(distance, const(abs(number), INT64)))
        if not size.can_prove(length >= 0):
            length = size.simplify(te.max(length, const(0, INT64)))
    wide = "float64" if floating else "int64"
    first, step_ = cast(wide, start), cast(wide, by)
    return te.compute(
        (length,), lambda i: cast(kind, first + cast(wide, i) * step_), name="T_arange"
    )


@operator("eye")
def eye(n: PrimExpr, m: PrimExpr | None = None, k: int = 0, dtype: DTypeName = "float32") -> Tensor:
    """Return a matrix with ones on the diagonal `column - row == k`; square without `m`."""
    return _diagonal([cast(INT64, n), cast(INT64, n if m is None else m)], k, dtype)


@operator("eye_like")
def eye_like(x: Tensor, k: int = 0, dtype: DTypeName | None = None) -> Tensor:
    """Return a matrix with ones on the diagonal `column - row == k`, in the shape of a matrix."""
    if x.ndim != 2:
        raise IRTypeError(f"x must be a matrix, got {x.ndim} dimension(s)")
    return _diagonal(x.shape, k, str(x.dtype) if dtype is None else dtype)


def _diagonal(shape: Sequence[PrimExpr], k: int, dtype: str) -> Tensor:
    return te.compute(
        shape,
        lambda i, j: select(j - i == k, const(1, dtype), const(0, dtype)),
        name="T_eye",
    )


@operator("tril")
def tril(x: Tensor, k: PrimExpr | int = 0) -> Tensor:
    """Return the elements of matrices up to the diagonal `column - row == k`, zeros above."""
    return _triangle(x, k, lambda distance, limit: distance <= limit)


@operator("triu")
def triu(x: Tensor, k: PrimExpr | int = 0) -> Tensor:
    """Return the elements of matrices from the diagonal `column - row == k` on, zeros below."""
    return _triangle(x, k, lambda distance, limit: distance >= limit)


def _triangle(x: Tensor, k: Any, is_in: Any) -> Tensor:
    if x.ndim < 2:
        raise IRTypeError(f"x must have at least 2 dimensions, got {x.ndim}")
    limit = const(k, INT64) if isinstance(k, int) else cast(INT64, k)
    zero = const(0, x.dtype)
    return te.compute(
        x.shape, lambda *i: select(is_in(i[-1] - i[-2], limit), x[i], zero), name="trilu"
    )


@operator("one_hot")
def one_hot(
    indices: Tensor, on_value: PrimExpr, off_value: PrimExpr, depth: PrimExpr | int, axis: int = -1
) -> Tensor:
    """Return a tensor with a new axis: `on_value` at the index, `off_value` elsewhere."""
    k = axis_of(axis, indices.ndim + 1)
    extent = const(depth, INT64) if isinstance(depth, int) else cast(INT64, depth)
    return te.compute(
        [*indices.shape[:k], extent, *indices.shape[k:]],
        lambda *i: select(cast(INT64, indices[(*i[:k], *i[k + 1 :])]) == i[k], on_value, off_value),
        name="T_one_hot",
    )


@operator("shape_to_tensor")
def shape_to_tensor(shape: Sequence[PrimExpr]) -> Tensor:
    """Return the integers of a shape as an int64 tensor of rank 1."""

    def element(k: PrimExpr) -> PrimExpr:
        result = cast(INT64, shape[-1] if shape else 0)
        for place in reversed(range(len(shape) - 1)):
            result = select(k <= place, cast(INT64, shape[place]), result)
        return result

    return te.compute((len(shape),), element, name="T_shape_to_tensor")


@operator("size")
def size(x: Tensor) -> Tensor:
    """Return the number of elements as an int64."""
    count = product(x.shape)
    return te.compute((), lambda: count, name="T_size")
