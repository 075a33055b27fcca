"""The arrays of what a graph function returns."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from codegen import BFloat16Array

Array: TypeAlias = "NDArray[Any] | BFloat16Array"


def arrays_in(result: Any) -> list[Array]:
    """Return the arrays of a result, those in nested tuples in order."""
    if isinstance(result, (tuple, list)):
        return [array for part in result for array in arrays_in(part)]
    return [result if isinstance(result, BFloat16Array) else np.asarray(result)]
