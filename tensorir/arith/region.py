"""Boxes of a buffer that a region covers over all iterations of loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.interval import IntervalSet, eval_set
from tensorir.arith.iter_independence import IterMapLevel
from tensorir.arith.iter_map import detect_iter_map
from tensorir.arith.iter_term import IterSumExpr
from tensorir.arith.size import Size, Sizes, at_most, is_positive, plus_size
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import TRUE
from tensorir.rewriting.visit import uses_var

Box = tuple[IntervalSet, ...]


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: PrimExpr = TRUE,
    analyzer: Analyzer | None = None,
) -> Box | None:
    """Return the exact covered region; None if it is not a box or cannot be determined.

    The box is found if no extent depends on a loop, the minima are independent pieces of the loops,
    and the pieces of each dimension leave no gaps.
    """
    analyzer = analyzer or Analyzer()
    extents = []
    sizes = Sizes(analyzer.linearizer, (values.extent for values in var_dom.values()))
    for dim in region:
        if type(dim.extent) is not IntImm and uses_var(dim.extent, var_dom.__contains__):
            return None
        extents.append(sizes.of(analyzer.linear(dim.extent)))
    result = detect_iter_map(
        [dim.min for dim in region], var_dom, predicate, IterMapLevel.SURJECTIVE, True, analyzer
    )
    if len(result.indices) != len(region):
        return None
    box = []
    for dim, value, extent in zip(region, result.indices, extents, strict=True):
        span = _offset_range(value, extent)
        if span is None:
            return None
        low, high = (plus_size(value.base, end) for end in span)
        dtype = dim.min.dtype
        first = analyzer.linearizer.write(low, dtype)
        last = first if high is low else analyzer.linearizer.write(high, dtype)
        box.append(IntervalSet(first, last))
    return tuple(box)


def _offset_range(value: IterSumExpr, extent: Size) -> tuple[Size, Size] | None:
    """Return the minimum and maximum offset from the base; None if there are gaps.

    At each value of an index, `extent` elements are covered.
    """
    if not value.args:
        return 0, extent - 1
    split = value.args[0]
    is_descending = not is_positive(split.scale)
    step = 0 - split.scale if is_descending else split.scale
    if not at_most(step, extent):
        return None
    reach = (split.extent - 1) * step
    return (0 - reach if is_descending else 0), (0 if is_descending else reach) + extent - 1


estimate_region_lower_bound = estimate_region_strict_bound


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: PrimExpr = TRUE,
    analyzer: Analyzer | None = None,
) -> Box:
    """Return a box that contains the covered region.

    It is the exact box if possible. Otherwise each dimension is bounded separately: exactly if
    possible, else by interval arithmetic.
    """
    analyzer = analyzer or Analyzer()
    exact = estimate_region_strict_bound(region, var_dom, predicate, analyzer)
    if exact is not None:
        return exact
    sets = {var: IntervalSet.from_range(r) for var, r in var_dom.items()}
    box = []
    for dim in region:
        alone = estimate_region_strict_bound([dim], var_dom, predicate, analyzer)
        box.append(alone[0] if alone is not None else eval_set(dim, sets, analyzer))
    return tuple(box)
