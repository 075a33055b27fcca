"""What is said of random affine maps is what running them over their iterators shows."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from iteration_maps import IterationMap, box, iteration_maps
from strategies import X, Y, Z, evaluate

from tensorir import Range, Var
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    detect_iter_map,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    normalize_iter_map_to_expr,
    subspace_divide,
)
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.ops import TRUE, all_of, const
from tensorir.rewriting.visit import collect_vars

BIJECTIVE, SURJECTIVE = IterMapLevel.BIJECTIVE, IterMapLevel.SURJECTIVE
INJECTIVE, NO_CHECK = IterMapLevel.INJECTIVE, IterMapLevel.NO_CHECK
N = X * 16 + Y
LEVELS = st.sampled_from(list(IterMapLevel))


def claimed(result):
    """Return the values that each index is said to take."""
    axes = []
    for value in result.indices:
        base = value.base.const
        assert not value.base.terms
        if value.args:
            (split,) = value.args
            axes.append([base + split.scale * k for k in range(split.extent)])
        else:
            axes.append([base])
    return axes


@given(iteration_maps(), LEVELS, st.booleans())
def test_detected_pieces(case: IterationMap, level, simplify_trivial):
    result = detect_iter_map(case.indices, case.domain, case.predicate, level, simplify_trivial)
    values = case.values()
    if not result.indices or not values:
        return
    assert case.values([normalize_iter_map_to_expr(i) for i in result.indices]) == values
    axes = claimed(result)
    assert set(values) <= box(axes)
    if level in (BIJECTIVE, SURJECTIVE):
        assert set(values) == box(axes)
    if level in (BIJECTIVE, INJECTIVE):
        assert len(set(values)) == len(values)


@pytest.mark.parametrize(
    ("index", "predicate", "base", "extent"),
    [
        # The remainder is of a number that another inequality bounds.
        (N // 23 * 8 + N % 23 - 15, [N < 184, N % 23 >= 15], 0, 64),
        (N // 23 * 8 + N % 23 - 15, [N % 23 >= 15, N < 184], 0, 64),
        (N // 23, [N < 184], 0, 8),
        (N // 4 % 2, [N < 184, N % 4 < 3], None, None),
    ],
)
def test_inequalities_on_pieces_of_a_limited_sum(index, predicate, base, extent):
    domain = {X: Range(12), Y: Range(16)}
    result = detect_iter_map([index], domain, all_of(predicate))
    if base is None:
        assert "no index has together" in result.errors[0]
    else:
        assert claimed(result) == [list(range(base, base + extent))]


def test_an_inequality_that_no_index_contains_is_refused():
    """What `(x * 16 + y) % 4 < 3` leaves of y is no range."""
    limits = all_of([N < 184, N % 4 < 3])
    assert not detect_iter_map([Y], {X: Range(12), Y: Range(16)}, limits).indices
    assert detect_iter_map([Z], {X: Range(12), Y: Range(16), Z: Range(4)}, limits).indices


def test_a_predicate_in_which_iterators_cancel_is_refused_unless_it_holds():
    domain = {X: Range(12), Y: Range(16)}
    cancelled = N % 23 - N % 23
    assert detect_iter_map([X], domain, cancelled < 1).indices
    assert not detect_iter_map([X], domain, cancelled > 0).indices


@given(iteration_maps(), st.sampled_from([BIJECTIVE, INJECTIVE]), st.booleans())
def test_inverse_leads_back(case: IterationMap, level, simplify_trivial):
    result = detect_iter_map(case.indices, case.domain, case.predicate, level, simplify_trivial)
    if not result.indices:
        return
    places = [Var(f"axis{k}") for k in range(len(case.indices))]
    try:
        inverse = inverse_affine_iter_map(result.indices, places, Analyzer().linearizer)
    except IRValueError:
        return  # An index that counts in steps.
    for point, value in zip(case.points(), case.values(), strict=True):
        there = dict(zip(places, value, strict=True))
        assert {v: evaluate(back, there) for v, back in inverse.items()} == {
            v: point[v] for v in inverse
        }
    fixed = [v for v in case.spans if v not in inverse]
    assert len(set(case.values(fixed))) <= 1


def test_a_unit_iterator_beside_a_limited_one_stays_at_its_value():
    domain = {X: Range(6), Y: Range(1)}
    result = detect_iter_map([X + Y], domain, X + Y >= 4, BIJECTIVE, False)
    inverse = inverse_affine_iter_map(result.indices, [Z], Analyzer().linearizer)
    assert {v: evaluate(back, {Z: 5}) for v, back in inverse.items()} == {X: 5, Y: 0}


@given(iteration_maps())
def test_padding_is_where_nothing_is_mapped(case: IterationMap):
    mapping = IndexMap(list(case.spans), case.indices)
    ranges = list(case.domain.values())
    try:
        inverse, padding = mapping.non_surjective_inverse(ranges)
    except IRValueError:
        return
    case = IterationMap(case.spans, case.indices, TRUE)
    mapped = mapping.map_ranges(ranges)
    axes = [range(r.min.value, r.min.value + r.extent.value) for r in mapped]
    assume(len(box(axes)) < 3000)
    image = dict(zip(case.values(), case.points(), strict=True))
    for place in box(axes):
        there = dict(zip(inverse.initial_indices, place, strict=True))
        assert bool(evaluate(padding, there)) == (place not in image)
        if place in image:
            back = [evaluate(i, there) for i in inverse.final_indices]
            assert back == list(image[place].values())


def test_padding_on_both_sides():
    mapping = IndexMap([Z], [Z // 8, Z % 8])
    inverse, padding = mapping.non_surjective_inverse([Range.from_min_extent(const(3), const(8))])
    assert str(inverse) == "lambda axis0, axis1: (axis0 * 8 + axis1,)"
    assert str(padding) == "11 <= axis0 * 8 + axis1 or axis0 * 8 + axis1 < 3"


def test_each_padded_iterator_has_a_condition_of_its_own():
    mapping = IndexMap([X, Y], [X // 4, (Y + 5) // 8, X % 4, (Y + 5) % 8])
    inverse, padding = mapping.non_surjective_inverse([14, 31])
    assert [str(part) for part in inverse.final_indices] == [
        "axis0 * 4 + axis2",
        "axis1 * 8 + axis3 - 5",
    ]
    assert str(padding) == (
        "36 <= axis1 * 8 + axis3 or axis1 * 8 + axis3 < 5 or 14 <= axis0 * 4 + axis2"
    )


def test_a_map_that_joins_points_has_no_inverse():
    with pytest.raises(IRValueError, match="may map two points to one place"):
        IndexMap([Z], [Z % 4]).non_surjective_inverse([Range(16)])


@given(iteration_maps(), st.data(), LEVELS, st.booleans())
def test_divided_indices(case: IterationMap, data, level, simplify_trivial):
    inside = [v for v in case.spans if data.draw(st.booleans(), v.name)]
    division = subspace_divide(
        case.indices,
        case.domain,
        inside,
        case.predicate,
        level,
        simplify_trivial_iterators=simplify_trivial,
    )
    if division is None or not case.points():
        return
    outer = [normalize_iter_map_to_expr(part.outer) for part in division.parts]
    inner = [normalize_iter_map_to_expr(part.inner) for part in division.parts]
    assert not any(v in inside for part in outer for v in collect_vars(part))
    assert all(v in inside for part in inner for v in collect_vars(part))
    joined = [
        o * part.inner_extent + i + part.base.const
        for o, i, part in zip(outer, inner, division.parts, strict=True)
    ]
    assert case.values(joined) == case.values()
    above = box([range(part.outer_extent) for part in division.parts])
    below = box([range(part.inner_extent) for part in division.parts])
    found = set(zip(case.values(outer), case.values(inner), strict=True))
    assert {o for o, _ in found} <= above
    assert {i for _, i in found} <= below
    if level in (BIJECTIVE, SURJECTIVE):
        assert len(found) == len(above) * len(below)


@given(iteration_maps(), st.data())
def test_regions_lie_between_their_estimates(case: IterationMap, data):
    """The lower bound is within what is covered, and that within the upper bound.

    Some of the iterators stay symbols, which hold still while the others move.
    """
    extents = st.sampled_from([1, 1, 2, 4, 8])
    region = [Range.from_min_extent(i, const(data.draw(extents))) for i in case.indices]
    fixed = [v for v in case.spans if data.draw(st.integers(0, 3)) == 0]
    moving = {v: r for v, r in case.domain.items() if v not in fixed}
    analyzer = Analyzer()
    for var in fixed:
        analyzer.bind(var, case.domain[var])
    upper = estimate_region_upper_bound(region, moving, case.predicate, analyzer)
    strict = estimate_region_strict_bound(region, moving, case.predicate, analyzer)
    lower = estimate_region_lower_bound(region, moving, case.predicate, analyzer)
    covered: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for point in case.points():
        still = tuple(point[v] for v in fixed)
        starts = [evaluate(r.min, point) for r in region]
        spans = [range(a, a + r.extent.value) for a, r in zip(starts, region, strict=True)]
        covered.setdefault(still, set()).update(box(spans))
    for still, truth in covered.items():
        known = dict(zip(fixed, still, strict=True))
        assert all(
            (i.min_value is None or evaluate(i.min_value, known) <= place)
            and (i.max_value is None or place <= evaluate(i.max_value, known))
            for point in truth
            for i, place in zip(upper, point, strict=True)
        )
        if strict is not None:
            assert _box(strict, known) == truth
        if lower is not None:
            assert _box(lower, known) <= truth


def test_an_upper_bound_does_not_mention_the_loops():
    """The range of Y depends on X: `for x in range(4): for y in range(x, 8)`."""
    domain = {Y: Range.from_min_extent(X, 8 - X), X: Range(4)}
    (found,) = estimate_region_upper_bound([Range.from_min_extent(Y * 2, const(2))], domain)
    assert (str(found.min_value), str(found.max_value)) == ("0", "15")


def _box(sets, known):
    return box(
        [range(evaluate(s.min_value, known), evaluate(s.max_value, known) + 1) for s in sets]
    )
