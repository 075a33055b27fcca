"""Whether a candidate computed what the unscheduled program computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.dtype import DataType

_TOLERANCE: Final = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 6e-2}
"""Allowed differences relative to the larger of the value and the mean magnitude of the array.

Reordering a sum of n numbers changes it by up to n rounding errors, so these leave room for long
reductions, while a missing or doubled term of one is seen.
"""


class Reference:
    """The arrays after a run of the unscheduled program."""

    def __init__(self, arrays: Sequence[NDArray[Any]], dtypes: Sequence[DataType]) -> None:
        self.arrays = [_as_float(a, d) for a, d in zip(arrays, dtypes, strict=True)]
        self.dtypes = list(dtypes)
        self.scales = [_scale(a) for a in self.arrays]


def difference(arrays: Sequence[NDArray[Any]], expected: Reference) -> str | None:
    """Return where arrays are not what is expected, None if they are all right.

    Integers and booleans must be equal. NaN equals NaN.
    """
    for number, (array, want, dtype, scale) in enumerate(
        zip(arrays, expected.arrays, expected.dtypes, expected.scales, strict=True)
    ):
        got = _as_float(array, dtype)
        tolerance = _TOLERANCE.get(str(dtype))
        if tolerance is None:
            bad = got != want
        else:
            with np.errstate(invalid="ignore"):
                close = np.abs(got - want) <= tolerance * np.maximum(np.abs(want), scale)
            bad = ~(close | (got == want) | (np.isnan(got) & np.isnan(want)))
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            return (
                f"argument {number} is wrong in {int(bad.sum())} of {bad.size} elements, first at "
                f"{list(where)}: {got[where]} instead of {want[where]}"
            )
    return None


def _as_float(array: NDArray[Any], dtype: DataType) -> NDArray[Any]:
    """Return an array as numpy can compute with it, never the array itself."""
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float32) if dtype == "float16" else array.copy()


def _scale(array: NDArray[Any]) -> float:
    if array.dtype.kind != "f" or array.size == 0:
        return 0.0
    finite = np.abs(array[np.isfinite(array)], dtype=np.float64)
    return float(finite.mean()) if finite.size else 0.0
