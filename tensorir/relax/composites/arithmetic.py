"""Element-wise arithmetic, sums and shapes, composed of other operators."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.declaration import composite
from tensorir.relax.expr import GraphExpr, ShapeExpr
from tensorir.relax.struct_info import TensorStructInfo


@composite("ewise_fma")
def ewise_fma(x1: GraphExpr, x2: GraphExpr, x3: GraphExpr) -> GraphExpr:
    """Return `x1 * x2 + x3`."""
    return x1 * x2 + x3


@composite("masked_fill")
def masked_fill(x: GraphExpr, mask: GraphExpr, value: GraphExpr | PrimExpr) -> GraphExpr:
    """Return `value` where the bool mask is true, and `x` elsewhere."""
    return op.where(mask, value, x)


@composite("collapse_sum_to")
def collapse_sum_to(data: GraphExpr, shape: Sequence[PrimExpr]) -> GraphExpr:
    """Return the sums over the dimensions along which `shape` would broadcast to the data."""
    info = data.struct_info
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        raise IRTypeError(f"the shape of data is not known, it is {info}; match_cast states it")
    added = info.ndim - len(shape)
    if added < 0:
        raise IRValueError(f"{info} cannot become a tensor of {len(shape)} dimension(s)")
    ones = [k for k, n in enumerate(shape) if isinstance(n, IntImm) and n.value == 1]
    axes = [*range(added), *(k + added for k in ones)]
    total = op.sum(data, axes, keepdims=True) if axes else data
    return op.squeeze(total, list(range(added))) if added else total


@composite("collapse_sum_like")
def collapse_sum_like(data: GraphExpr, collapse_target: GraphExpr) -> GraphExpr:
    """Return `collapse_sum_to` with the shape of another tensor."""
    return op.collapse_sum_to(data, op.shape_of(collapse_target))


@composite("shape_of")
def shape_of(x: GraphExpr) -> GraphExpr:
    """Return the known shape as a shape value; `shape_to_tensor` converts it to a tensor."""
    info = x.struct_info
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        raise IRTypeError(f"the shape of x is not known, it is {info}; match_cast states it")
    return ShapeExpr(info.shape)
