"""Arrays of bfloat16 for NumPy, which lacks the dtype: bits in uint16, numbers in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def numbers_of(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return numbers of bfloat16 as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bits_of(numbers: NDArray[Any]) -> NDArray[np.uint16]:
    """Return numbers rounded to bfloat16 (ties to even), as bits."""
    wide = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    rounded = (wide + 0x7FFF + (wide >> 16 & 1)) >> 16
    bits = np.where(np.isnan(numbers), wide >> 16 | 0x40, rounded).astype(np.uint16)
    return bits.reshape(np.shape(numbers))
