"""Operators that read or write elements at indices; sorting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr


def counted_from_the_first(
    node: OnnxNode, indices: GraphExpr, sizes: Sequence[PrimExpr]
) -> GraphExpr:
    """Return indices with the negative ones, which count from the end of an axis, made positive.

    `sizes` has the length of the axis, or one length for each element of the last dimension.
    """
    dtype = node.dtype(indices)
    if not dtype.is_integral:
        raise IRTypeError(f"indices must be int32 or int64, got {dtype}; Cast converts them")
    if dtype.is_uint:
        return indices
    known = node.contents(indices)
    lengths = [n.value for n in sizes if isinstance(n, IntImm)]
    if known is not None and known.dtype != object:
        if not (known < 0).any():
            return indices
        if len(lengths) == len(sizes):
            ends = np.array(lengths, known.dtype)
            return Constant(np.where(known < 0, known + ends, known))
    lasts = node.integer_tensor(sizes, str(dtype))
    if len(sizes) == 1:
        lasts = op.reshape(lasts, ())
    negative = op.less(indices, Constant(np.zeros((), dtype.to_numpy())))
    return op.where(negative, op.add(indices, lasts), indices)


@onnx_operator("Gather")
def gather(node: OnnxNode, x: GraphExpr, indices: GraphExpr, *, axis: int = 0) -> GraphExpr:
    place = node.axis(axis, node.rank(x))
    places = counted_from_the_first(node, indices, [node.extent(x, place)])
    return op.take(x, places, place)


@onnx_operator("GatherElements")
def gather_elements(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, *, axis: int = 0
) -> GraphExpr:
    place = node.axis(axis, node.rank(x))
    places = counted_from_the_first(node, indices, [node.extent(x, place)])
    return op.gather_elements(x, places, place)


@onnx_operator("GatherND")
def gather_nd(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, *, batch_dims: int = 0
) -> GraphExpr:
    return op.gather_nd(x, _tuples_from_the_first(node, x, indices, batch_dims), batch_dims)


def _tuples_from_the_first(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, batch_dims: int = 0
) -> GraphExpr:
    length = node.extent(indices, -1)
    if not isinstance(length, IntImm):
        raise IRValueError(f"the number of indices of an element must be known, got {length}")
    return counted_from_the_first(
        node, indices, node.shape(x)[batch_dims : batch_dims + length.value]
    )


@onnx_operator("ScatterElements", "Scatter")
def scatter_elements(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, updates: GraphExpr, *,
    axis: int = 0, reduction: str = "none",
) -> GraphExpr:  # fmt: skip
    place = node.axis(axis, node.rank(x))
    places = counted_from_the_first(node, indices, [node.extent(x, place)])
    return op.scatter_elements(x, places, updates, place, _reduction(reduction))


@onnx_operator("ScatterND")
def scatter_nd(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, updates: GraphExpr, *, reduction: str = "none"
) -> GraphExpr:
    places = _tuples_from_the_first(node, x, indices)
    return op.scatter_nd(x, places, updates, _reduction(reduction))


def _reduction(name: str) -> str:
    names = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}
    if name not in names:
        raise IRValueError(f"reduction must be one of {', '.join(names)}, got {name!r}")
    return names[name]


@onnx_operator("NonZero")
def nonzero(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.nonzero(x)


@onnx_operator("Compress")
def compress(
    node: OnnxNode, x: GraphExpr, condition: GraphExpr, *, axis: int | None = None
) -> GraphExpr:
    if axis is None:
        x, place = op.flatten(x), 0
    else:
        place = node.axis(axis, node.rank(x))
    chosen = node.emit(op.nonzero(condition))
    return op.take(x, op.reshape(chosen, [node.extent(chosen, 1)]), place)


@onnx_operator("Unique")
def unique(
    node: OnnxNode, x: GraphExpr, *, axis: int | None = None, sorted: int = 1
) -> list[GraphExpr]:  # fmt: skip
    found = node.emit(
        op.unique(
            x, sorted=bool(sorted), return_index=True, return_inverse=True, return_counts=True,
            axis=axis,
        )
    )  # fmt: skip
    return [node.emit(found[k]) for k in range(4)]


@onnx_operator("TopK")
def top_k(
    node: OnnxNode, x: GraphExpr, k: GraphExpr | None = None, *,
    axis: int = -1, largest: int = 1, sorted: int = 1,
) -> list[GraphExpr]:  # fmt: skip
    if k is None:
        raise IRValueError("k is missing")
    found = node.emit(op.topk(x, node.integer(k, "k"), axis, "both", bool(largest), dtype="int64"))
    return [found[0], found[1]]


@onnx_operator("NonMaxSuppression")
def non_max_suppression(
    node: OnnxNode, boxes: GraphExpr, scores: GraphExpr, most: GraphExpr | None = None,
    iou_threshold: GraphExpr | None = None, score_threshold: GraphExpr | None = None, *,
    center_point_box: int = 0,
) -> GraphExpr:  # fmt: skip
    return op.vision.non_max_suppression(
        boxes, scores, most, iou_threshold, score_threshold, center_point_box=bool(center_point_box)
    )
