"""Activations: functions of each element."""

from __future__ import annotations

from tensorir import te
from tensorir.nodes.ops import const
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.elementwise import map_elements


@operator("nn.relu")
def relu(x: Tensor) -> Tensor:
    """Return `max(x, 0)`."""
    return map_elements("relu", lambda v: te.max(v, const(0, x.dtype)), x)
