"""Attention by scaled dot products."""

from __future__ import annotations

from typing import Any

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, tensor_info
from tensorir.frontend.torch.table import aten
from tensorir.relax import op


def attended(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Any) -> Any:
    """Return attention over (..., heads, length, width), or over (batch, length, width).

    A mask of bools keeps true positions, any other mask is added. If a row keeps no position, the
    result is 0. (`nn.attention` has the lengths before the heads, and one batch axis.)
    """
    ndim = tensor_info(query).ndim
    if ndim == 3:
        query, key, value = (op.expand_dims(x, 1) for x in (query, key, value))
        if mask is not None and tensor_info(mask).ndim == 3:
            mask = op.expand_dims(mask, 1)
    elif ndim != 4:
        raise IRTypeError(f"attention of {ndim} dimensions is not supported")
    if mask is not None and dtype_of(mask) != "bool":
        mask = as_tensor(mask, dtype_of(query))
    turned = [op.permute_dims(x, [0, 2, 1, 3]) for x in (query, key, value)]
    found = op.nn.attention(
        *turned,
        bias=mask,
        scale=None if scale is None else float(scale),
        causal_mask="TopLeft" if is_causal else None,
    )
    made = op.permute_dims(found, [0, 2, 1, 3])
    if mask is not None:
        made = op.where(_keeps_any(mask), made, as_tensor(0, dtype_of(made)))
    return made if ndim == 4 else op.squeeze(made, 1)


def _keeps_any(mask: Any) -> Any:
    """Return, for each position of the query, whether a mask keeps any position."""
    if dtype_of(mask) != "bool":
        mask = op.not_equal(mask, as_tensor(float("-inf"), dtype_of(mask)))
    return op.any(mask, -1, keepdims=True)


@aten("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    is_causal: bool,
    scale: Any,
    **_: Any,
) -> Any:
    """Attention; keys and values may have fewer heads."""
    return attended(query, key, value, attn_mask, is_causal, scale)


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    query: Any, key: Any, value: Any, is_causal: bool, attn_mask: Any, scale: Any, **_: Any
) -> Any:
    """A tuple: attention over (batch, heads, length, width), and an empty tensor."""
    return attended(query, key, value, attn_mask, is_causal, scale), None
