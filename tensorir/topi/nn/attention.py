"""The products of attention, for tensors with the heads after the positions."""

from __future__ import annotations

from typing import Literal

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const, floordiv, infinity
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import rounded
from tensorir.topi.extents import check_equal, check_floats, check_rank, known_extent
from tensorir.topi.matmul import product_dtypes


@operator("nn.attention_scores")
def attention_scores(query: Tensor, key: Tensor) -> Tensor:
    """Return `[b, h, i, j]`, the products of `query[b, i, h, d]` and `key[b, h, d, j]`.

    If the key has fewer heads, consecutive heads of the query share a head of the key.
    """
    check_rank("query", query, 4)
    check_rank("key", key, 4)
    b, i, h, d = query.shape
    check_equal(key.shape[0], "the batch of key", b, "that of query")
    check_equal(key.shape[2], "the depth of key", d, "that of query")
    group = _heads_per_group(h, key.shape[1])
    dtype, wide = product_dtypes(query, key, None)
    k = te.reduce_axis((0, d), "k")

    def element(b: PrimExpr, h: PrimExpr, i: PrimExpr, j: PrimExpr) -> PrimExpr:
        x, y = query[b, i, h, k.var], key[b, _shared(h, group), k.var, j]
        return te.sum(cast(wide, x) * cast(wide, y), axis=k)

    return rounded(te.compute((b, h, i, key.shape[3]), element, name="attention_scores"), dtype)


@operator("nn.attention_output")
def attention_output(weights: Tensor, value: Tensor) -> Tensor:
    """Return `[b, i, h, d]`, the sums of `value[b, j, h, d]` with `weights[b, h, i, j]`.

    If the value has fewer heads, consecutive heads of the weights share a head of the value.
    """
    check_rank("weights", weights, 4)
    check_rank("value", value, 4)
    b, h, i, j = weights.shape
    check_equal(value.shape[0], "the batch of value", b, "that of query")
    check_equal(value.shape[1], "the length of value", j, "that of key")
    group = _heads_per_group(h, value.shape[2])
    dtype, wide = product_dtypes(weights, value, None)
    k = te.reduce_axis((0, j), "k")

    def element(b: PrimExpr, i: PrimExpr, h: PrimExpr, d: PrimExpr) -> PrimExpr:
        x, y = weights[b, h, i, k.var], value[b, k.var, _shared(h, group), d]
        return te.sum(cast(wide, x) * cast(wide, y), axis=k)

    return rounded(te.compute((b, i, h, value.shape[3]), element, name="attention_output"), dtype)


def _heads_per_group(heads: PrimExpr, shared: PrimExpr) -> int:
    """Return the number of heads that share one; IRValueError if the numbers do not match."""
    if not isinstance(heads, IntImm) or not isinstance(shared, IntImm):
        check_equal(shared, "the number of heads of key and value", heads, "that of query")
        return 1
    count, among = known_extent(heads, "heads"), known_extent(shared, "heads")
    if among < 1 or count % among:
        raise IRValueError(
            f"the {count} heads of query cannot share the {among} heads of key and value"
        )
    return count // among


def _shared(head: PrimExpr, group: int) -> PrimExpr:
    return head if group == 1 else floordiv(head, group)


@operator("nn.attention_mask")
def attention_mask(
    scores: Tensor,
    alignment: Literal["TopLeft", "BottomRight"] = "TopLeft",
    window_size: int | None = None,
) -> Tensor:
    """Return scores `[..., i, j]`, with minus infinity where `j` comes after `i`.

    `i` and `j` are counted from the beginning, or from the end. With `window_size`, only the last
    `window_size` positions up to `i` are kept.
    """
    check_floats("scores", scores)
    if scores.ndim < 2:
        raise IRValueError(f"scores must have at least 2 dimensions, got {scores.ndim}")
    rows, columns = scores.shape[-2:]
    never = -infinity(scores.dtype)

    def element(*indices: PrimExpr) -> PrimExpr:
        i, j = indices[-2:]
        last = i if alignment == "TopLeft" else i + (columns - rows)
        allowed = j <= last
        if window_size is not None:
            allowed = te.all(allowed, j > last - const(window_size, j.dtype))
        chosen: PrimExpr = te.Select(allowed, scores[indices], never)
        return chosen

    return te.compute(scores.shape, element, name="T_attention_mask")
