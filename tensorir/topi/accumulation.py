"""The dtype of accumulators, which may be wider than the dtype of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorir import te
from tensorir.nodes.dtype import FLOAT32, DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import cast
from tensorir.te.tensor import Tensor
from tensorir.topi.elementwise import map_elements

_NARROW: Final = 16


def sum_dtype(dtype: DataType) -> DataType:
    """Return the dtype for sums: float32 for floats of 16 and 8 bits, otherwise the same."""
    return FLOAT32 if dtype.is_floating and dtype.bits <= _NARROW else dtype


def rounded(tensor: Tensor, dtype: DataType) -> Tensor:
    """Return a tensor converted to `dtype`; itself if it has this dtype."""
    if tensor.dtype is dtype:
        return tensor
    return map_elements("T_cast", lambda v: cast(dtype, v), tensor)


def map_widened(name: str, function: Callable[[PrimExpr], PrimExpr], x: Tensor) -> Tensor:
    """Return `function` of each element, computed in the dtype of `sum_dtype`."""
    wide = sum_dtype(x.dtype)
    return te.compute(
        x.shape, lambda *i: cast(x.dtype, function(cast(wide, x[i]))), name=name
    )  # fmt: skip
