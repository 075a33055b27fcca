"""Fused operators that ONNX Runtime's exporters and optimizers write, domain `com.microsoft`.

The shapes of masks and their meaning follow the description of these operators (ContribOperators.md
of ONNX Runtime).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.frontend.onnx.converters.quantization import MICROSOFT, real_product
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr

onnx_operators(
    {
        "Gelu": lambda node, x: op.nn.gelu(x),
        "BiasGelu": lambda node, x, bias: op.nn.gelu(op.add(x, bias)),
        "FastGelu": lambda node, x, bias=None: op.nn.gelu_tanh(
            x if bias is None else op.add(x, bias)
        ),
        "QuickGelu": lambda node, x, *, alpha=1.702: x * op.sigmoid(x * alpha),
    },
    domain=MICROSOFT,
)


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
    product = op.matmul(_transpose(node, a, transA), _transpose(node, b, transB))
    return product if alpha == 1.0 else product * alpha


def _transpose(node: OnnxNode, x: GraphExpr, is_transposed: int) -> GraphExpr:
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


_LEFT_OUT = -10000.0
"""The default number that is added to the scores of masked positions."""


class _Scores(NamedTuple):
    """The options of attention scores: masks, a bias, a scale factor, and causal masking."""

    mask: GraphExpr | None
    bias: GraphExpr | None
    left_out: float
    scale: float
    causal: int


@onnx_operator("Attention", domain=MICROSOFT)
def attention(
    node: OnnxNode,
    x: GraphExpr,
    weights: GraphExpr,
    bias: GraphExpr | None = None,
    mask: GraphExpr | None = None,
    past: GraphExpr | None = None,
    attention_bias: GraphExpr | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = _LEFT_OUT,
    qkv_hidden_sizes: Sequence[int] | None = None,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Sequence[GraphExpr]:
    """Self-attention of `x[b, s, i]`; one matrix product computes queries, keys and values."""
    projected: GraphExpr = op.matmul(x, weights)
    if bias is not None:
        projected = op.add(projected, bias)
    scores = _Scores(mask, attention_bias, mask_filter_value, scale, unidirectional)
    return _attention_of_product(node, projected, num_heads, qkv_hidden_sizes, past, scores)


@onnx_operator("QAttention", domain=MICROSOFT)
def quantized_attention(
    node: OnnxNode,
    x: GraphExpr,
    weights: GraphExpr,
    bias: GraphExpr,
    x_scale: GraphExpr,
    weights_scale: GraphExpr,
    mask: GraphExpr | None = None,
    x_zero_point: GraphExpr | None = None,
    weights_zero_point: GraphExpr | None = None,
    past: GraphExpr | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = _LEFT_OUT,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Sequence[GraphExpr]:
    """Self-attention; one product of quantized matrices computes queries, keys and values."""
    projected = real_product(
        node, x, weights, x_scale, weights_scale, x_zero_point, weights_zero_point, bias
    )
    scores = _Scores(mask, None, mask_filter_value, scale, unidirectional)
    return _attention_of_product(node, projected, num_heads, None, past, scores)


@onnx_operator("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(
    node: OnnxNode,
    query: GraphExpr,
    key: GraphExpr,
    value: GraphExpr,
    bias: GraphExpr | None = None,
    mask: GraphExpr | None = None,
    attention_bias: GraphExpr | None = None,
    past_key: GraphExpr | None = None,
    past_value: GraphExpr | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = _LEFT_OUT,
    scale: float = 0.0,
    unidirectional: int = 0,
) -> Sequence[GraphExpr]:
    """Attention of queries, keys and values `[b, s, h]`, each after adding its optional bias."""
    parts = [query, key, value]
    if any(node.rank(part) != 3 for part in parts):
        raise IRValueError("queries, keys and values must have 3 dimensions each")
    if bias is not None:
        widths = [node.extent(part, 2) for part in parts]
        biases = node.emit(op.split(bias, _part_ends(widths[:2], "the width of queries and keys")))
        parts = [op.add(part, biases[k]) for k, part in enumerate(parts)]
    scores = _Scores(mask, attention_bias, mask_filter_value, scale, unidirectional)
    heads = [_split_heads(node, node.emit(part), num_heads) for part in parts]
    return _attention_of_heads(node, heads, (past_key, past_value), scores)


def _attention_of_product(
    node: OnnxNode,
    projected: GraphExpr,
    heads: int,
    widths: Sequence[int] | None,
    past: GraphExpr | None,
    scores: _Scores,
) -> Sequence[GraphExpr]:
    """Return attention for concatenated queries, keys and values, and the past of the next call."""
    projected = node.emit(projected)
    if widths:
        cuts = [widths[0], widths[0] + widths[1]]
    else:
        third = _constant_extent(node.extent(projected, 2), "the width of the weights") // 3
        cuts = [third, 2 * third]
    parts = node.emit(op.split(projected, cuts, axis=-1))
    pasts: tuple[GraphExpr | None, GraphExpr | None] = (None, None)
    if past is not None:
        both = node.emit(op.split(past, 2, axis=0))
        pasts = (node.emit(op.squeeze(both[0], [0])), node.emit(op.squeeze(both[1], [0])))
    headed = [_split_heads(node, node.emit(parts[k]), heads) for k in range(3)]
    output, *present = _attention_of_heads(node, headed, pasts, scores)
    return [output, op.stack(present, axis=0)] if any(node.outputs[1:]) else [output]


def _attention_of_heads(
    node: OnnxNode,
    parts: Sequence[GraphExpr],
    pasts: Sequence[GraphExpr | None],
    scores: _Scores,
) -> Sequence[GraphExpr]:
    """Return attention `[b, s, h * d]` of parts `[b, s, h, d]`, and keys and values `[b, h, t, d]`.

    `pasts` are the keys and values `[b, h, p, d]` of earlier positions.
    """
    query, *kept = parts
    for k, past in enumerate(pasts):
        if past is not None:
            before = op.permute_dims(past, [0, 2, 1, 3])
            kept[k] = node.emit(op.concat([before, kept[k]], axis=1))
    key, value = kept
    batch, length = node.shape(query)[:2]
    bias = scores.bias
    if scores.mask is not None:
        summand = _mask_scores(node, scores.mask, batch, node.extent(key, 1), scores.left_out)
        bias = summand if bias is None else op.add(bias, summand)
    result = op.nn.attention(
        query,
        key,
        value,
        bias,
        scale=scores.scale or None,
        causal_mask="BottomRight" if scores.causal else None,
    )
    heads, depth = node.shape(value)[2:]
    whole = op.reshape(result, (batch, length, heads * depth))
    return [whole, *(op.permute_dims(part, [0, 2, 1, 3]) for part in kept)]


def _mask_scores(
    node: OnnxNode, mask: GraphExpr, batch: PrimExpr, length: PrimExpr, left_out: float
) -> GraphExpr:
    """Return the summand for the scores `[b, h, s, t]` that a mask means.

    A mask `[b, t]` or `[b, s, t]` is nonzero at positions to use; other masks hold the end of each
    sequence, `[b]`, or all ends followed by all beginnings, `[2 * b]`.
    """
    rank = node.rank(mask)
    if rank == 1:
        counts = _is_inside(node, mask, batch, length)
    elif rank in (2, 3):
        counts = op.not_equal(mask, 0)
        counts = op.expand_dims(counts, [1, 2] if rank == 2 else [1])
    else:
        raise IRValueError(f"a mask has 1 to 3 dimensions, got {rank}")
    return op.astype(op.logical_not(counts), "float32") * left_out


def _is_inside(node: OnnxNode, ends: GraphExpr, batch: PrimExpr, length: PrimExpr) -> GraphExpr:
    """Return a bool tensor `[b, 1, 1, t]`, true at positions inside of the sequences."""
    places = op.arange(0, length, 1, "int64")
    given, analyzer = node.extent(ends, 0), Analyzer()
    begins = None
    if analyzer.can_prove_equal(given, batch * 2):
        both = node.emit(op.split(ends, 2, axis=0))
        ends, begins = node.emit(both[0]), node.emit(both[1])
    elif not analyzer.can_prove_equal(given, batch):
        raise IRValueError(
            f"a mask of one dimension has {batch} or {batch * 2} positions, got {given}"
        )

    def column(positions: GraphExpr) -> GraphExpr:
        wide: GraphExpr = op.reshape(op.astype(positions, "int64"), (batch, 1, 1, 1))
        return wide

    result: GraphExpr = op.less(places, column(ends))
    if begins is not None:
        result = op.logical_and(result, op.greater_equal(places, column(begins)))
    return result


def _split_heads(node: OnnxNode, x: GraphExpr, heads: int) -> GraphExpr:
    """Return a tensor `[b, s, h * d]` as `[b, s, h, d]`."""
    batch, length, width = node.sizes(x, 3)
    depth = _constant_extent(width, "the width of queries, keys and values") // heads
    return node.emit(op.reshape(x, (batch, length, heads, depth)))


def _part_ends(widths: Sequence[PrimExpr], what: str) -> list[int]:
    """Return the end of each part but the last, for parts of these widths."""
    ends: list[int] = []
    for width in widths:
        ends.append((ends[-1] if ends else 0) + _constant_extent(width, what))
    return ends


def _constant_extent(extent: PrimExpr, what: str) -> int:
    if not isinstance(extent, IntImm):
        raise IRValueError(f"{what} must be known while the model is read, got {extent}")
    return extent.value
