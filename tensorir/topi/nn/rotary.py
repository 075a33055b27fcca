"""Rotary position embedding (Su et al., "RoFormer", 2021)."""

from __future__ import annotations

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import EQ, PrimExpr
from tensorir.nodes.ops import as_expr, cast, compare, floordiv, floormod
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import sum_dtype
from tensorir.topi.extents import axis_of, check_equal, check_floats


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
