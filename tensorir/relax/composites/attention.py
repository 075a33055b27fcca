"""Attention (Vaswani et al., "Attention Is All You Need", 2017)."""

from __future__ import annotations

import math
from typing import Literal

from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm
from tensorir.relax import op
from tensorir.relax.composites.operand_shapes import dtype_of, rank_of, shape_of
from tensorir.relax.declaration import composite
from tensorir.relax.expr import GraphExpr, const_of


@composite("nn.attention")
def attention(
    query: GraphExpr,
    key: GraphExpr,
    value: GraphExpr,
    bias: GraphExpr | None = None,
    scale: float | None = None,
    causal_mask: Literal["TopLeft", "BottomRight"] | None = None,
    window_size: int | None = None,
    softcap: float = 0.0,
) -> GraphExpr:
    """Return `softmax(query @ key.T * scale + bias) @ value` for each head.

    `query[b, i, h, d]`, `key[b, j, h, d]` and `value[b, j, h, e]` give `[b, i, h, e]`. Keys and
    values may have fewer heads, each for several heads of the query (grouped heads). `bias`
    broadcasts to `[b, h, i, j]`; a `bias` of bools is a mask. `scale` is `1 / sqrt(d)` by default.
    `causal_mask` masks later positions, counted from the beginning or from the end, and
    `window_size` masks positions that are at least that far before. `softcap` bounds the products
    by a tanh.
    """
    for name, x in (("query", query), ("key", key), ("value", value)):
        if rank_of(x) != 4:
            raise IRValueError(f"{name} must have 4 dimensions, got {rank_of(x)}")
    if window_size is not None and causal_mask is None:
        raise IRValueError("window_size needs a causal_mask: it counts backwards from a position")
    if scale is None:
        depth = shape_of(query)[-1]
        if not isinstance(depth, IntImm) or depth.value == 0:
            raise IRValueError(f"scale must be given where the depth of heads is {depth}")
        scale = 1 / math.sqrt(depth.value)
    dtype = dtype_of(query)
    scores = op.nn.attention_scores(query, op.permute_dims(key, axes=[0, 2, 3, 1]))
    scores = op.multiply(scores, const_of(scale, dtype))
    if softcap:
        cap = const_of(softcap, dtype)
        scores = op.multiply(op.tanh(op.divide(scores, cap)), cap)
    if bias is not None:
        if dtype_of(bias).is_bool:
            scores = op.where(bias, scores, const_of(-math.inf, dtype))
        else:
            scores = op.add(scores, bias)
    if causal_mask is not None:
        scores = op.nn.attention_mask(scores, alignment=causal_mask, window_size=window_size)
    return op.nn.attention_output(op.nn.softmax(scores, axis=-1), value)
