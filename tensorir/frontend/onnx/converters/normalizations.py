"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@onnx_operator("BatchNormalization")
def batch_normalization(
    node: OnnxNode, x: GraphExpr, scale: GraphExpr, b: GraphExpr, mean: GraphExpr, var: GraphExpr,
    *, epsilon: float = 1e-5, momentum: float = 0.9, training_mode: int = 0, spatial: int = 1,
) -> list[GraphExpr]:  # fmt: skip
    if not spatial:
        raise IRValueError("statistics of each element (spatial=0) are not supported")
    if not training_mode:
        result = op.nn.batch_norm(x, scale, b, mean, var, 1, epsilon, training=False)
        return [node.emit(result)[0]]
    axes = [k for k in range(node.rank(x)) if k != 1]
    own_mean, own_var = node.emit(op.mean(x, axes)), node.emit(op.variance(x, axes))
    result = op.nn.batch_norm(x, scale, b, own_mean, own_var, 1, epsilon, training=False)
    running = [
        op.add(op.multiply(old, momentum), op.multiply(new, 1 - momentum))
        for old, new in ((mean, own_mean), (var, own_var))
    ]
    return [node.emit(result)[0], *running]


@onnx_operator("InstanceNormalization")
def instance_normalization(
    node: OnnxNode, x: GraphExpr, scale: GraphExpr, b: GraphExpr, *, epsilon: float = 1e-5
) -> GraphExpr:
    return op.nn.instance_norm(x, scale, b, 1, None, epsilon)


@onnx_operator("LayerNormalization")
def layer_normalization(
    node: OnnxNode, x: GraphExpr, scale: GraphExpr, b: GraphExpr | None = None, *,
    axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
) -> list[GraphExpr]:  # fmt: skip
    rank = node.rank(x)
    axes = list(range(node.axis(axis, rank), rank))
    if node.shape(scale) and len(node.shape(scale)) != len(axes):
        scale = op.broadcast_to(scale, [node.extent(x, k) for k in axes])
    if b is not None and len(node.shape(b)) != len(axes):
        b = op.broadcast_to(b, [node.extent(x, k) for k in axes])
    result: list[GraphExpr] = [op.nn.layer_norm(x, scale, b, axes, epsilon, center=b is not None)]
    if len(node.outputs) > 1:
        wide = op.astype(x, "float32") if node.dtype(x).bits < 32 else x
        mean = node.emit(op.mean(wide, axes, True))
        square = op.mean(op.square(op.subtract(wide, mean)), axes, True)
        result += [mean, op.rsqrt(op.add(square, epsilon))]
    return result


@onnx_operator("RMSNormalization")
def rms_normalization(
    node: OnnxNode, x: GraphExpr, scale: GraphExpr, *,
    axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
) -> GraphExpr:  # fmt: skip
    rank = node.rank(x)
    axes = list(range(node.axis(axis, rank), rank))
    if len(node.shape(scale)) != len(axes):
        scale = op.broadcast_to(scale, [node.extent(x, k) for k in axes])
    return op.nn.rms_norm(x, scale, axes, epsilon)


@onnx_operator("GroupNormalization")
def group_normalization(
    node: OnnxNode, x: GraphExpr, scale: GraphExpr, b: GraphExpr, *,
    num_groups: int, epsilon: float = 1e-5, stash_type: int = 1,
) -> GraphExpr:  # fmt: skip
    channels = node.extent(x, 1)
    if node.opset < 21:  # a number each group
        shape = [num_groups, channels // num_groups]
        scale, b = (
            op.reshape(op.broadcast_to(op.reshape(v, [num_groups, 1]), shape), [channels])
            for v in (scale, b)
        )
    return op.nn.group_norm(x, scale, b, num_groups, 1, None, epsilon)


@onnx_operator("LRN")
def lrn(
    node: OnnxNode, x: GraphExpr, *, size: int, alpha: float = 1e-4, beta: float = 0.75,
    bias: float = 1.0,
) -> GraphExpr:  # fmt: skip
    node.check_narrow("size", [size])
    return op.nn.lrn(x, size, 1, bias, alpha, beta)


@onnx_operator("LpNormalization")
def lp_normalization(node: OnnxNode, x: GraphExpr, *, axis: int = -1, p: int = 2) -> GraphExpr:
    if p not in (1, 2):
        raise IRValueError(f"p must be 1 or 2, got {p}")
    total = op.sum(op.abs(x) if p == 1 else op.square(x), [axis], True)
    norm = node.emit(total if p == 1 else op.sqrt(total))
    # A vector of zeros stays zero.
    zero = op.zeros_like(norm)
    return op.divide(x, op.where(op.equal(norm, zero), op.ones_like(norm), norm))


@onnx_operator("MeanVarianceNormalization")
def mean_variance_normalization(
    node: OnnxNode, x: GraphExpr, *, axes: Sequence[int] = (0, 2, 3)
) -> GraphExpr:
    centred = node.emit(op.subtract(x, op.mean(x, list(axes), True)))
    deviation = op.sqrt(op.mean(op.square(centred), list(axes), True))
    return op.divide(centred, op.add(deviation, 1e-9))
