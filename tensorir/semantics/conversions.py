"""Conversions of numbers to other types (`Cast`, `reinterpret`), and to arrays of a type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.semantics.floats import format_of, from_bits, nearest, rounding, to_bits
from tensorir.semantics.integers import saturating, wrapping


@cache
def conversion(source: DataType, target: DataType) -> Callable[[Any], Any]:
    """Return the function that casts a value of one scalar type to another.

    Raises IRTypeError for a type without arithmetic.
    """
    for dtype in (source, target):
        if not dtype.is_integral:
            format_of(dtype)
    if source is target:
        return lambda value: value
    if target.is_bool:
        return lambda value: bool(value != 0)
    if target.is_integral:
        return wrapping(target) if source.is_integral else _truncating(target)
    if source.is_floating:
        return rounding(target)
    to_target = rounding(target)
    # A double represents integers of up to 53 bits exactly, so only the conversion to the target
    # rounds.
    return lambda value: (
        to_target(float(value)) if -(1 << 53) < value < 1 << 53 else nearest(int(value), target)
    )


def _truncating(target: DataType) -> Callable[[float], int]:
    nearest_inside = saturating(target)
    extremes = {math.inf: nearest_inside(1 << 64), -math.inf: nearest_inside(-(1 << 64))}

    def truncated(value: float) -> int:
        if math.isfinite(value):
            return nearest_inside(int(value))
        return extremes.get(value, 0)

    return truncated


def convert(value: Any, source: DataType, target: DataType) -> Any:
    """Return the result of `Cast`."""
    return conversion(source, target)(value)


def reinterpreted(values: Sequence[Any], source: DataType, target: DataType) -> list[Any]:
    """Return the elements of type `target` with the same bytes as the elements `values`.

    Lanes are in order, bytes are little-endian. Raises IRTypeError if the number of bytes is not a
    multiple of the size of an element.
    """
    data = b"".join(_pattern(v, source).to_bytes(source.nbytes, "little") for v in values)
    size = target.nbytes
    if len(data) % size:
        raise IRTypeError(f"{len(data)} bytes cannot be read as elements of {target}")
    patterns = (int.from_bytes(data[k : k + size], "little") for k in range(0, len(data), size))
    return [_of_pattern(bits, target) for bits in patterns]


def _pattern(value: Any, dtype: DataType) -> int:
    if dtype.is_integral:
        return int(value) & ((1 << dtype.bits) - 1)
    return to_bits(value, dtype)


def _of_pattern(bits: int, dtype: DataType) -> Any:
    return wrapping(dtype)(bits) if dtype.is_integral else from_bits(bits, dtype)


def stored(values: ArrayLike, dtype: DataType) -> NDArray[Any]:
    """Return numbers as a NumPy array that stores a dtype; floats are rounded to nearest.

    bfloat16 and 8-bit floats are stored as their bits. Raises IRTypeError for values other than
    numbers. Raises IRValueError for ragged lists, and for a number outside of an integer dtype.
    """
    try:
        array = np.asarray(values)
    except ValueError as problem:
        raise IRValueError(f"the lists do not form an array: {problem}") from None
    if array.dtype.kind not in "biuf":
        raise IRTypeError(f"expected numbers, got {array.dtype}")
    storage_dtype = dtype.to_numpy()
    if dtype == "bfloat16":
        nearest = rounding(dtype)
        bits = [to_bits(nearest(float(v)), dtype) for v in array.flat]
        return np.array(bits, storage_dtype).reshape(array.shape)
    if storage_dtype != array.dtype and str(storage_dtype) != str(dtype):
        raise IRValueError(
            f"a constant of {dtype} must be given by its bits: Constant(bits, {dtype!r})"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(storage_dtype)
    if dtype.is_integral and not np.array_equal(converted, array):
        raise IRValueError(f"{dtype} cannot represent every value of {array.tolist()}")
    return converted
