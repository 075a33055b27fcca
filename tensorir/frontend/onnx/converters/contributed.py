"""Fused operators that ONNX Runtime's exporters and optimizers write, domain `com.microsoft`."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.converters.quantization import MICROSOFT
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@onnx_operator("Gelu", domain=MICROSOFT)
def gelu(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    """GELU by the error function."""
    return op.nn.gelu(x)


@onnx_operator("BiasGelu", domain=MICROSOFT)
def bias_gelu(node: OnnxNode, x: GraphExpr, bias: GraphExpr) -> GraphExpr:
    """GELU of a sum."""
    return op.nn.gelu(op.add(x, bias))


@onnx_operator("FastGelu", domain=MICROSOFT)
def fast_gelu(node: OnnxNode, x: GraphExpr, bias: GraphExpr | None = None) -> GraphExpr:
    """GELU by the hyperbolic tangent."""
    return op.nn.gelu_tanh(x if bias is None else op.add(x, bias))


@onnx_operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(node: OnnxNode, x: GraphExpr, *, alpha: float = 1.702) -> GraphExpr:
    """GELU by the logistic function."""
    return x * op.sigmoid(x * alpha)


@onnx_operator("FusedMatMul", domain=MICROSOFT)
def fused_mat_mul(
    node: OnnxNode,
    a: GraphExpr,
    b: GraphExpr,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> GraphExpr:
    """A product of matrices that may be transposed, times a number."""
    if transBatchA or transBatchB:
        raise IRValueError("transBatchA and transBatchB are not supported")
    product = op.matmul(_transposed(node, a, transA), _transposed(node, b, transB))
    return product if alpha == 1.0 else product * alpha


def _transposed(node: OnnxNode, x: GraphExpr, is_transposed: int) -> GraphExpr:
    if not is_transposed:
        return x
    rank = node.rank(x)
    return op.permute_dims(x, [*range(rank - 2), rank - 1, rank - 2])


@onnx_operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    node: OnnxNode,
    x: GraphExpr,
    skip: GraphExpr,
    gamma: GraphExpr,
    beta: GraphExpr | None = None,
    bias: GraphExpr | None = None,
    *,
    epsilon: float = 1e-12,
) -> Sequence[GraphExpr | None]:
    """The layer norm of a sum, and the sum."""
    total: GraphExpr = op.add(*node.broadcast_operands(x, skip))
    if bias is not None:
        total = op.add(total, bias)
    total = node.emit(total)
    return [op.nn.layer_norm(total, gamma, beta, epsilon=epsilon), None, None, total]


@onnx_operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    node: OnnxNode,
    words: GraphExpr,
    segments: GraphExpr | None,
    word_embedding: GraphExpr,
    position_embedding: GraphExpr,
    segment_embedding: GraphExpr | None = None,
    gamma: GraphExpr | None = None,
    beta: GraphExpr | None = None,
    mask: GraphExpr | None = None,
    positions: GraphExpr | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Sequence[GraphExpr | None]:
    """The layer norm of the sum of embeddings, the length of each sequence, and the sum."""
    batch, length = node.sizes(words, 2)
    total: GraphExpr = op.take(word_embedding, words, axis=0)
    if positions is None:
        here = op.strided_slice(position_embedding, [0], [0], [length], assume_inbound=True)
    else:
        here = op.take(position_embedding, positions, axis=0)
    total = op.add(total, here)
    if segments is not None and segment_embedding is not None:
        total = op.add(total, op.take(segment_embedding, segments, axis=0))
    total = node.emit(total)
    lengths: GraphExpr = op.zeros((batch,), "int32")
    if mask is not None:
        lengths = op.sum(op.astype(mask, "int32"), axis=[1])
    return [op.nn.layer_norm(total, gamma, beta, epsilon=epsilon), lengths, total]
