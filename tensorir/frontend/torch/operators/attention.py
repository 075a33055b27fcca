"""Attention by scaled dot products."""

from __future__ import annotations

from typing import Any

from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, tensor_info
from tensorir.frontend.torch.table import aten
from tensorir.relax import op


def attended(
    query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Any, enable_gqa: bool
) -> Any:
    """Return attention over (..., heads, length, width); a mask of bools keeps what is true.

    `nn.attention` has the lengths in front of the heads, and one batch axis.
    """
    shape = tensor_info(query).shape or ()
    if len(shape) == 3:
        q, k, v = (op.expand_dims(x, 0) for x in (query, key, value))
        return op.squeeze(attended(q, k, v, mask, is_causal, scale, enable_gqa), 0)
    options: dict[str, Any] = {"scale": None if scale is None else float(scale)}
    if is_causal:
        options["causal_mask"] = "TopLeft"
    if mask is not None:
        options["bias"] = _bias(mask, dtype_of(query))
    turned = [op.permute_dims(x, [0, 2, 1, 3]) for x in (query, key, value)]
    return op.permute_dims(op.nn.attention(*turned, **options), [0, 2, 1, 3])


def _bias(mask: Any, dtype: str) -> Any:
    """Return a mask as what is added to the products: minus infinity where it is false."""
    if dtype_of(mask) != "bool":
        return as_tensor(mask, dtype)
    kept, dropped = as_tensor(0.0, dtype), as_tensor(float("-inf"), dtype)
    return op.where(mask, kept, dropped)


@aten("scaled_dot_product_attention.default")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any,
    is_causal: bool,
    scale: Any,
    enable_gqa: bool = False,
    **_: Any,
) -> Any:
    """Attention over (..., heads, length, width)."""
    return attended(query, key, value, attn_mask, is_causal, scale, enable_gqa)


@aten("_scaled_dot_product_flash_attention_for_cpu.default")
def flash_attention(
    query: Any, key: Any, value: Any, is_causal: bool, attn_mask: Any, scale: Any, **_: Any
) -> Any:
    """A tuple: attention over (batch, heads, length, width), and one that stays empty."""
    return attended(query, key, value, attn_mask, is_causal, scale, False), None
