"""Operators that sort, and that search in sorted data."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast
from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr, tensor_info
from tensorir.relax.signature import DTypeName
from tensorir.relax.struct_info import UNKNOWN_NDIM, StructInfo, TensorStructInfo, TupleStructInfo

Array = NDArray[Any]


def info_like(x: GraphExpr, dtype: str | None = None) -> TensorStructInfo:
    """Return the struct info of a tensor with the shape and, by default, the dtype of another."""
    info = tensor_info(x)
    return TensorStructInfo(info.shape, info.dtype if dtype is None else dtype, info.ndim)


def _check_axis(info: TensorStructInfo, axis: int) -> None:
    if info.ndim != UNKNOWN_NDIM and not -info.ndim <= axis < info.ndim:
        raise IRValueError(f"axis {axis} is out of bounds for rank {info.ndim}")


def places_in_order(x: Array, axis: int, descending: bool) -> Array:
    """Return the indices that sort an array; the order is stable, NaN is the largest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    turned = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - turned, axis)


def _sort_info(x: GraphExpr, axis: int, descending: bool) -> StructInfo:
    _check_axis(tensor_info(x), axis)
    return info_like(x)


@library("sort", _sort_info)
def sort(x: Array, axis: int = -1, descending: bool = False) -> Array:
    """Return the elements sorted along an axis; NaN is larger than any number."""
    ascending = np.sort(x, axis=axis)
    return np.flip(ascending, axis) if descending else ascending


def _argsort_info(data: GraphExpr, axis: int, descending: bool, dtype: str) -> StructInfo:
    _check_axis(tensor_info(data), axis)
    return info_like(data, dtype)


@library("argsort", _argsort_info)
def argsort(
    data: Array, axis: int = -1, descending: bool = False, dtype: DTypeName = "int32"
) -> Array:
    """Return the indices that sort along an axis; the order is stable."""
    return places_in_order(data, axis, descending).astype(dtype)


def _topk_info(
    data: GraphExpr, k: PrimExpr, axis: int, ret_type: str, largest: bool, dtype: str
) -> StructInfo:
    info = tensor_info(data)
    _check_axis(info, axis)
    shape = None if info.shape is None else list(info.shape)
    if shape is not None and not (isinstance(k, IntImm) and k.value < 1):
        if Analyzer().can_prove(k > shape[axis]):
            least, most = (getattr(n, "value", n) for n in (k, shape[axis]))
            raise IRValueError(
                f"k is at least {least}, but axis {axis} has at most {most} elements"
            )
        shape[axis] = cast(INT64, k)
    values = TensorStructInfo(shape, info.dtype, info.ndim)
    places = TensorStructInfo(shape, dtype, info.ndim)
    alone = {"values": values, "indices": places}
    return alone.get(ret_type, TupleStructInfo([values, places]))


def _with_count(arguments: dict[str, Any]) -> dict[str, Any]:
    """Replace a constant k < 1 by -1, because a k that is read at run time may be 0."""
    k = arguments.get("k", 1)
    constant = k.value if isinstance(k, IntImm) else k
    return {**arguments, "k": -1} if isinstance(constant, int) and constant < 1 else arguments


@library("topk", _topk_info, _with_count)
def topk(
    data: Array,
    k: PrimExpr | int = 1,
    axis: int = -1,
    ret_type: Literal["both", "values", "indices"] = "both",
    largest: bool = True,
    dtype: DTypeName = "int32",
) -> Any:
    """Return the k largest (or smallest) elements along an axis in order, and their indices.

    A constant k < 1 means all elements; a k of 0 that is read at run time means none. Equal
    elements keep their order; NaN is larger than any number.
    """
    count: int = k  # type: ignore[assignment]
    if count > data.shape[axis]:
        raise IRValueError(f"topk: k is {count}, but axis {axis} has {data.shape[axis]} elements")
    count = data.shape[axis] if count < 0 else count
    places = _first_places(data, count, axis, largest)
    values = np.take_along_axis(data, places, axis)
    found = {"values": values, "indices": places.astype(dtype)}
    return found.get(ret_type, tuple(found.values()))


