"""Ranges that scripts give by their two ends."""

from __future__ import annotations

from tensorir.comparison.equal import structural_equal
from tensorir.errors import IRTypeError
from tensorir.nodes import expr as e
from tensorir.nodes import ops
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import IntImm, PrimExpr


def range_of(low: PrimExpr, high: PrimExpr) -> Range:
    """Return the range from `low` to `high`, its extent simplified; IRTypeError for no integers."""
    for end in (low, high):
        if not end.dtype.is_integral:
            raise IRTypeError(f"the ends of a range must be integers, not {end.dtype}")
    if isinstance(low, IntImm) and low.value == 0:
        return Range.from_min_extent(low, high)
    return Range.from_min_extent(low, difference(high, low))


def difference(high: PrimExpr, low: PrimExpr) -> PrimExpr:
    """Return `high - low` with what cancels taken out.

    What is printed as `low:low + extent` gives `extent` as it stands, so that it reads back.
    """
    if isinstance(high, e.Add) and (high.a is low or structural_equal(high.a, low)):
        return high.b
    from tensorir.arith import Analyzer  # noqa: PLC0415

    return Analyzer().simplify(ops.sub(high, low))
