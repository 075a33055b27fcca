"""Numbers of Python and NumPy as arrays of a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import DataType
from tensorir.semantics.floats import rounding, to_bits


def stored(values: ArrayLike, dtype: DataType) -> NDArray[Any]:
    """Return numbers as NumPy holds a dtype, rounded to nearest where that is of floats.

    bfloat16 is held as its bits, and 8-bit floats are taken as their bits. Raises IRTypeError for
    what is no numbers; IRValueError for lists of several lengths, and for a number that a dtype of
    integers does not have.
    """
    try:
        array = np.asarray(values)
    except ValueError as problem:
        raise IRValueError(f"the lists are no array: {problem}") from None
    if array.dtype.kind not in "biuf":
        raise IRTypeError(f"expected numbers, got {array.dtype}")
    held = dtype.to_numpy()
    if dtype == "bfloat16":
        nearest = rounding(dtype)
        bits = [to_bits(nearest(float(v)), dtype) for v in array.flat]
        return np.array(bits, held).reshape(array.shape)
    if held != array.dtype and str(held) != str(dtype):
        raise IRValueError(
            f"a constant of {dtype} is made from its bits: Constant(bits, {dtype!r})"
        )
    with np.errstate(invalid="ignore", over="ignore"):
        converted = array.astype(held)
    if dtype.is_integral and not np.array_equal(converted, array):
        raise IRValueError(f"{dtype} cannot represent every value of {array.tolist()}")
    return converted
