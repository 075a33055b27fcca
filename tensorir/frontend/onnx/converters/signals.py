"""Fourier transforms."""

from __future__ import annotations

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr, ShapeExpr


@onnx_operator("DFT")
def dft(
    node: OnnxNode, x: GraphExpr, length: GraphExpr | None = None, place: GraphExpr | None = None,
    *, axis: int = 1, inverse: int = 0, onesided: int = 0,
) -> GraphExpr:  # fmt: skip
    if node.opset >= 20:
        axis = -2 if place is None else node.known_integer(place, "axis")
    known = None if length is None else ShapeExpr(node.integers(length, "dft_length"))
    return op.signal.dft(x, known, axis, bool(inverse), bool(onesided))


@onnx_operator("STFT")
def stft(
    node: OnnxNode, signal: GraphExpr, step: GraphExpr, window: GraphExpr | None = None,
    length: GraphExpr | None = None, *, onesided: int = 1,
) -> GraphExpr:  # fmt: skip
    if length is not None:
        extent = node.integer(length, "frame_length")
    elif window is not None:
        extent = node.extent(window, 0)
    else:
        raise IRValueError("neither a window nor frame_length is given")
    x = signal if node.rank(signal) == 3 else op.expand_dims(signal, axis=-1)
    sizes = ShapeExpr([extent, node.integer(step, "frame_step")])
    return op.signal.stft(x, sizes, window, bool(onesided))
