"""Ranks, shapes and dtypes of operands, for composites that depend on them."""

from __future__ import annotations

from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import UNKNOWN_NDIM, TensorStructInfo


def _info(x: GraphExpr) -> TensorStructInfo:
    info = x.struct_info
    if not isinstance(info, TensorStructInfo):
        raise IRTypeError(f"expected a tensor, got {info}")
    return info


def rank_of(x: GraphExpr) -> int:
    """Return the rank of a tensor; IRTypeError if it is unknown."""
    info = _info(x)
    if info.ndim == UNKNOWN_NDIM:
        raise IRTypeError(f"the rank of a tensor must be known, got {info}; match_cast states it")
    return info.ndim


def shape_of(x: GraphExpr) -> tuple[PrimExpr, ...]:
    """Return the shape of a tensor; IRTypeError if it is unknown."""
    info = _info(x)
    if info.shape is None:
        raise IRTypeError(f"the shape of a tensor must be known, got {info}; match_cast states it")
    return tuple(info.shape)


def dtype_of(x: GraphExpr) -> DataType:
    """Return the dtype of a tensor; IRTypeError if it is unknown."""
    info = _info(x)
    if info.dtype is None:
        raise IRTypeError(f"the dtype of a tensor must be known, got {info}; match_cast states it")
    return info.dtype
