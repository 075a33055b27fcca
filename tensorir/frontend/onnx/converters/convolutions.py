"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr

DATA_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


class Window:
    """The windows of a convolution or a pooling: one number for each spatial axis."""

    def __init__(
        self,
        node: OnnxNode,
        x: GraphExpr,
        taps: Sequence[int],
        strides: Sequence[int] | None,
        dilations: Sequence[int] | None,
    ) -> None:
        self._node = node
        self.rank = node.rank(x) - 2
        if self.rank not in DATA_LAYOUTS:
            raise IRValueError(
                f"1 to 3 spatial dimensions are supported, the input is {x.struct_info}"
            )
        self.extents = node.shape(x)[2:]
        self.taps = tuple(taps)
        self.strides = tuple(strides or [1] * self.rank)
        self.dilations = tuple(dilations or [1] * self.rank)
        for name, values in (
            ("kernel_shape", self.taps), ("strides", self.strides), ("dilations", self.dilations),
        ):  # fmt: skip
            if len(values) != self.rank or min(values) < 1:
                raise IRValueError(f"{name} must be {self.rank} positive numbers, got {values}")
            node.check_narrow(name, values)

    def padding(self, auto_pad: str, pads: Sequence[int] | None) -> list[int]:
        """Return the padding before all axes, followed by the padding after them."""
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
    """Split paddings into before and after; SAME_UPPER puts the extra element of odd ones after."""
    less, more = [n // 2 for n in totals], [n - n // 2 for n in totals]
    return [*less, *more] if auto_pad == "SAME_UPPER" else [*more, *less]


def _total_padding(extent: PrimExpr, taps: int, stride: int, dilation: int) -> int:
    reach = (taps - 1) * dilation + 1
    if isinstance(extent, IntImm):
        outputs = -(-extent.value // stride)
        return max(0, (outputs - 1) * stride + reach - extent.value)
    if stride == 1:
        return reach - 1
    raise IRValueError(f"auto_pad with strides depends on the size {extent}; give it by shape_dict")


@onnx_operator("Conv")
def conv(
    node: OnnxNode, x: GraphExpr, w: GraphExpr, b: GraphExpr | None = None, *,
    auto_pad: str = "NOTSET", dilations: Sequence[int] | None = None, group: int = 1,
    kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    window = Window(node, x, kernel_taps(node, w, kernel_shape), strides, dilations)
    operator = getattr(op.nn, f"conv{window.rank}d")
    result = operator(x, w, window.strides, window.padding(auto_pad, pads), window.dilations, group)
    return biased(node, result, b, window.rank)


def kernel_taps(node: OnnxNode, w: GraphExpr, stated: Sequence[int] | None) -> list[int]:
    """Return the spatial sizes of weights; IRValueError if unknown or different from `stated`."""
    extents = node.shape(w)[2:]
    taps = [n.value for n in extents if isinstance(n, IntImm)]
    if len(taps) != len(extents):
        raise IRTypeError(f"the sizes of the kernel must be known, got {w.struct_info}")
    if stated is not None and list(stated) != taps:
        raise IRValueError(f"kernel_shape is {list(stated)}, but the weights are {w.struct_info}")
    return taps


def biased(node: OnnxNode, x: GraphExpr, b: GraphExpr | None, rank: int) -> GraphExpr:
    """Return `x` with a number added to each channel."""
    if b is None:
        return x
    return op.add(x, op.reshape(b, [1, node.extent(b, 0), *[1] * rank]))


@onnx_operator("ConvTranspose")
def conv_transpose(
    node: OnnxNode, x: GraphExpr, w: GraphExpr, b: GraphExpr | None = None, *,
    auto_pad: str = "NOTSET", dilations: Sequence[int] | None = None, group: int = 1,
    kernel_shape: Sequence[int] | None = None, output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> GraphExpr:  # fmt: skip
    window = Window(node, x, kernel_taps(node, w, kernel_shape), strides, dilations)
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
                raise IRValueError(f"output_shape needs the size {extent}; give it by shape_dict")
            if total < 0:
                extra[k] -= total
            totals.append(max(0, total))
        padding = split_padding(totals, "SAME_UPPER" if auto_pad == "SAME_UPPER" else "SAME_LOWER")
    else:
        padding = window.padding(auto_pad, pads)
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
