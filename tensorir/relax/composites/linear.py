"""Linear layers."""

from __future__ import annotations

from tensorir.relax import op
from tensorir.relax.composites.operand_shapes import rank_of
from tensorir.relax.declaration import composite
from tensorir.relax.expr import GraphExpr


@composite("linear")
def linear(
    data: GraphExpr,
    weight: GraphExpr,
    bias: GraphExpr | None = None,
    out_dtype: str | None = None,
) -> GraphExpr:
    """Return `data @ weight.T + bias`; a constant weight is transposed when a model is built."""
    turned = weight if rank_of(weight) == 1 else op.permute_dims(weight)
    product = op.matmul(data, turned, out_dtype=out_dtype)
    return product if bias is None else op.add(product, bias)
