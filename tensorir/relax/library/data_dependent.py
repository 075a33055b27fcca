"""Operators whose result has a data-dependent shape, including non-maximum suppression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError
from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr, tensor_info
from tensorir.relax.struct_info import UNKNOWN_NDIM, StructInfo, TensorStructInfo, TupleStructInfo

Array = NDArray[Any]


@library("nonzero", lambda x: TensorStructInfo(None, "int64", 2))
def nonzero(x: Array) -> NDArray[np.int64]:
    """Return the indices of nonzero elements, one column each, in row-major order."""
    if x.ndim == 0:
        return np.empty((0, int(x != 0)), np.int64)
    return np.stack(np.nonzero(x)).astype(np.int64)


def _unique_info(
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


@library("unique", _unique_info)
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


def _compress_info(x: GraphExpr, condition: GraphExpr, axis: int | None) -> StructInfo:
    info = tensor_info(x)
    if tensor_info(condition).dtype not in ("bool", None):
        raise IRTypeError(f"the condition must be of bools, got {condition.struct_info}")
    return TensorStructInfo(None, info.dtype, 1 if axis is None else info.ndim)


@library("compress", _compress_info)
def compress(x: Array, condition: Array, axis: int | None = None) -> Array:
    """Return the slices along an axis, or the elements, for which a vector of bools is true.

    Slices beyond the length of the vector are dropped.
    """
    return np.compress(condition, x, axis=axis)


@library("masked_select", lambda x, mask: TensorStructInfo(None, tensor_info(x).dtype, 1))
def masked_select(x: Array, mask: Array) -> Array:
    """Return the elements for which a mask is true, in row-major order; the mask is broadcast."""
    x, mask = np.broadcast_arrays(x, mask)
    return x[mask]


@library(
    "dynamic_strided_slice",
    lambda x, **_: TensorStructInfo(None, tensor_info(x).dtype, tensor_info(x).ndim),
)
def dynamic_strided_slice(x: Array, begin: Array, end: Array, strides: Array) -> Array:
    """Return `x[begin:end:stride]` along its first axes, as Python slices.

    Bounds are integer vectors.
    """
    bounds = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
    return np.ascontiguousarray(x[tuple(slice(*bound) for bound in bounds)])


def _suppression_info(boxes: GraphExpr, scores: GraphExpr, **_: Any) -> StructInfo:
    for name, value in (("boxes", boxes), ("scores", scores)):
        if tensor_info(value).ndim not in (3, UNKNOWN_NDIM):
            raise IRTypeError(f"{name} must have 3 dimensions, got {value.struct_info}")
    return TensorStructInfo(None, "int64", 2)


@library("vision.non_max_suppression", _suppression_info)
def non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    center_point_box: bool = False,
) -> Array:
    """Return the boxes that remain after suppression: rows of (picture, class, box), int64.

    `boxes` are (picture, box, 4): two opposite corners (y, x), or centre, width and height for
    `center_point_box`; `scores` (picture, class, box). Boxes with a score above `score_threshold`
    are visited by descending score. A box is kept unless its intersection over union with a kept
    box is above `iou_threshold` (0 if absent). At most `max_output_boxes_per_class` are kept (0 if
    absent).
    """
    most = int(_number(max_output_boxes_per_class, 0))
    threshold = float(_number(iou_threshold, 0.0))
    lowest = None if score_threshold is None else float(_number(score_threshold, 0.0))
    found = []
    for picture in range(boxes.shape[0]):
        corners = _corners(boxes[picture].astype(np.float64), center_point_box)
        for kind in range(scores.shape[1]):
            own = scores[picture, kind]
            order = np.argsort(-own.astype(np.float64), kind="stable")
            if lowest is not None:
                order = order[own[order] > lowest]
            found += [
                (picture, kind, box) for box in _suppress_overlaps(corners, order, most, threshold)
            ]
    return np.array(found, np.int64).reshape(-1, 3)


def _number(value: Array | None, default: float) -> float:
    return default if value is None or value.size == 0 else value.reshape(-1)[0].item()


def _corners(boxes: Array, by_center: bool) -> Array:
    """Return boxes as (top, left, bottom, right)."""
    if by_center:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], 1)
    low = np.minimum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, np.maximum(boxes[:, :2], boxes[:, 2:])], 1)


def _suppress_overlaps(corners: Array, order: Array, most: int, threshold: float) -> list[int]:
    """Return boxes in order; skip boxes whose overlap with an earlier box exceeds the threshold."""
    areas = (corners[:, 2:] - corners[:, :2]).prod(1)
    taken: list[int] = []
    while len(order) and len(taken) < most:
        box, order = int(order[0]), order[1:]
        taken.append(box)
        low = np.maximum(corners[box, :2], corners[order, :2])
        high = np.minimum(corners[box, 2:], corners[order, 2:])
        common = np.maximum(high - low, 0).prod(1)
        union = areas[box] + areas[order] - common
        order = order[~(common > threshold * union) | (union <= 0)]
    return taken
