"""Operators whose result has a shape that the data decide."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo


def _indices(x: GraphExpr) -> TensorStructInfo:
    return TensorStructInfo(None, "int64", 2)


@library("nonzero", _indices)
def nonzero(x: NDArray[Any]) -> NDArray[np.int64]:
    """Return the indices of elements that are not 0, one column each, in row-major order."""
    return np.stack(np.nonzero(x)).astype(np.int64)
