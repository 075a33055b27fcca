"""Operators on detected boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError
from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr
from tensorir.relax.library.sorting import tensor_info
from tensorir.relax.struct_info import UNKNOWN_NDIM, StructInfo, TensorStructInfo

Array = NDArray[Any]


def _selected(boxes: GraphExpr, scores: GraphExpr, **_: Any) -> StructInfo:
    for name, value in (("boxes", boxes), ("scores", scores)):
        if tensor_info(value).ndim not in (3, UNKNOWN_NDIM):
            raise IRTypeError(f"{name} must have 3 dimensions, got {value.struct_info}")
    return TensorStructInfo(None, "int64", 2)


@library("vision.non_max_suppression", _selected)
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
            found += [(picture, kind, box) for box in _best(corners, order, most, threshold)]
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


def _best(corners: Array, order: Array, most: int, threshold: float) -> list[int]:
    """Return boxes in order, without boxes that overlap an earlier box too much."""
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
