"""Convolutions and poolings: windows along the spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import Any, TypedDict, Unpack

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


class Windows(TypedDict, total=False):
    """The attributes of windows, one number for each spatial axis (`pads`: two)."""

    auto_pad: str
    dilations: Sequence[int]
    kernel_shape: Sequence[int]
    pads: Sequence[int]
    strides: Sequence[int]


class Window:
    """The windows of a convolution or a pooling: one number for each spatial axis."""

    def __init__(
        self,
        node: OnnxNode,
        x: GraphExpr,
        taps: Sequence[int],
        windows: Windows,
    ) -> None:
        self._node = node
        self._auto_pad = windows.get("auto_pad", "NOTSET")
        self._pads = windows.get("pads")
        self.rank = node.rank(x) - 2
        if not 1 <= self.rank <= 3:
            raise IRValueError(
                f"1 to 3 spatial dimensions are supported, the input is {x.struct_info}"
            )
        self.extents = node.shape(x)[2:]
        self.taps = tuple(taps)
        self.strides = tuple(windows.get("strides") or [1] * self.rank)
        self.dilations = tuple(windows.get("dilations") or [1] * self.rank)
        for name, values in (
            ("kernel_shape", self.taps), ("strides", self.strides), ("dilations", self.dilations),
        ):  # fmt: skip
            if len(values) != self.rank or min(values) < 1:
                raise IRValueError(f"{name} must be {self.rank} positive numbers, got {values}")
            node.check_narrow(name, values)

    @property
    def padding(self) -> list[int]:
        """The padding before all axes, followed by the padding after them."""
        auto_pad, pads = self._auto_pad, self._pads
        if auto_pad == "NOTSET":
            given = list(pads or [0] * 2 * self.rank)
            if len(given) != 2 * self.rank:
                raise IRValueError(f"pads must be {2 * self.rank} numbers, got {given}")
            self._node.check_narrow("pads", given)
            return given
        if auto_pad == "VALID":
            return [0] * 2 * self.rank
        if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
            raise IRValueError(
                f"unknown auto_pad {auto_pad!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"
            )
        totals = [
            _total_padding(*window)
            for window in zip(self.extents, self.taps, self.strides, self.dilations, strict=True)
        ]
        return split_padding(totals, auto_pad)


def split_padding(totals: Sequence[int], auto_pad: str) -> list[int]:
    """Split paddings into before and after.

    For an odd padding, SAME_UPPER puts the extra element after.
    """
    less, more = [n // 2 for n in totals], [n - n // 2 for n in totals]
    return [*less, *more] if auto_pad == "SAME_UPPER" else [*more, *less]


def _total_padding(extent: PrimExpr, taps: int, stride: int, dilation: int) -> int:
    reach = (taps - 1) * dilation + 1
    if isinstance(extent, IntImm):
        outputs = -(-extent.value // stride)
        return max(0, (outputs - 1) * stride + reach - extent.value)
    if stride == 1:
        return reach - 1
    raise IRValueError(f"auto_pad with strides depends on size {extent}; set it with shape_dict")


def window_of_weights(node: OnnxNode, x: GraphExpr, w: GraphExpr, windows: Windows) -> Window:
    """Return windows of the size of the weights.

    Raises IRValueError if that is unknown, or not `kernel_shape`.
    """
    stated = windows.get("kernel_shape")
    extents = node.shape(w)[2:]
    taps = [n.value for n in extents if isinstance(n, IntImm)]
    if len(taps) != len(extents):
        raise IRTypeError(f"the sizes of the kernel must be known, got {w.struct_info}")
    if stated is not None and list(stated) != taps:
        raise IRValueError(f"kernel_shape is {list(stated)}, but the weights are {w.struct_info}")
    return Window(node, x, taps, windows)


def biased(node: OnnxNode, x: GraphExpr, b: GraphExpr | None, rank: int) -> GraphExpr:
    """Return `x` with a number added to each channel."""
    if b is None:
        return x
    return op.add(x, op.reshape(b, [1, node.extent(b, 0), *[1] * rank]))


@onnx_operator("Conv")
def conv(
    node: OnnxNode,
    x: GraphExpr,
    w: GraphExpr,
    b: GraphExpr | None = None,
    *,
    group: int = 1,
    **windows: Unpack[Windows],
) -> GraphExpr:
    window = window_of_weights(node, x, w, windows)
    operator = getattr(op.nn, f"conv{window.rank}d")
    result = operator(x, w, window.strides, window.padding, window.dilations, group)
    return biased(node, result, b, window.rank)


@onnx_operator("ConvTranspose")
def conv_transpose(
    node: OnnxNode,
    x: GraphExpr,
    w: GraphExpr,
    b: GraphExpr | None = None,
    *,
    group: int = 1,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    **windows: Unpack[Windows],
) -> GraphExpr:
    window = window_of_weights(node, x, w, windows)
    auto_pad = windows.get("auto_pad", "NOTSET")
    extra = list(output_padding or [0] * window.rank)
    node.check_narrow("output_padding", extra)
    if output_shape is not None or auto_pad.startswith("SAME"):
        totals = []
        wanted = None if output_shape is None else output_shape[-window.rank :]
        for k, extent in enumerate(window.extents):
            reach = (window.taps[k] - 1) * window.dilations[k] + 1
            if wanted is None:
                total = extra[k] + reach - window.strides[k]  # the output is `extent * stride`
            elif isinstance(extent, IntImm):
                total = window.strides[k] * (extent.value - 1) + extra[k] + reach - wanted[k]
            else:
                raise IRValueError(f"output_shape needs the size {extent}; set it with shape_dict")
            if total < 0:
                extra[k] -= total
            totals.append(max(0, total))
        padding = split_padding(totals, "SAME_UPPER" if auto_pad == "SAME_UPPER" else "SAME_LOWER")
    else:
        padding = window.padding
    operator = getattr(op.nn, f"conv{window.rank}d_transpose")
    result = operator(x, w, window.strides, padding, extra, window.dilations, group)
    return biased(node, result, b, window.rank)


@onnx_operator("Col2Im")
def col2im(
    node: OnnxNode, x: GraphExpr, image_shape: GraphExpr, block_shape: GraphExpr, *,
    dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    blocks = node.known_integers(block_shape, "block_shape")
    rank = len(blocks)
    image = node.integers(image_shape, "image_shape")
    windows = {
        "strides": strides or [1] * rank,
        "pads": pads or [0] * 2 * rank,
        "dilations": dilations or [1] * rank,
    }
    node.check_narrow("image_shape", image)
    node.check_narrow("block_shape", blocks)
    for name, values in windows.items():
        node.check_narrow(name, values)
    return op.nn.col2im(
        x, image, blocks, windows["strides"], windows["pads"], windows["dilations"]
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ pooling


def _pool(
    node: OnnxNode,
    name: str,
    x: GraphExpr,
    windows: Windows,
    *options: Any,
) -> GraphExpr:
    """Return a pooling; `#` in the operator's name is the number of spatial axes."""
    window = Window(node, x, windows.get("kernel_shape", ()), windows)
    operator = getattr(op.nn, name.replace("#", str(window.rank)))
    result: GraphExpr = operator(
        x, window.taps, window.strides, window.padding, window.dilations, *options
    )
    return result