def _first_places(data: Array, count: int, axis: int, largest: bool) -> Array:
    """Return the first `count` of the indices that sort an array; sort everything only if needed.

    A partition may choose any of several equal elements; rows whose result depends on it are
    sorted.
    """
    rows = np.moveaxis(data, axis, -1)
    length = rows.shape[-1]
    if not 0 < count < length or (data.dtype.kind == "f" and np.isnan(data).any()):
        return np.take(places_in_order(data, axis, largest), np.arange(count), axis)
    parted = np.argpartition(rows, length - count if largest else count - 1, -1)
    chosen = np.sort(parted[..., length - count :] if largest else parted[..., :count], -1)
    values = np.take_along_axis(rows, chosen, -1)
    places = np.take_along_axis(chosen, places_in_order(values, -1, largest), -1)
    last = np.take_along_axis(rows, places[..., -1:], -1)
    unsure = np.count_nonzero(rows == last, -1) > np.count_nonzero(values == last, -1)
    if unsure.any():
        places[unsure] = places_in_order(rows[unsure], -1, largest)[..., :count]
    return np.moveaxis(places, -1, axis)


def _bucketize_info(
    input_tensor: GraphExpr, boundaries: GraphExpr, out_int32: bool, right: bool
) -> StructInfo:
    if tensor_info(boundaries).ndim not in (1, UNKNOWN_NDIM):
        raise IRTypeError(f"boundaries must be a vector, got {boundaries.struct_info}")
    return info_like(input_tensor, "int32" if out_int32 else "int64")


@library("bucketize", _bucketize_info)
def bucketize(
    input_tensor: Array, boundaries: Array, out_int32: bool = False, right: bool = False
) -> Array:
    """Return the index of the bucket of each element, for boundaries in increasing order.

    An element that equals a boundary is in the bucket below it, or above it with `right`.
    """
    found = np.searchsorted(boundaries, input_tensor, side="right" if right else "left")
    return np.asarray(found).astype(np.int32 if out_int32 else np.int64)


def _searchsorted_info(
    sorted_sequence: GraphExpr, values: GraphExpr, out_int32: bool, right: bool
) -> StructInfo:
    own, other = tensor_info(sorted_sequence).ndim, tensor_info(values).ndim
    if own not in (1, other, UNKNOWN_NDIM):
        raise IRTypeError(
            f"sorted_sequence has {own} dimension(s); it must be a vector, or have {other} "
            "dimension(s), as values"
        )
    return info_like(values, "int32" if out_int32 else "int64")


@library("searchsorted", _searchsorted_info)
def searchsorted(
    sorted_sequence: Array, values: Array, out_int32: bool = False, right: bool = False
) -> Array:
    """Return the insertion indices of values in a sorted vector, or in rows of a sorted tensor.

    The index is before equal elements, or after them with `right`.
    """
    if sorted_sequence.ndim <= 1:
        return bucketize(values, sorted_sequence, out_int32, right)
    rows = sorted_sequence.reshape(-1, sorted_sequence.shape[-1])
    wanted = values.reshape(rows.shape[0], -1)
    found = [bucketize(w, row, out_int32, right) for w, row in zip(wanted, rows, strict=True)]
    return np.reshape(np.stack(found), values.shape)


def _cumulative_info(x: GraphExpr, axis: int, of_largest: bool) -> StructInfo:
    _check_axis(tensor_info(x), axis)
    return TupleStructInfo([info_like(x), info_like(x, "int64")])


@library("cumulative_extreme", _cumulative_info)
def cumulative_extreme(x: Array, axis: int = -1, of_largest: bool = True) -> tuple[Array, Array]:
    """Return the largest (or smallest) element so far along an axis, and its index.

    Among equal elements it is the last one. From the first NaN on, the element is NaN.
    """
    values = (np.maximum if of_largest else np.minimum).accumulate(x, axis)
    shape = [1] * x.ndim
    shape[axis] = -1
    places = np.arange(x.shape[axis], dtype=np.int64).reshape(shape)
    is_new = (x == values) | (x != x)
    return values, np.maximum.accumulate(np.where(is_new, places, 0), axis)
