"""Activations that are expressions of other operators."""

from __future__ import annotations

from tensorir.relax import op
from tensorir.relax.declaration import composite
from tensorir.relax.expr import GraphExpr


@composite("nn.silu")
def silu(x: GraphExpr) -> GraphExpr:
    """Return `x * sigmoid(x)` (Elfwing et al., 2018; also called swish)."""
    return x * op.sigmoid(x)
