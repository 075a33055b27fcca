"""Elements of tensors as sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import PrimStructInfo, TupleStructInfo


def _scalars(x: GraphExpr, count: int) -> TupleStructInfo:
    return TupleStructInfo(PrimStructInfo("int64") for _ in range(count))


@library("tensor_to_scalars", _scalars)
def tensor_to_scalars(x: NDArray[Any], count: int) -> tuple[int, ...]:
    """Return the elements of a tensor of `count` integers, as a tuple of numbers.

    `match_cast` makes symbolic sizes of them.
    """
    return tuple(int(n) for n in np.reshape(x, count))
