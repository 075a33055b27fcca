"""Attention and rotary position embedding."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import Result, onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr

_SAME: Sequence[int] = (0, 2, 1, 3)
"""The permutation between `[b, h, s, d]` and `[b, s, h, d]`."""
_FLOAT = 1


@onnx_operator("Attention")
def attention(
    node: OnnxNode,
    query: GraphExpr,
    key: GraphExpr,
    value: GraphExpr,
    mask: GraphExpr | None = None,
    past_key: GraphExpr | None = None,
    past_value: GraphExpr | None = None,
    lengths: GraphExpr | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int = 0,
    left_window_size: int = -1,
    q_num_heads: int = 0,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int = _FLOAT,
) -> Result:
    """Attention over queries, and over keys and values that may come after earlier ones.

    Left to ONNX: a window without a causal order, scores as an output, a softmax in another
    precision, a mask that is shorter than the keys, and as many new keys as new queries after
    earlier keys only if this is known.
    """
    kinds = {node.dtype(x) for x in (query, key, value)}
    if right_window_size == 0:
        is_causal = 1
    has_window = left_window_size >= 0 or right_window_size > 0
    if len(kinds) > 1 or (has_window and not is_causal) or any(node.outputs[3:]):
        return None
    if softmax_precision != _FLOAT:
        return None
    is_flat = node.rank(query) == 3
    queries = _by_position(node, query, q_num_heads)
    parts, results = [], []
    same = Analyzer().can_prove_equal
    for given, past in ((key, past_key), (value, past_value)):
        part = _by_position(node, given, kv_num_heads)
        if past is not None and not same(node.extent(part, 1), node.extent(queries, 1)):
            return None
        if past is not None or any(node.outputs[1:3]):
            present = node.emit(op.permute_dims(part, _SAME))
            if past is not None:
                present = node.emit(op.concat([past, present], axis=2))
            part = node.emit(op.permute_dims(present, _SAME))
            results.append(present)
        parts.append(part)
    if mask is not None and not same(node.extent(mask, -1), node.extent(parts[0], 1)):
        return None
    causal = "BottomRight" if past_key is not None or lengths is not None else "TopLeft"
    result = op.nn.attention(
        queries,
        *parts,
        mask,
        scale=scale,
        causal_mask=causal if is_causal else None,
        window_size=left_window_size + 1 if left_window_size >= 0 else None,
        softcap=softcap,
        lengths=lengths,
    )
    if not is_flat:
        return [op.permute_dims(result, _SAME), *results]
    batch, length, heads, depth = node.shape(node.emit(result))
    return [op.reshape(result, (batch, length, heads * depth)), *results]


def _by_position(node: OnnxNode, x: GraphExpr, heads: int) -> GraphExpr:
    """Return `[b, s, h * d]` or `[b, h, s, d]` as `[b, s, h, d]`."""
    if node.rank(x) == 4:
        return node.emit(op.permute_dims(x, _SAME))
    batch, length, width = node.sizes(x, 3)
    if heads < 1:
        raise IRValueError("q_num_heads and kv_num_heads must be given for 3 dimensions")
    return node.emit(op.reshape(x, (batch, length, heads, width // heads)))


@onnx_operator("RotaryEmbedding")
def rotary_embedding(
    node: OnnxNode,
    x: GraphExpr,
    cos: GraphExpr,
    sin: GraphExpr,
    positions: GraphExpr | None = None,
    *,
    interleaved: int = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> GraphExpr:
    """Pairs of elements rotated by angles from tables."""
    is_flat = node.rank(x) == 3
    heads = x if not is_flat else _by_position(node, x, num_heads)
    result = op.nn.rotary_embedding(
        heads,
        cos,
        sin,
        positions,
        sequence_axis=1 if is_flat else 2,
        rotary_dim=rotary_embedding_dim,
        interleaved=bool(interleaved),
    )
    return op.reshape(result, node.shape(x)) if is_flat else result
