"""Arrays at addresses that vector instructions like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorir.dtype import DataType

ALIGNMENT: Final = 64
"""Bytes: a cache line, and the widest vector of x86 and ARM."""


def empty(shape: Sequence[int], dtype: str = "float32") -> NDArray[Any]:
    """Return an uninitialised array whose data begin at a multiple of 64 bytes.

    NumPy's own arrays begin at multiples of 16, so that vector loads from them often touch two
    cache lines, which can cost a third of the speed of a good kernel.
    """
    kind = DataType(dtype).to_numpy()
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.empty(count * kind.itemsize + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count * kind.itemsize].view(kind).reshape(tuple(shape))


def array(values: ArrayLike) -> NDArray[Any]:
    """Return a copy of an array whose data begin at a multiple of 64 bytes."""
    source = np.asarray(values)
    count = source.size * source.itemsize
    raw = np.empty(count + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    result: NDArray[Any] = raw[start : start + count].view(source.dtype).reshape(source.shape)
    result[...] = source
    return result