@onnx_operator("AveragePool")
def average_pool(
    node: OnnxNode,
    x: GraphExpr,
    *,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    **windows: Unpack[Windows],
) -> GraphExpr:
    options = bool(ceil_mode), bool(count_include_pad)
    return _pool(node, "avg_pool#d", x, windows, *options)


@onnx_operator("LpPool")
def lp_pool(
    node: OnnxNode,
    x: GraphExpr,
    *,
    ceil_mode: int = 0,
    p: int = 2,
    **windows: Unpack[Windows],
) -> GraphExpr:
    return _pool(node, "lp_pool#d", x, windows, bool(ceil_mode), float(p))


@onnx_operator("MaxPool")
def max_pool(
    node: OnnxNode,
    x: GraphExpr,
    *,
    ceil_mode: int = 0,
    storage_order: int = 0,
    **windows: Unpack[Windows],
) -> list[GraphExpr]:
    if not any(node.outputs[1:]):
        return [_pool(node, "max_pool#d", x, windows, bool(ceil_mode))]
    name = "max_pool#d_with_argmax"
    found = node.emit(_pool(node, name, x, windows, bool(ceil_mode)))
    return [found[0], _global_positions(node, x, node.emit(found[1]), bool(storage_order))]


def _global_positions(
    node: OnnxNode, x: GraphExpr, places: GraphExpr, column_major: bool
) -> GraphExpr:
    """Return positions in one channel as positions in the whole tensor."""
    batch, channels, *extents = node.shape(x)
    if column_major:
        places = _in_column_major(node, places, extents)
    first = op.multiply(op.arange(0, batch * channels, 1, "int64"), _size_tensor(node, extents))
    return op.add(places, op.reshape(first, [batch, channels, *[1] * len(extents)]))


def _in_column_major(node: OnnxNode, places: GraphExpr, extents: Sequence[PrimExpr]) -> GraphExpr:
    result: GraphExpr | None = None
    rest = places
    for k in reversed(range(len(extents))):
        length = _size_tensor(node, extents[k : k + 1])
        index = op.floor_mod(rest, length)
        rest = op.floor_divide(rest, length)
        term = op.multiply(index, _size_tensor(node, extents[:k]))
        result = term if result is None else op.add(result, term)
    assert result is not None
    return result


def _size_tensor(node: OnnxNode, extents: Sequence[PrimExpr]) -> GraphExpr:
    """Return the product of sizes as a tensor of rank 0."""
    return op.reshape(node.known.integer_tensor([reduce(mul, extents, 1)]), ())


def _over_image(node: OnnxNode, x: GraphExpr) -> list[int]:
    return list(range(2, node.rank(x)))


onnx_operators(
    {
        "GlobalAveragePool": lambda node, x: op.mean(x, _over_image(node, x), True),
        "GlobalMaxPool": lambda node, x: op.max(x, _over_image(node, x), True),
        "GlobalLpPool": lambda node, x, *, p=2: op.power(
            op.sum(op.power(op.abs(x), float(p)), _over_image(node, x), True), 1.0 / p
        ),
    }
)


@onnx_operator("MaxUnpool")
def max_unpool(
    node: OnnxNode, x: GraphExpr, indices: GraphExpr, output_shape: GraphExpr | None = None,
    **windows: Unpack[Windows],
) -> GraphExpr:  # fmt: skip
    window = Window(node, x, windows.get("kernel_shape", ()), windows)
    padding = window.padding
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
