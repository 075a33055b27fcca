"""Products of matrices, and normalizations."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


def matching_matrices(node: OnnxNode, a: GraphExpr, b: GraphExpr) -> list[GraphExpr]:
    """Return operands of a matrix product; a check at run time covers sizes not provably equal."""
    first, second = node.rank(a), node.rank(b)
    places = [[(0, first - 1), (1, max(second - 2, 0))]]
    for k in range(3, min(first, second) + 1):
        places.append([(0, first - k), (1, second - k)])
    return node.known.equal_sizes([a, b], places)


@onnx_operator("Gemm")
def gemm(
    node: OnnxNode, a: GraphExpr, b: GraphExpr, c: GraphExpr | None = None, *,
    alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
) -> GraphExpr:  # fmt: skip
    if node.rank(a) != 2 or node.rank(b) != 2:
        raise IRValueError(f"A and B must be matrices, got {a.struct_info} and {b.struct_info}")
    a, b = node.known.equal_sizes([a, b], [[(0, 0 if transA else 1), (1, 1 if transB else 0)]])
    result = op.matmul(
        op.permute_dims(a, [1, 0]) if transA else a, op.permute_dims(b, [1, 0]) if transB else b
    )
    if alpha != 1:
        result = op.multiply(result, _scale(node, a, alpha))
    if c is None or beta == 0:
        return result
    return op.add(
        *node.broadcast_operands(result, c if beta == 1 else op.multiply(c, _scale(node, c, beta)))
    )


def _scale(node: OnnxNode, x: GraphExpr, factor: float) -> float | int:
    if not node.dtype(x).is_integral:
        return factor
    if factor != int(factor):
        raise IRValueError(f"the factor {factor} for integers must be an integer")
    return int(factor)


onnx_operators(
    {
        "MatMul": lambda node, a, b: op.matmul(*matching_matrices(node, a, b)),
        "Einsum": lambda node, first, *others, equation: op.einsum(
            [first, *others], equation.replace(" ", "")
        ),
        "InstanceNormalization": lambda node, x, scale, b, *, epsilon=1e-5: op.nn.instance_norm(
            x, scale, b, 1, None, epsilon
        ),
    }
)


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


def _last_axes(node: OnnxNode, x: GraphExpr, first: int) -> list[int]:
    return list(range(node.axis(first, node.rank(x)), node.rank(x)))


def _expand_weights(
    node: OnnxNode, weights: GraphExpr, x: GraphExpr, axes: Sequence[int]
) -> GraphExpr:
    """Return weights with an extent for each of the axes."""
    if node.rank(weights) == len(axes):
        return weights
    return op.broadcast_to(weights, [node.extent(x, k) for k in axes])


@onnx_operator("LayerNormalization")
def layer_normalization(
    node: OnnxNode, x: GraphExpr, scale: GraphExpr, b: GraphExpr | None = None, *,
    axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
) -> list[GraphExpr]:  # fmt: skip
    axes = _last_axes(node, x, axis)
    if node.shape(scale):
        scale = _expand_weights(node, scale, x, axes)
    b = None if b is None else _expand_weights(node, b, x, axes)
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
    axes = _last_axes(node, x, axis)
    return op.nn.rms_norm(x, _expand_weights(node, scale, x, axes), axes, epsilon)


@onnx_operator("GroupNormalization")
def group_normalization(
    node: OnnxNode, x: GraphExpr, scale: GraphExpr, b: GraphExpr, *,
    num_groups: int, epsilon: float = 1e-5, stash_type: int = 1,
) -> GraphExpr:  # fmt: skip
    channels = node.extent(x, 1)
    if node.opset < 21:  # one number for each group
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
