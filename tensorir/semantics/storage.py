"""Conversion of Python and NumPy numbers to arrays of a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.semantics.floats import rounding, to_bits


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
