"""The instances of a block that its dependents need.

Given the region that one instance of a block provides and the region that is required of all,
find the range of each of its axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from schedule.analysis.bindings import axis_domain
from schedule.analysis.regions import Box
from tensorir.arith import (
    Analyzer,
    IntervalSet,
    IterMapLevel,
    detect_iter_map,
    eval_set,
    inverse_affine_iter_map,
)
from tensorir.arith.size import size_expr
from tensorir.comparison.equal import expr_deep_equal
from tensorir.errors import IRValueError
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import GE, LE, FloorDiv, FloorMod, IntImm, IterVar, Mul, PrimExpr, Var
from tensorir.nodes.ops import (
    TRUE,
    compare,
    const,
    floordiv,
    is_const_int,
    logical_and,
    logical_or,
    max_,
    min_,
)
from tensorir.rewriting.visit import collect_vars, substitute, uses_var, walk


class AxisDomain:
    """The needed values of an axis (`dom`), and the limits that its predicate must enforce."""

    __slots__ = ("bound", "dom", "overlaps")

    def __init__(self) -> None:
        self.dom = IntervalSet.nothing()
        self.bound: IntervalSet | None = IntervalSet.nothing()
        self.overlaps = False
        """True if neighbouring instances provide some of the same elements, so that elements of an
        instance outside of the domain may be needed from another one.
        """

    def widen(self, dom: IntervalSet, bound: IntervalSet, analyzer: Analyzer) -> None:
        """Add needed values, and limits of the values in the domain."""
        self.dom = self.dom.union(dom, analyzer)
        assert self.bound is not None
        self.bound = self.bound.union(bound, analyzer)


def solve_axis_domains(
    axes: Sequence[IterVar],
    provided: Mapping[Buffer, list[BufferRegion]],
    required: Mapping[Buffer, Box],
    analyzer: Analyzer,
    *,
    must_cover: bool,
) -> list[AxisDomain]:
    """Return the domain of each axis such that all of `required` is provided.

    `provided` are the regions of one instance in terms of the axes. An axis that none of them
    mentions gets its whole domain. With `must_cover`, every required element must be provided by an
    instance in the domain. Raises IRValueError where an index cannot be solved for its axis.
    """
    ranges = axis_domain(axes)
    domains = {var: AxisDomain() for var in ranges}
    for buffer, regions in provided.items():
        box = required.get(buffer)
        if box is not None and not _solve_affine(regions, box, buffer, ranges, domains, analyzer):
            _solve_by_dimension(regions, box, buffer, domains, analyzer)
    if not must_cover:
        for domain in domains.values():
            domain.overlaps = False
    return [_combine_domain(domains[var], ranges[var], analyzer) for var in ranges]


@dataclass(frozen=True, slots=True)
class Places:
    """The needed elements of a buffer, and the axis values of the instances that access them."""

    needed: Mapping[Var, IntervalSet]
    """The indices of an element, and their ranges."""
    axes: Mapping[Var, PrimExpr]
    """The axis values in terms of these indices."""


def solve_places(
    axes: Sequence[IterVar],
    domains: Sequence[AxisDomain],
    provided: Mapping[Buffer, list[BufferRegion]],
    required: Mapping[Buffer, Box],
    analyzer: Analyzer,
) -> Places | None:
    """Return the elements to run over if the domains of the axes include too many instances.

    This happens where a box of a buffer is needed and one axis fills several rows: the needed
    instances do not form a box. None unless every instance accesses a single element of one buffer.
    """
    if len(required) != 1:
        return None
    ((buffer, box),) = required.items()
    found = _point(provided[buffer], box, axis_domain(axes))
    if found is None or _are_axes(*found):
        return None
    point, used = found
    pieces = detect_iter_map(point, used, TRUE, IterMapLevel.BIJECTIVE, True).indices
    if not pieces:
        return None
    linearizer = analyzer.linearizer
    places = [Var(f"place{k}", n.dtype) for k, n in enumerate(buffer.shape)]
    needed: dict[Var, IntervalSet] = {}
    for place, piece, need in zip(places, pieces, box, strict=True):
        if piece.args:
            (split,) = piece.args
            low = linearizer.write(piece.base, place.dtype)
            count = size_expr(split.extent, place.dtype)
            whole = IntervalSet.from_range(Range.from_min_extent(low, count))
            if split.scale != 1 or not _is_within(need, whole, analyzer):
                return None
            needed[place] = need
    hull = [d.dom for axis, d in zip(axes, domains, strict=True) if axis.var in used]
    if _count(hull, analyzer) == _count(needed.values(), analyzer):
        return None
    return Places(needed, inverse_affine_iter_map(pieces, places, linearizer))


def _count(sets: Iterable[IntervalSet], analyzer: Analyzer) -> int:
    """Return the number of elements of a box, 0 if it is unknown."""
    total = 1
    for values in sets:
        extent = analyzer.simplify(values.max_value - values.min_value + 1)
        total *= extent.value if isinstance(extent, IntImm) else 0
    return total


def where_fixed_places_are_needed(
    axes: Sequence[IterVar],
    provided: Mapping[Buffer, list[BufferRegion]],
    required: Mapping[Buffer, Box],
    analyzer: Analyzer,
) -> PrimExpr:
    """Return the condition that the required regions include the fixed indices of all instances.

    Fixed indices are constants and axes of one value. The axis domains do not express this
    condition.
    """
    only = {a.var: a.dom.min for a in axes if a.dom is not None and is_const_int(a.dom.extent, 1)}
    varying = {axis.var for axis in axes if axis.var not in only}
    cases: list[PrimExpr] = []
    for buffer, regions in provided.items():
        box = required.get(buffer)
        if box is None:
            continue
        case: PrimExpr = TRUE
        for have, need in zip(regions[0].region, box, strict=True):
            if is_const_int(have.extent, 1) and not uses_var(have.min, varying.__contains__):
                place = substitute(have.min, only)
                for end, limit in ((need.min_value, LE), (need.max_value, GE)):
                    if end is not None:
                        held = analyzer.simplify(compare(limit, end, place))
                        case = logical_and(case, held)
        if len(regions) > 1 or is_const_int(case, 1):
            return TRUE
        if not any(expr_deep_equal(case, other) for other in cases):
            cases.append(case)
    return reduce(logical_or, cases) if cases else TRUE


def is_always_solvable(provided: Sequence[BufferRegion]) -> bool:
    """Return True if `solve_axis_domains` succeeds for any required parts of these regions."""
    return all(
        type(dim.min) is IntImm or (type(dim.min) is Var and is_const_int(dim.extent, 1))
        for region in provided
        for dim in region.region
    )


def _solve_affine(
    regions: list[BufferRegion],
    box: Box,
    buffer: Buffer,
    ranges: Mapping[Var, Range],
    domains: Mapping[Var, AxisDomain],
    analyzer: Analyzer,
) -> bool:
    """Solve for all axes together if the indices are a bijective affine map of the axes."""
    found = _point(regions, box, ranges)
    if found is None:
        return False
    point, domain = found
    if _are_axes(point, domain):
        for index, need, extent in zip(point, box, buffer.shape, strict=True):
            assert isinstance(index, Var)
            assert need.min_value is not None
            assert need.max_value is not None
            wanted = IntervalSet(
                analyzer.simplify(need.min_value), analyzer.simplify(need.max_value)
            )
            exists = IntervalSet(const(0, extent.dtype), analyzer.simplify(extent - 1))
            if is_const_int(domain[index].extent, 1):
                wanted = exists = IntervalSet.point(domain[index].min)
            domains[index].widen(wanted, exists, analyzer)
        return True
    pieces = detect_iter_map(point, domain, TRUE, IterMapLevel.BIJECTIVE, True).indices
    if not pieces:
        return False
    corners = [
        [d.min_value for d in box],
        [d.max_value for d in box],
        [const(0, n.dtype) for n in buffer.shape],
        [max_(n - 1, 0) for n in buffer.shape],
    ]
    linearizer = analyzer.linearizer
    low, high, first, last = (
        inverse_affine_iter_map(pieces, corner, linearizer) for corner in corners
    )
    places = [Var(f"axis{k}", n.dtype) for k, n in enumerate(buffer.shape)]
    solved = inverse_affine_iter_map(pieces, places, linearizer)
    for var in domain:
        if var not in low:
            only = IntervalSet.point(ranges[var].min)
            domains[var].widen(only, only, analyzer)
            continue
        wanted = _interval_between(low[var], high[var], analyzer)
        exists = _interval_between(first[var], last[var], analyzer)
        if any(type(node) is FloorMod for node in walk(solved[var])):
            # A remainder can be larger inside a range than at both of its ends.
            whole = {
                v: IntervalSet.from_range(Range(n))
                for v, n in zip(places, buffer.shape, strict=True)
            }
            needed = dict(zip(places, box, strict=True))
            wanted = _prefer_found(wanted, eval_set(solved[var], needed, analyzer), analyzer)
            exists = _prefer_found(exists, eval_set(solved[var], whole, analyzer), analyzer)
        domains[var].widen(wanted, exists, analyzer)
    return True


def _point(
    regions: list[BufferRegion], box: Box, ranges: Mapping[Var, Range]
) -> tuple[list[PrimExpr], dict[Var, Range]] | None:
    """Return the single element that an instance accesses, and the axes in its indices."""
    point = [r.min for r in regions[0].region]
    single = len(regions) == 1 and all(is_const_int(r.extent, 1) for r in regions[0].region)
    if not single or not all(d.is_bounded for d in box):
        return None
    used = {v for index in point for v in collect_vars(index)}
    return point, {var: r for var, r in ranges.items() if var in used}


def _prefer_found(found: IntervalSet, safe: IntervalSet, analyzer: Analyzer) -> IntervalSet:
    """Return `found` if it provably includes `safe`, else `safe`."""
    return found if safe.is_bounded and _is_within(safe, found, analyzer) else safe


def _are_axes(point: Sequence[PrimExpr], domain: Mapping[Var, Range]) -> bool:
    """Return True if the indices are distinct axes that start at 0."""
    return len(set(point)) == len(point) and all(
        isinstance(index, Var) and index in domain and is_const_int(domain[index].min, 0)
        for index in point
    )


def _interval_between(a: PrimExpr, b: PrimExpr, analyzer: Analyzer) -> IntervalSet:
    return IntervalSet(analyzer.simplify(min_(a, b)), analyzer.simplify(max_(a, b)))


def _solve_by_dimension(
    regions: list[BufferRegion],
    box: Box,
    buffer: Buffer,
    domains: Mapping[Var, AxisDomain],
    analyzer: Analyzer,
) -> None:
    for region in regions:
        for dim, have in enumerate(region.region):
            if not any(v in domains for v in collect_vars(have.min)):
                continue
            need = box[dim]
            last = analyzer.simplify(buffer.shape[dim] - 1)
            exists = IntervalSet(const(0, last.dtype), last)
            var, dom, bound = _solve(have.min, have.extent, need, exists, domains, analyzer)
            domains[var].widen(dom, bound, analyzer)
            if not analyzer.can_prove(have.extent <= _step(have.min)):
                domains[var].overlaps = True


def _step(index: PrimExpr) -> int:
    """Return the coefficient of the axis in an index, 1 if it is not constant."""
    if isinstance(index, Mul) and isinstance(index.b, IntImm):
        return index.b.value * _step(index.a)
    return 1


def _solve(
    index: PrimExpr,
    extent: PrimExpr,
    need: IntervalSet,
    exists: IntervalSet,
    domains: Mapping[Var, AxisDomain],
    analyzer: Analyzer,
) -> tuple[Var, IntervalSet, IntervalSet]:
    """Return the axis in an index, its needed values, and its allowed values."""
    if isinstance(index, Var):
        return index, need, exists
    if isinstance(index, Mul) and isinstance(index.b, IntImm):
        inner = _divide(need, index.b, analyzer), _divide(exists, index.b, analyzer)
        return _solve(index.a, extent, *inner, domains, analyzer)
    if isinstance(index, FloorDiv) and isinstance(index.b, IntImm):
        inner = _multiply(need, index.b, analyzer), _multiply(exists, index.b, analyzer)
        return _solve(index.a, extent, *inner, domains, analyzer)
    if isinstance(index, FloorMod):
        whole = IntervalSet.everything()
        return _solve(index.a, extent, whole, whole, domains, analyzer)
    raise IRValueError(f"the values of an axis cannot be found from the index `{index}`")


def _divide(values: IntervalSet, divisor: PrimExpr, analyzer: Analyzer) -> IntervalSet:
    if not values.is_bounded:
        return values
    return IntervalSet(
        analyzer.simplify(floordiv(values.min_value, divisor)),
        analyzer.simplify(floordiv(values.max_value, divisor)),
    )


def _multiply(values: IntervalSet, factor: PrimExpr, analyzer: Analyzer) -> IntervalSet:
    if not values.is_bounded:
        return values
    return IntervalSet(
        analyzer.simplify(values.min_value * factor),
        analyzer.simplify(values.max_value * factor + (factor - 1)),
    )


def _combine_domain(domain: AxisDomain, values: Range, analyzer: Analyzer) -> AxisDomain:
    """Combine needed and existing values into a range and, if necessary, a limit."""
    whole = IntervalSet.from_range(values)
    assert domain.bound is not None
    bound = whole if domain.bound.is_nothing else domain.bound.intersect(whole, analyzer)
    if bound.is_nothing:  # the axis or the buffer is empty, so no instance exists
        domain.dom, domain.bound = whole, None
        return domain
    dom = domain.dom
    if dom.is_nothing or not dom.is_bounded:
        domain.dom, domain.bound = bound, None
        return domain
    if _is_within(dom, bound, analyzer):
        domain.bound = None
    elif _is_within(bound, dom, analyzer):
        domain.dom, domain.bound = bound, None
    else:
        both = dom.intersect(bound, analyzer)
        constant = isinstance(both.min_value, IntImm) and isinstance(both.max_value, IntImm)
        if constant:
            domain.dom, domain.bound = both, None
        elif domain.overlaps:
            raise IRValueError(
                f"the needed instances may lie outside of the domain {whole.min_value} to "
                f"{whole.max_value}, and each instance provides more than one step"
            )
        else:
            domain.bound = bound
    return domain


def _is_within(inner: IntervalSet, outer: IntervalSet, analyzer: Analyzer) -> bool:
    return analyzer.can_prove(outer.min_value <= inner.min_value) and analyzer.can_prove(
        inner.max_value <= outer.max_value
    )
