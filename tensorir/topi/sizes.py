"""Sizes as tensors."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir import te
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import cast, select
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.extents import product


@operator("shape_to_tensor")
def shape_to_tensor(shape: Sequence[PrimExpr]) -> Tensor:
    """Return the integers of a shape as an int64 tensor of rank 1."""

    def element(k: PrimExpr) -> PrimExpr:
        result = cast(INT64, shape[-1] if shape else 0)
        for place in reversed(range(len(shape) - 1)):
            result = select(k <= place, cast(INT64, shape[place]), result)
        return result

    return te.compute((len(shape),), element, name="T_shape_to_tensor")


@operator("size")
def size(x: Tensor) -> Tensor:
    """Return the number of elements as an int64."""
    count = product(x.shape)
    return te.compute((), lambda: count, name="T_size")
