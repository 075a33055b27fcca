"""Shapes of tensors as values."""

from __future__ import annotations

from tensorir.errors import IRTypeError
from tensorir.relax.declaration import composite
from tensorir.relax.expr import GraphExpr, ShapeExpr
from tensorir.relax.struct_info import TensorStructInfo


@composite("shape_of")
def shape_of(x: GraphExpr) -> GraphExpr:
    """Return the known shape as a shape value; `shape_to_tensor` converts it to a tensor."""
    info = x.struct_info
    if not isinstance(info, TensorStructInfo) or info.shape is None:
        raise IRTypeError(f"the shape of x is not known, it is {info}; match_cast states it")
    return ShapeExpr(info.shape)
