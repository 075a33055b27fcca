"""Arguments to measure on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen import empty
from search.arg_info import ArgInfo, TensorInfo
from search.errors import TuningError
from tensorir.dtype import DataType


def random_arrays(infos: Sequence[ArgInfo], seed: int) -> list[NDArray[Any]]:
    """Return one array for each argument, the same ones for the same seed.

    Floats lie in [0.5, 1.5): no subnormals, no cancellation, nothing that overflows a sum. Integers
    lie in [0, 8), booleans are both. Data begin at a multiple of 64 bytes.
    """
    rng = np.random.default_rng(seed)
    arrays = []
    for info in infos:
        if not isinstance(info, TensorInfo):
            raise TuningError(f"only tensors can be made up for measuring, got {info}")
        arrays.append(_filled(info.dtype, info.shape, rng))
    return arrays


def _filled(dtype: DataType, shape: Sequence[int], rng: np.random.Generator) -> NDArray[Any]:
    array = empty(shape, dtype)
    if dtype.is_bool:
        array[...] = rng.integers(0, 2, shape, np.uint8)
    elif dtype == "bfloat16":
        values = rng.random(shape, np.float32) + np.float32(0.5)
        array[...] = values.view(np.uint32) >> 16
    elif dtype.is_float:
        array[...] = rng.random(shape, np.float32) + np.float32(0.5)
    else:
        array[...] = rng.integers(0, 8, shape, np.uint8)
    return array
