"""Operators with a data-dependent shape of the result."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError
from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr
from tensorir.relax.library.sorting import tensor_info
from tensorir.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo

Array = NDArray[Any]


def _indices(x: GraphExpr) -> TensorStructInfo:
    return TensorStructInfo(None, "int64", 2)


@library("nonzero", _indices)
def nonzero(x: Array) -> NDArray[np.int64]:
    """Return the indices of nonzero elements, one column each, in row-major order."""
    if x.ndim == 0:
        return np.empty((0, int(x != 0)), np.int64)
    return np.stack(np.nonzero(x)).astype(np.int64)


def _without_repeats(
    x: GraphExpr,
    sorted: bool,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    axis: int | None,
) -> StructInfo:
    info = tensor_info(x)
    values = TensorStructInfo(None, info.dtype, 1 if axis is None else info.ndim)
    others = [TensorStructInfo(None, "int64", 1)] * (return_index + return_inverse + return_counts)
    return TupleStructInfo([values, *others]) if others else values


@library("unique", _without_repeats)
def unique(
    x: Array,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """Return the distinct elements, or the distinct slices along an axis.

    They are sorted, or in the order of first appearance. On request they are followed by the first
    positions, the number of the distinct element for each element, and the counts: vectors of
    int64.
    """
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = np.reshape(inverse, -1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    asked = [(return_index, first), (return_inverse, inverse), (return_counts, counts)]
    others = [array.astype(np.int64) for wanted, array in asked if wanted]
    return (values, *others) if others else values


def _some(x: GraphExpr, condition: GraphExpr, axis: int | None) -> StructInfo:
    info = tensor_info(x)
    if tensor_info(condition).dtype not in ("bool", None):
        raise IRTypeError(f"the condition must be of bools, got {condition.struct_info}")
    return TensorStructInfo(None, info.dtype, 1 if axis is None else info.ndim)


@library("compress", _some)
def compress(x: Array, condition: Array, axis: int | None = None) -> Array:
    """Return the slices along an axis, or the elements, for which a vector of bools is true.

    Slices beyond the length of the vector are dropped.
    """
    return np.compress(condition, x, axis=axis)


def _chosen(x: GraphExpr, mask: GraphExpr) -> StructInfo:
    return TensorStructInfo(None, tensor_info(x).dtype, 1)


@library("masked_select", _chosen)
def masked_select(x: Array, mask: Array) -> Array:
    """Return the elements for which a mask, which broadcasts, is true, in row-major order."""
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


def _ranges(x: GraphExpr, begin: GraphExpr, end: GraphExpr, strides: GraphExpr) -> StructInfo:
    info = tensor_info(x)
    return TensorStructInfo(None, info.dtype, info.ndim)


@library("dynamic_strided_slice", _ranges)
def dynamic_strided_slice(x: Array, begin: Array, end: Array, strides: Array) -> Array:
    """Return `x[begin:end:stride]` along its first axes, as Python slices; vectors of integers."""
    bounds = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
    return np.ascontiguousarray(x[tuple(slice(*bound) for bound in bounds)])
