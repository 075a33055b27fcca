"""Poolings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.converters.convolutions import Window
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.nodes.expr import PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@onnx_operator("AveragePool")
def average_pool(
    node: OnnxNode, x: GraphExpr, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET",
    ceil_mode: int = 0, count_include_pad: int = 0, dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None, strides: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    window = Window(node, x, kernel_shape, strides, dilations)
    operator = getattr(op.nn, f"avg_pool{window.rank}d")
    return operator(  # type: ignore[no-any-return]
        x, window.taps, window.strides, window.padding(auto_pad, pads), window.dilations,
        bool(ceil_mode), bool(count_include_pad),
    )  # fmt: skip


@onnx_operator("MaxPool")
def max_pool(
    node: OnnxNode, x: GraphExpr, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET",
    ceil_mode: int = 0, dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    storage_order: int = 0, strides: Sequence[int] | None = None,
) -> list[GraphExpr]:  # fmt: skip
    window = Window(node, x, kernel_shape, strides, dilations)
    arguments = (
        x, window.taps, window.strides, window.padding(auto_pad, pads), window.dilations,
        bool(ceil_mode),
    )  # fmt: skip
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [getattr(op.nn, f"max_pool{window.rank}d")(*arguments)]
    found = node.emit(getattr(op.nn, f"max_pool{window.rank}d_with_argmax")(*arguments))
    return [found[0], _among_all(node, x, node.emit(found[1]), bool(storage_order))]


def _among_all(node: OnnxNode, x: GraphExpr, places: GraphExpr, column_major: bool) -> GraphExpr:
    """Return positions in the whole tensor, for positions in one channel."""
    batch, channels, *extents = node.shape(x)
    if column_major:
        places = _in_column_major(node, places, extents)
    first = op.multiply(op.arange(0, batch * channels, 1, "int64"), _number(node, extents))
    return op.add(places, op.reshape(first, [batch, channels, *[1] * len(extents)]))


def _in_column_major(node: OnnxNode, places: GraphExpr, extents: Sequence[PrimExpr]) -> GraphExpr:
    result: GraphExpr | None = None
    rest = places
    for k in reversed(range(len(extents))):
        length = _number(node, extents[k : k + 1])
        index = op.floor_mod(rest, length)
        rest = op.floor_divide(rest, length)
        term = op.multiply(index, _number(node, extents[:k]))
        result = term if result is None else op.add(result, term)
    assert result is not None
    return result


def _number(node: OnnxNode, extents: Sequence[PrimExpr]) -> GraphExpr:
    """Return the product of sizes as a tensor of rank 0."""
    return op.reshape(node.integer_tensor([reduce(mul, extents, 1)]), ())


@onnx_operator("LpPool")
def lp_pool(
    node: OnnxNode, x: GraphExpr, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET",
    ceil_mode: int = 0, dilations: Sequence[int] | None = None, p: int = 2,
    pads: Sequence[int] | None = None, strides: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    window = Window(node, x, kernel_shape, strides, dilations)
    operator = getattr(op.nn, f"lp_pool{window.rank}d")
    return operator(  # type: ignore[no-any-return]
        x, window.taps, window.strides, window.padding(auto_pad, pads), window.dilations,
        bool(ceil_mode), float(p),
    )  # fmt: skip


@onnx_operator("GlobalAveragePool")
def global_average_pool(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.mean(x, list(range(2, node.rank(x))), True)


@onnx_operator("GlobalMaxPool")
def global_max_pool(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.max(x, list(range(2, node.rank(x))), True)


@onnx_operator("GlobalLpPool")
def global_lp_pool(node: OnnxNode, x: GraphExpr, *, p: int = 2) -> GraphExpr:
    total = op.sum(op.power(op.abs(x), float(p)), list(range(2, node.rank(x))), True)
    return op.power(total, 1.0 / p)


@onnx_operator("MaxUnpool")
def max_unpool(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, output_shape: GraphExpr | None = None, *,
    kernel_shape: Sequence[int], pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    window = Window(node, x, kernel_shape, strides, None)
    padding = window.padding("NOTSET", pads)
    shape: list[int | PrimExpr] = list(node.shape(x)[:2])
    for k, extent in enumerate(window.extents):
        cut = padding[k] + padding[k + window.rank]
        shape.append((extent - 1) * window.strides[k] + window.taps[k] - cut)
    count = reduce(mul, shape, 1)
    flat = op.scatter_elements(
        op.zeros([count], str(node.dtype(x))), op.flatten(indices), op.flatten(x), 0
    )
    result = op.reshape(flat, shape)
    if output_shape is None:
        return result
    wanted = node.integers(output_shape, "the output shape")
    if len(wanted) != len(shape):
        raise IRValueError(
            f"output_shape must have {len(shape)} numbers, one for each dimension of the input, "
            f"got {len(wanted)}"
        )
    behind = [want - have for want, have in zip(wanted, shape, strict=True)]
    return op.nn.dynamic_pad(result, [n for width in behind for n in (0, width)])
