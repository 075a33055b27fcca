"""The matrix products of attention, masks of scores, and rotary position embedding."""

from __future__ import annotations

from typing import Literal

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import EQ, IntImm, PrimExpr
from tensorir.nodes.ops import as_expr, cast, compare, const, floordiv, floormod, infinity
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype, sum_dtype
from tensorir.topi.extents import axis_of, check_equal, check_floats, check_rank, known_extent
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
        x, y = query[b, i, h, k.var], key[b, _shared_head(h, group), k.var, j]
        return te.sum(cast(wide, x) * cast(wide, y), axis=k)

    return convert_dtype(
        te.compute((b, h, i, key.shape[3]), element, name="attention_scores"), dtype
    )


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
        x, y = weights[b, h, i, k.var], value[b, k.var, _shared_head(h, group), d]
        return te.sum(cast(wide, x) * cast(wide, y), axis=k)

    return convert_dtype(
        te.compute((b, i, h, value.shape[3]), element, name="attention_output"), dtype
    )


def _heads_per_group(heads: PrimExpr, shared: PrimExpr) -> int:
    """Return the number of heads that share one head.

    Raises IRValueError if the numbers do not match.
    """
    if not isinstance(heads, IntImm) or not isinstance(shared, IntImm):
        check_equal(shared, "the number of heads of key and value", heads, "that of query")
        return 1
    count, shared_count = known_extent(heads, "heads"), known_extent(shared, "heads")
    if shared_count < 1 or count % shared_count:
        raise IRValueError(
            f"the {count} heads of query cannot share the {shared_count} heads of key and value"
        )
    return count // shared_count


def _shared_head(head: PrimExpr, group: int) -> PrimExpr:
    return head if group == 1 else floordiv(head, group)


@operator("nn.attention_mask")
def attention_mask(
    scores: Tensor,
    alignment: Literal["TopLeft", "BottomRight"] = "TopLeft",
    window_size: int | None = None,
) -> Tensor:
    """Return scores `[..., i, j]`, with minus infinity where `j` comes after `i`.

    `alignment` sets if `i` and `j` are counted from the beginning or from the end. With
    `window_size`, only the last `window_size` positions up to `i` are kept.
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


@operator("nn.rotary_embedding")
def rotary_embedding(
    data: Tensor,
    cos: Tensor,
    sin: Tensor,
    positions: Tensor | None = None,
    sequence_axis: int = 1,
    rotary_dim: int = 0,
    interleaved: bool = False,
) -> Tensor:
    """Return `data[b, s, h, d]` with pairs of elements rotated by an angle that grows with `s`.

    Pairs are `d` and `d + r / 2` of the first `r` elements (`rotary_dim`, by default all), or
    neighbours if `interleaved`. `cos` and `sin` are `[b, s, r / 2]`, or `[s, r / 2]`, or `[n, r /
    2]` with the rows `positions[b, s]`, integers. `sequence_axis` is 2 for `[b, h, s, d]`.
    """
    check_floats("data", data)
    if data.ndim < 3:
        raise IRValueError(f"data must have at least 3 dimensions, got {data.ndim}")
    along = axis_of(sequence_axis, data.ndim - 1)
    depth = data.shape[-1]
    rotated = as_expr(rotary_dim) if rotary_dim else depth
    half = floordiv(rotated, 2)
    for name, table in (("cos", cos), ("sin", sin)):
        if table.ndim not in ((2,) if positions is not None else (2, 3)):
            raise IRValueError(f"{name} must be a table of angles, got rank {table.ndim}")
        check_equal(table.shape[-1], f"the last extent of {name}", half, "half of the rotated part")
        if positions is None:
            check_equal(table.shape[-2], f"the length of {name}", data.shape[along], "that of data")
    if positions is not None and not positions.dtype.is_integral:
        raise IRTypeError(f"positions must be integers, got {positions.dtype}")
    wide = sum_dtype(data.dtype)

    def element(*indices: PrimExpr) -> PrimExpr:
        *outer, d = indices
        batch, place = indices[0], indices[along]

        def angle(table: Tensor, k: PrimExpr) -> PrimExpr:
            if positions is not None:
                return cast(wide, table[cast("int64", positions[batch, place]), k])
            row = (batch, place, k) if table.ndim == 3 else (place, k)
            return cast(wide, table[row])

        def load(k: PrimExpr) -> PrimExpr:
            return cast(wide, data[(*outer, k)])

        if interleaved:
            pair, is_first = floordiv(d, 2), compare(EQ, floormod(d, 2), 0)
            first, second = pair * 2, pair * 2 + 1
        else:
            is_first = d < half
            pair = te.if_then_else(is_first, d, d - half)
            first, second = pair, pair + half
        c, s = angle(cos, pair), angle(sin, pair)
        turned = te.if_then_else(
            is_first, load(first) * c - load(second) * s, load(second) * c + load(first) * s
        )
        if rotary_dim:
            turned = te.if_then_else(d < rotated, turned, load(d))
        return cast(data.dtype, turned)

    return te.compute(data.shape, element, name="rotary_embedding")
