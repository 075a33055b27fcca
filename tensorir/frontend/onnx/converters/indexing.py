"""Operators that read or write elements at indices; sorting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr


def nonnegative_indices(node: OnnxNode, indices: GraphExpr, sizes: Sequence[PrimExpr]) -> GraphExpr:
    """Return indices counted from the start of an axis; negative indices count from its end.

    `sizes` has the extent of the axis, or one extent for each element of the last dimension.
    """
    dtype = node.dtype(indices)
    if not dtype.is_integral:
        raise IRTypeError(f"indices must be int32 or int64, got {dtype}; convert them by Cast")
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
    lasts = node.known.integer_tensor(sizes, str(dtype))
    if len(sizes) == 1:
        lasts = op.reshape(lasts, ())
    negative = op.less(indices, Constant(np.zeros((), dtype.to_numpy())))
    return op.where(negative, op.add(indices, lasts), indices)


def _axis_indices(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, axis: int
) -> tuple[GraphExpr, int]:
    """Return nonnegative indices along an axis, and the nonnegative number of the axis."""
    place = node.axis(axis, node.rank(x))
    return nonnegative_indices(node, indices, [node.extent(x, place)]), place


def _nonnegative_tuples(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, batch_dims: int = 0
) -> GraphExpr:
    length = node.extent(indices, -1)
    if not isinstance(length, IntImm):
        raise IRValueError(f"the number of indices of an element must be known, got {length}")
    return nonnegative_indices(node, indices, node.shape(x)[batch_dims : batch_dims + length.value])


def _scatter(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, updates: GraphExpr, axis: int, reduction: str
) -> GraphExpr:
    places, place = _axis_indices(node, x, indices, axis)
    return op.scatter_elements(x, places, updates, place, _reduction(reduction))


def _reduction(name: str) -> str:
    names = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}
    if name not in names:
        raise IRValueError(f"reduction must be one of {', '.join(names)}, got {name!r}")
    return names[name]


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
    count = node.integer(k, "k")
    if count == 0:  # to the operator, a constant 0 means all elements
        x = op.strided_slice(x, [axis], [0], [0])
    found = node.emit(op.topk(x, count, axis, "both", bool(largest), dtype="int64"))
    return [found[0], found[1]]


@onnx_operator("TensorScatter")
def tensor_scatter(
    node: OnnxNode, cache: GraphExpr, update: GraphExpr, write_indices: GraphExpr | None = None, *,
    axis: int = -2, mode: str = "linear",
) -> GraphExpr:  # fmt: skip
    """The cache with the update of each item of the batch from its write index on."""
    if mode not in ("linear", "circular"):
        raise IRValueError(f"mode must be linear or circular, got {mode!r}")
    rank, shape = node.rank(cache), node.shape(update)
    place = node.axis(axis, rank)
    places = op.reshape(
        op.arange(0, shape[place], 1, "int64"), [-1 if k == place else 1 for k in range(rank)]
    )
    if write_indices is not None:
        first = op.reshape(op.astype(write_indices, "int64"), [-1, *[1] * (rank - 1)])
        places = op.add(places, first)
    if mode == "circular":
        extent = op.reshape(node.known.integer_tensor([node.extent(cache, place)], "int64"), ())
        places = op.floor_mod(places, extent)
    return op.scatter_elements(cache, op.broadcast_to(places, shape), update, place)


onnx_operators(
    {
        "Gather": lambda node, x, indices, *, axis=0: op.take(
            x, *_axis_indices(node, x, indices, axis)
        ),
        "GatherElements": lambda node, x, indices, *, axis=0: op.gather_elements(
            x, *_axis_indices(node, x, indices, axis)
        ),
        "GatherND": lambda node, x, indices, *, batch_dims=0: op.gather_nd(
            x, _nonnegative_tuples(node, x, indices, batch_dims), batch_dims
        ),
        "ScatterElements": lambda node, x, indices, updates, *, axis=0, reduction="none": _scatter(
            node, x, indices, updates, axis, reduction
        ),
        "Scatter": lambda node, x, indices, updates, *, axis=0: _scatter(
            node, x, indices, updates, axis, "none"
        ),
        "ScatterND": lambda node, x, indices, updates, *, reduction="none": op.scatter_nd(
            x, _nonnegative_tuples(node, x, indices), updates, _reduction(reduction)
        ),
        "NonZero": lambda node, x: op.nonzero(x),
        "NonMaxSuppression": (
            lambda node, boxes, scores, most=None, iou=None, least=None, *, center_point_box=0: (
                op.vision.non_max_suppression(
                    boxes, scores, most, iou, least, center_point_box=bool(center_point_box)
                )
            )
        ),
    }
)
