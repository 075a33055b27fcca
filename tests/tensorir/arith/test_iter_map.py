"""Iteration maps: indices as sums of split iterators."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from iteration_maps import IterationMap, box, iteration_maps
from strategies import X, Y, Z, evaluate, points

from tensorir import Range, Var, structural_equal
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    IterSumExpr,
    detect_iter_map,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
)
from tensorir.arith.linear import ZERO
from tensorir.arith.size import size_expr
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT32
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import TRUE, all_of, as_expr, const, max_

# -------------------------------------------------------- Detecting independent pieces of iterators

BIJECTIVE, SURJECTIVE = IterMapLevel.BIJECTIVE, IterMapLevel.SURJECTIVE
F, N, M = Var("f"), Var("n"), Var("m")


def ranges(**extents):
    return {{"x": X, "y": Y, "z": Z, "f": F}[name]: Range(n) for name, n in extents.items()}


def extents(result):
    return [s.args[0].extent if s.args else 1 for s in result.indices]


@pytest.mark.parametrize(
    ("index", "domain", "predicate", "extent", "base"),
    [
        (X * 10 + Y, {"x": 13, "y": 10}, X * 10 + Y < 128, 128, 0),
        (
            X * 10 + Y,
            {"x": 13, "y": 10},
            e.And(X * 10 + Y >= 6, X * 10 + Y <= 127),
            122,
            6,
        ),
        (
            X * 8 + Y * 2 + Z,
            {"x": 11, "y": 5, "z": 2},
            e.And(Y * 2 + Z >= 1, Y * 2 + Z < 9),
            88,
            1,
        ),
        (X * 4 + Y, {"x": 3, "y": 4}, TRUE, 12, 0),
        (X * 7 + Y, {"x": 3, "y": 8}, TRUE, 22, 0),
        (X // 15, {"x": 26}, TRUE, 2, 0),
    ],
)
def test_one_index(index, domain, predicate, extent, base):
    result = detect_iter_map([index], ranges(**domain), predicate)
    assert extents(result) == [extent]
    assert result.indices[0].base.const == base


@pytest.mark.parametrize(
    ("indices", "domain", "level"),
    [
        ([X, X], {"x": 4}, SURJECTIVE),
        ([X * 4 + Y], {"x": 3, "y": 3}, SURJECTIVE),
        ([X * 7 + Y], {"x": 3, "y": 8}, BIJECTIVE),
        ([X * 5 + Y * 2], {"x": 3, "y": 3}, SURJECTIVE),
        ([X % 16], {"x": 3}, SURJECTIVE),
        ([X * Y], {"x": 3, "y": 3}, SURJECTIVE),
    ],
)
def test_refused(indices, domain, level):
    result = detect_iter_map(indices, ranges(**domain), TRUE, level)
    assert not result.indices
    assert result.errors


@pytest.mark.parametrize(
    ("indices", "domain", "extents_and_bases"),
    [
        # The offset is divisible: no padding.
        ([(X + 96) // 16, (X + 96) % 16], {"x": 80}, [(5, 6), (16, 0)]),
        # On the left.
        ([(X + 5) // 4], {"x": 19}, [(5, 1)]),
        ([(X + 5) % 4], {"x": 19}, [(4, 0)]),
        ([(X + 6) // 3 % 4, (X + 6) % 3], {"x": 19}, [(4, 0), (3, 0)]),
        # On the right.
        ([X // 15], {"x": 26}, [(2, 0)]),
        ([X // 3 % 5, X % 3], {"x": 26}, [(5, 0), (3, 0)]),
        ([X // 4 % 8, X % 4], {"x": 45}, [(8, 0), (4, 0)]),
        ([(X * 12 + Y * 4) // 8, (X * 12 + Y * 4) % 8], {"x": 6, "y": 3}, [(9, 0), (2, 0)]),
        # On both sides.
        ([(X + 71) // 32], {"x": 45}, [(2, 2)]),
        ([(X * 5 + Y + 3) // 4], {"x": 7, "y": 5}, [(10, 0)]),
        # By what is not known: 3 * N is added in front.
        ([(N * 12 + X) // 8], {"x": 100}, None),
        ([(N * 12 + X) % 8], {"x": 100}, [(8, 0)]),
        ([(N * 12 + X) // 8 % 5], {"x": 100}, [(5, 0)]),
        # Digits of one padded number, which all occur.
        ([(X + 10) % 3, (X + 10) // 3 % 4, (X + 10) // 12 % 5], {"x": 70}, [(3, 0), (4, 0), (5, 0)]),
        (
            [(X + 1) % 3, ((X + 10) // 3 + 2) % 4, ((X + 10) // 12 + 3) % 5],
            {"x": 70},
            [(3, 0), (4, 0), (5, 0)],
        ),
    ],
)  # fmt: skip
def test_padded(indices, domain, extents_and_bases):
    result = detect_iter_map(indices, ranges(**domain))
    assert len(result.indices) == len(indices), result.errors
    if extents_and_bases is not None:
        bases = [i.base.const for i in result.indices]
        assert list(zip(extents(result), bases, strict=True)) == extents_and_bases
    assert (
        not detect_iter_map(indices, ranges(**domain), check_level="bijective").indices
        or len(domain) + len(extents_and_bases or []) > 3
        or domain == {"x": 80}
    )


@pytest.mark.parametrize(
    ("indices", "extent"),
    [
        ([(X + 5) // 4, (X + 5) % 4], 19),  # the first quotient lacks remainders
        ([(X + 5) // 8, (X + 5) // 2], 19),  # they overlap
        ([(X * 6) // 5], 19),  # multiples of 6 leave values out
        ([(X + 10) % 3, (X + 10) // 3 % 4, (X + 10) // 12 % 5], 59),  # 60 are needed
        ([(X + 10) % 3, (X + 10) // 3 % 4, (X + 10) // 12 % 5, (X + 10) // 60], 240),
        ([X % 16], 3),
        ([(X + 2) % 5 % 3, (X + 2) // 3 % 3], 10),  # a remainder of a remainder repeats otherwise
    ],
)
def test_padding_that_leaves_values_out_is_refused(indices, extent):
    assert not detect_iter_map(indices, ranges(x=extent)).indices


def test_a_level_has_a_name():
    assert detect_iter_map([X, Y], ranges(x=3, y=4), True, "bijective").indices
    assert detect_iter_map([X], ranges(x=3, y=4), check_level="NoCheck").indices
    with pytest.raises(IRValueError, match="unknown level 'bijection'; expected one of bijective"):
        detect_iter_map([X], ranges(x=3), check_level="bijection")


def sum_of(index, **domain):
    """Return the terms of a normalized index, each as its iterator and its scale, and the base."""
    found = normalize_to_iter_sum(
        index, {NAMED[name]: Range(as_expr(n)) for name, n in domain.items()}
    )
    terms = [
        (
            str(normalize_iter_map_to_expr(IterSumExpr((s.scaled(1),), ZERO))),
            str(size_expr(s.scale, INT32)),
        )
        for s in found.args
    ]
    return terms, str(normalize_iter_map_to_expr(IterSumExpr((), found.base)))


NAMED = {"x": X, "y": Y, "z": Z}


@pytest.mark.parametrize(
    ("index", "domain", "terms", "base"),
    [
        (Z + (Y + X * 4 + 2) * N + 3, {"x": 9, "y": 4, "z": 3}, [("x", "n * 4"), ("y", "n"), ("z", "1")], "n * 2 + 3"),
        (max_(Z, M) + X * N, {"x": 9, "z": 3}, [("x", "n")], "T.max(z, m)"),
        (Z + (Y * 4 * M + X * 4) * N, {"y": M * N, "x": N, "z": M}, [("y", "m * n * 4"), ("x", "n * 4"), ("z", "1")], "0"),
        (Z - Y * 3 + X // 2 * 4, {"x": 9, "y": 3, "z": 2}, [("x // 2", "4"), ("y", "-3"), ("z", "1")], "0"),
        (X // 4 * 4 + Z * 2 + X % 4, {"x": 16, "z": 3}, [("z", "2"), ("x", "1")], "0"),
        (X // 5, {"x": 4096}, [("x // 5", "1")], "0"),
        (X * Y + Z, {"x": 4, "y": 3, "z": 2}, [("z", "1")], "x * y"),
        (X - X, {"x": 4}, [], "0"),
    ],
)  # fmt: skip
def test_an_index_as_a_sum_of_scaled_iterators(index, domain, terms, base):
    assert sum_of(index, **domain) == (terms, base)


def test_a_quotient_that_does_not_divide_its_iterator_is_rounded_up():
    (split,) = normalize_to_iter_sum(X // 5, ranges(x=4096)).args
    assert (split.lower_factor, split.extent, split.scale) == (5, 820, 1)


def test_fused_loop_comes_apart():
    indices = [F // 16384, F % 16384 // 128, F % 128]
    result = detect_iter_map(indices, ranges(f=128**3), TRUE, BIJECTIVE)
    shown = [str(normalize_iter_map_to_expr(s)) for s in result.indices]
    assert shown == ["f // 16384", "f % 16384 // 128", "f % 128"]


def test_unit_iterators_stay_if_wanted():
    domain = ranges(x=2, y=1, z=64)
    kept = detect_iter_map([X * 64 + Y * 64 + Z], domain, TRUE, SURJECTIVE, False)
    left_out = detect_iter_map([X * 64 + Y * 64 + Z], domain, TRUE, SURJECTIVE, True)
    assert str(normalize_iter_map_to_expr(kept.indices[0])) == "x * 64 + y * 64 + z"
    assert str(normalize_iter_map_to_expr(left_out.indices[0])) == "x * 64 + z"


_PIECES = st.recursive(
    st.sampled_from([X, Y, Z]),
    lambda inner: st.one_of(
        st.builds(lambda a, s, b: a * s + b, inner, st.sampled_from([1, 2, 3, 4, 6, 8]), inner),
        st.builds(lambda a, d: a // d, inner, st.sampled_from([2, 3, 4, 8])),
        st.builds(lambda a, d: a % d, inner, st.sampled_from([2, 3, 4, 8])),
    ),
    max_leaves=4,
)


@given(
    st.lists(_PIECES, min_size=1, max_size=2),
    st.fixed_dictionaries({v: st.sampled_from([1, 2, 3, 4, 6, 8]) for v in (X, Y, Z)}),
    st.one_of(
        st.none(),
        st.builds(
            lambda s, n: e.LT(X * s + Y, const(n)), st.sampled_from([2, 4]), st.integers(1, 20)
        ),
    ),
    st.sampled_from([BIJECTIVE, SURJECTIVE]),
    st.booleans(),
)
def test_found_maps_are_what_they_claim(indices, sizes, predicate, level, simplify_trivial):
    domain = {v: Range(size) for v, size in sizes.items()}
    condition = TRUE if predicate is None else predicate
    result = detect_iter_map(indices, domain, condition, level, simplify_trivial)
    if not result.indices:
        return
    valid = [p for p in points({v: range(s) for v, s in sizes.items()}) if evaluate(condition, p)]
    values = [tuple(evaluate(i, p) for i in indices) for p in valid]
    rebuilt = [normalize_iter_map_to_expr(s) for s in result.indices]
    assert values == [tuple(evaluate(i, p) for i in rebuilt) for p in valid]
    axes = []
    for found in result.indices:
        base = found.base.const
        split = found.args[0] if found.args else None
        axes.append([base + split.scale * k for k in range(split.extent)] if split else [base])
    assert set(values) == set(itertools.product(*axes))
    if level is BIJECTIVE:
        assert len(values) == len(set(values))


# ------------- Iterator maps of plain sums, and those that are remembered instead of detected again

EXTENTS = st.lists(st.sampled_from([1, 1, 2, 3, 4, 8]), min_size=1, max_size=5)


def written(index, domain, keep_unit, analyzer):
    found = detect_iter_map(
        [index], domain, TRUE, IterMapLevel.SURJECTIVE, not keep_unit, analyzer
    ).indices
    return normalize_iter_map_to_expr(found[0], index.dtype)


@given(EXTENTS, st.randoms(use_true_random=False), st.booleans())
def test_what_is_remembered_of_a_simplified_sum_is_what_is_detected(extents, random, keep_unit):
    domain: dict[Var, Range] = {}
    terms: list[tuple[PrimExpr, int, int]] = []
    scale = 1
    for k, extent in reversed(list(enumerate(extents))):
        var = Var(f"i{k}")
        domain[var] = Range.from_min_extent(const(0), const(extent))
        terms.append((var * scale, -scale, extent))
        scale *= extent
    in_order = [t for t, _, n in sorted(terms, key=lambda t: (t[1], -t[2])) if keep_unit or n > 1]
    random.shuffle(terms)
    index = sum((term for term, _, _ in terms[1:]), terms[0][0])
    (simple,) = iter_map_simplify([index], domain, simplify_trivial_iterators=not keep_unit)
    remembered = written(simple, domain, keep_unit, None)
    detected = written(simple, domain, keep_unit, Analyzer())
    for got in (remembered, detected):
        assert structural_equal(got, simple, map_free_vars=False), f"{got} is not {simple}"
    if sum(n == 1 for n in extents) < 2:
        expected = sum(in_order[1:], in_order[0]) if in_order else const(0)
        assert structural_equal(simple, expected, map_free_vars=False), f"{simple}"


@pytest.mark.parametrize("change", ["extent", "condition", "level", "units"])
def test_a_map_is_remembered_for_the_question_alone(change):
    i, j = Var("i"), Var("j")
    domain = {i: Range(0, 3), j: Range(0, 1)}
    assert detect_iter_map([i, j], domain).indices
    if change == "extent":
        found = detect_iter_map([i, j], {**domain, i: Range(0, 5)})
        assert found.indices[0].args[0].extent == 5
    elif change == "condition":
        found = detect_iter_map([i, j], domain, i < 2)
        assert found.indices[0].args[0].extent == 2
    elif change == "level":
        assert detect_iter_map([i], {**domain, j: Range(0, 2)}).indices
        assert not detect_iter_map(
            [i], {**domain, j: Range(0, 2)}, TRUE, IterMapLevel.BIJECTIVE
        ).indices
    else:
        found = detect_iter_map([i, j], domain, simplify_trivial_iterators=False)
        assert found.indices[1].args


def test_errors_of_a_remembered_map_belong_to_who_asked():
    i = Var("i")
    for _ in range(2):
        found = detect_iter_map([i * i], {i: Range(0, 4)})
        assert len(found.errors) == 1
        found.errors.clear()


# --------------- What is said of random affine maps is what running them over their iterators shows

ITER_BIJECTIVE, ITER_SURJECTIVE = IterMapLevel.BIJECTIVE, IterMapLevel.SURJECTIVE
INJECTIVE, NO_CHECK = IterMapLevel.INJECTIVE, IterMapLevel.NO_CHECK
ITER_N = X * 16 + Y
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
    if level in (ITER_BIJECTIVE, ITER_SURJECTIVE):
        assert set(values) == box(axes)
    if level in (ITER_BIJECTIVE, INJECTIVE):
        assert len(set(values)) == len(values)


@pytest.mark.parametrize(
    ("index", "predicate", "base", "extent"),
    [
        # The remainder is of a number that another inequality bounds.
        (ITER_N // 23 * 8 + ITER_N % 23 - 15, [ITER_N < 184, ITER_N % 23 >= 15], 0, 64),
        (ITER_N // 23 * 8 + ITER_N % 23 - 15, [ITER_N % 23 >= 15, ITER_N < 184], 0, 64),
        (ITER_N // 23, [ITER_N < 184], 0, 8),
        (ITER_N // 4 % 2, [ITER_N < 184, ITER_N % 4 < 3], None, None),
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
    limits = all_of([ITER_N < 184, ITER_N % 4 < 3])
    assert not detect_iter_map([Y], {X: Range(12), Y: Range(16)}, limits).indices
    assert detect_iter_map([Z], {X: Range(12), Y: Range(16), Z: Range(4)}, limits).indices


def test_a_predicate_in_which_iterators_cancel_is_refused_unless_it_holds():
    domain = {X: Range(12), Y: Range(16)}
    cancelled = ITER_N % 23 - ITER_N % 23
    assert detect_iter_map([X], domain, cancelled < 1).indices
    assert not detect_iter_map([X], domain, cancelled > 0).indices


@given(iteration_maps(), st.sampled_from([ITER_BIJECTIVE, INJECTIVE]), st.booleans())
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
    result = detect_iter_map([X + Y], domain, X + Y >= 4, ITER_BIJECTIVE, False)
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


def test_a_map_that_joins_points_has_no_inverse():
    with pytest.raises(IRValueError, match="may map two points to one place"):
        IndexMap([Z], [Z % 4]).non_surjective_inverse([Range(16)])


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
