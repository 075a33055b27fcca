"""Vectors of indices whose lanes are a constant step apart."""

from __future__ import annotations

from tensorir.nodes.expr import LT, Add, And, Broadcast, IntImm, PrimExpr, Ramp, Sub
from tensorir.nodes.ops import add, is_const_int


def as_ramp(index: PrimExpr) -> PrimExpr:
    """Return a ramp that is written as the sum of another one and a broadcast as a ramp."""
    if type(index) is Add:
        a, b = as_ramp(index.a), as_ramp(index.b)
        if type(a) is Broadcast and type(b) is Ramp:
            return Ramp(add(a.value, b.base), b.stride, b.lanes)
        if type(a) is Ramp and type(b) is Broadcast:
            return Ramp(add(a.base, b.value), a.stride, a.lanes)
    return index


def run_of(index: PrimExpr) -> tuple[PrimExpr, int] | None:
    """Return the first index and the number of lanes, None if the lanes do not lie side by side."""
    if type(index) is Ramp:
        is_run = type(index.stride) is IntImm and index.stride.value == 1
        return (index.base, index.lanes) if is_run else None
    return (index, 1) if index.dtype.lanes == 1 else None


def split_constant(index: PrimExpr) -> tuple[PrimExpr | None, int]:
    """Return `index` as an expression (None for 0) plus a constant."""
    kind = type(index)
    if kind is IntImm:
        return None, index.value  # type: ignore[attr-defined]
    if kind is Add and type(index.b) is IntImm:  # type: ignore[attr-defined]
        return index.a, index.b.value  # type: ignore[attr-defined]
    if kind is Sub and type(index.b) is IntImm:  # type: ignore[attr-defined]
        return index.a, -index.b.value  # type: ignore[attr-defined]
    return index, 0


def leading_lanes(mask: PrimExpr | None, lanes: int) -> int:
    """Return a number of lanes after which a mask is false, all of them where that is not known."""
    if isinstance(mask, And):
        return min(leading_lanes(mask.a, lanes), leading_lanes(mask.b, lanes))
    if isinstance(mask, LT) and isinstance(mask.a, Ramp) and isinstance(mask.b, Broadcast):
        first, limit = mask.a.base, mask.b.value
        if (
            isinstance(first, IntImm)
            and isinstance(limit, IntImm)
            and is_const_int(mask.a.stride, 1)
        ):
            return max(0, min(lanes, limit.value - first.value))
    return lanes
