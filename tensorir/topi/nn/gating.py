"""Activations that gate one half of a tensor by the other half."""

from __future__ import annotations

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, floordiv
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import sum_dtype
from tensorir.topi.extents import axis_of, check_floats, simplified


@operator("nn.glu", dimension_order=order_of("axis"))
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Return the first half of an axis times the sigmoid of the second (Dauphin et al., 2016)."""
    check_floats("x", x)
    along = axis_of(axis, x.ndim)
    length = x.shape[along]
    if isinstance(length, IntImm) and length.value % 2:
        raise IRValueError(f"axis {axis} must have an even length, got {length.value}")
    half = simplified(floordiv(length, 2))
    wide = sum_dtype(x.dtype)

    def element(*i: PrimExpr) -> PrimExpr:
        value = cast(wide, x[i])
        gate = cast(wide, x[(*i[:along], i[along] + half, *i[along + 1 :])])
        return cast(x.dtype, value * te.sigmoid(gate))

    return te.compute([*x.shape[:along], half, *x.shape[along + 1 :]], element, name="T_glu")
