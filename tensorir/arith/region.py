"""What a region of a buffer covers while loops run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.coefficients import coefficients
from tensorir.arith.interval import IntervalSet, eval_set
from tensorir.arith.iter_map import IterMapLevel, detect_iter_map
from tensorir.arith.linear import Linear, Term
from tensorir.arith.mixed_radix import radix_span
from tensorir.buffer import Range
from tensorir.expr import IntImm, PrimExpr, Var
from tensorir.ops import TRUE, add, const, is_const_int

Box = tuple[IntervalSet, ...]


def estimate_region_strict_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: PrimExpr = TRUE,
    analyzer: Analyzer | None = None,
) -> Box | None:
    """Return exactly what is covered, None where that is no box or cannot be found.

    Found where all extents are constant, the minima are independent pieces of the loops, and each
    dimension's pieces follow one another without a gap.
    """
    analyzer = analyzer or Analyzer()
    extents = []
    for dim in region:
        if not isinstance(dim.extent, IntImm):
            return None
        extents.append(dim.extent.value)
    if is_const_int(predicate, 1):
        plain = _plain_box(region, var_dom, extents, analyzer)
        if plain is not None:
            return plain
    result = detect_iter_map(
        [dim.min for dim in region], var_dom, predicate, IterMapLevel.SURJECTIVE, True, analyzer
    )
    if len(result.indices) != len(region):
        return None
    box = []
    for dim, value, extent in zip(region, result.indices, extents, strict=True):
        dtype = dim.min.dtype
        base = analyzer.linearizer.write(value.base, dtype)
        low, count = 0, extent
        if value.args:
            split = value.args[0]
            scale = split.scale
            if extent < abs(scale):
                return None
            count = (split.extent - 1) * abs(scale) + extent
            low = (split.extent - 1) * scale if scale < 0 else 0
        first = add(base, const(low, dtype))
        box.append(IntervalSet(first, add(base, const(low + count - 1, dtype))))
    return tuple(box)


def _plain_box(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    extents: Sequence[int],
    analyzer: Analyzer,
) -> Box | None:
    """Return the box where every index is plainly a base and a count through loops, else None."""
    seen: set[Var] = set()
    box = []
    for dim, extent in zip(region, extents, strict=True):
        total = coefficients(dim.min)
        if total.parts:
            return None
        base: dict[Term, int] = {}
        inner: list[tuple[int, int]] = []
        for var, scale in total.of.items():
            values = var_dom.get(var)
            if values is None:
                if scale != 0:
                    base[var] = scale
                continue
            low, count = values.min, values.extent
            if var in seen or type(count) is not IntImm or not is_const_int(low, 0):
                return None
            seen.add(var)
            inner.append((scale, count.value))
        span = radix_span(inner)
        if span is None or (span[1] > 1 and extent < span[0]):
            return None
        dtype = dim.min.dtype
        width = (span[1] - 1) * span[0] + extent
        first = analyzer.linearizer.write(Linear(base, total.constant), dtype)
        box.append(IntervalSet(first, add(first, const(width - 1, dtype))))
    return tuple(box)


estimate_region_lower_bound = estimate_region_strict_bound


def estimate_region_upper_bound(
    region: Sequence[Range],
    var_dom: Mapping[Var, Range],
    predicate: PrimExpr = TRUE,
    analyzer: Analyzer | None = None,
) -> Box:
    """Return a box that holds everything that is covered.

    The exact box where there is one; else each dimension on its own, by interval arithmetic where
    that fails as well.
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
