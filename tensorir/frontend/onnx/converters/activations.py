"""Activations of neural networks."""

from __future__ import annotations

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@onnx_operator("Relu")
def relu(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.nn.relu(x)


@onnx_operator("LeakyRelu")
def leaky_relu(node: OnnxNode, x: GraphExpr, *, alpha: float = 0.01) -> GraphExpr:
    return op.nn.leakyrelu(x, alpha)


@onnx_operator("PRelu")
def prelu(node: OnnxNode, x: GraphExpr, slope: GraphExpr) -> GraphExpr:
    x, slope = node.broadcast_operands(x, slope)
    zero = op.zeros_like(x)
    return op.where(op.less(x, zero), op.multiply(slope, x), x)


@onnx_operator("Elu")
def elu(node: OnnxNode, x: GraphExpr, *, alpha: float = 1.0) -> GraphExpr:
    return op.nn.elu(x, alpha)


@onnx_operator("Selu")
def selu(
    node: OnnxNode, x: GraphExpr, *, alpha: float = 1.6732632, gamma: float = 1.050701
) -> GraphExpr:
    return op.nn.selu(x, alpha, gamma)


@onnx_operator("Celu")
def celu(node: OnnxNode, x: GraphExpr, *, alpha: float = 1.0) -> GraphExpr:
    return op.nn.celu(x, alpha)


@onnx_operator("Gelu")
def gelu(node: OnnxNode, x: GraphExpr, *, approximate: str = "none") -> GraphExpr:
    if approximate not in ("none", "tanh"):
        raise IRValueError(f"approximate must be none or tanh, got {approximate!r}")
    return op.nn.gelu_tanh(x) if approximate == "tanh" else op.nn.gelu(x)


@onnx_operator("Swish")
def swish(node: OnnxNode, x: GraphExpr, *, alpha: float = 1.0) -> GraphExpr:
    return op.nn.swish(x, alpha)


@onnx_operator("Mish")
def mish(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.nn.mish(x)


@onnx_operator("Softplus")
def softplus(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.nn.softplus(x)


@onnx_operator("Softsign")
def softsign(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.nn.softsign(x)


@onnx_operator("HardSigmoid")
def hard_sigmoid(
    node: OnnxNode, x: GraphExpr, *, alpha: float = 0.2, beta: float = 0.5
) -> GraphExpr:
    return op.nn.hardsigmoid(x, alpha, beta)


@onnx_operator("HardSwish")
def hard_swish(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.nn.hardswish(x)


@onnx_operator("ThresholdedRelu")
def thresholded_relu(node: OnnxNode, x: GraphExpr, *, alpha: float = 1.0) -> GraphExpr:
    return op.nn.thresholded_relu(x, alpha)


@onnx_operator("Shrink")
def shrink(node: OnnxNode, x: GraphExpr, *, bias: float = 0.0, lambd: float = 0.5) -> GraphExpr:
    return op.nn.shrink(x, lambd, bias)


def _along(node: OnnxNode, name: str, x: GraphExpr, axis: int | None) -> GraphExpr:
    """Return a function along an axis; before opset 13 along that axis and all later ones."""
    operator = getattr(op.nn, name)
    if node.opset >= 13:
        return operator(x, -1 if axis is None else axis)  # type: ignore[no-any-return]
    own = node.shape(x)
    split = node.axis(1 if axis is None else axis, len(own) + 1) if own else 0
    if split == len(own) - 1:
        return operator(x, split)  # type: ignore[no-any-return]
    (flat,) = node.converted("Flatten", x, axis=split)
    assert flat is not None
    return op.reshape(operator(flat, 1), own)


@onnx_operator("Softmax")
def softmax(node: OnnxNode, x: GraphExpr, *, axis: int | None = None) -> GraphExpr:
    return _along(node, "softmax", x, axis)


@onnx_operator("LogSoftmax")
def log_softmax(node: OnnxNode, x: GraphExpr, *, axis: int | None = None) -> GraphExpr:
    return _along(node, "log_softmax", x, axis)


@onnx_operator("Hardmax")
def hardmax(node: OnnxNode, x: GraphExpr, *, axis: int | None = None) -> GraphExpr:
    return _along(node, "hardmax", x, axis)
