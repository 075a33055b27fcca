"""Detecting independent pieces of iterators whose extents are known only when a program runs."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import X, Y, Z, evaluate, points

from tensorir import Range, Var
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    detect_iter_map,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
)
from tensorir.arith.polynomial import least_values
from tensorir.arith.size import Size, at_most, size_expr
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT32
from tensorir.nodes.ops import TRUE, as_expr, cast, const, floordiv, floormod, min_

BIJECTIVE, SURJECTIVE = IterMapLevel.BIJECTIVE, IterMapLevel.SURJECTIVE
F, N, M, K = Var("f"), Var("n"), Var("m"), Var("k")
NAMES = {"x": X, "y": Y, "z": Z, "f": F}
TILES = (N + 15) // 16


def ranges(**extents):
    return {NAMES[name]: Range(as_expr(n)) for name, n in extents.items()}


def shown(size: Size) -> str:
    return str(size_expr(size, INT32))


def found(indices, domain, predicate=TRUE, level=SURJECTIVE):
    """Detect, and return each index as it is written, with the extent of its piece."""
    result = detect_iter_map(indices, ranges(**domain), predicate, level)
    assert not result.errors
    return [
        (str(normalize_iter_map_to_expr(s)), shown(s.args[0].extent) if s.args else "1")
        for s in result.indices
    ]


# ------------------------------------------------------------------------------- what is accepted


@pytest.mark.parametrize(
    ("indices", "domain", "expected"),
    [
        ([X, Y], {"x": N, "y": M}, [("x", "n"), ("y", "m")]),
        ([X * M + Y], {"x": N, "y": M}, [("x * m + y", "n * m")]),
        ([Y + X * M], {"x": N, "y": M}, [("x * m + y", "n * m")]),
        ([X * 8 + Y], {"x": N, "y": 8}, [("x * 8 + y", "n * 8")]),
        ([X * N + Y], {"x": 8, "y": N}, [("x * n + y", "n * 8")]),
        (
            [X * (M * K) + Y * K + Z],
            {"x": N, "y": M, "z": K},
            [("x * (m * k) + y * k + z", "n * m * k")],
        ),
        ([F // M, F % M], {"f": N * M}, [("f // m", "n"), ("f % m", "m")]),
        ([F // 8, F % 8], {"f": N * 8}, [("f // 8", "n"), ("f % 8", "8")]),
        ([F // N, F % N], {"f": N * 8}, [("f // n", "8"), ("f % n", "n")]),
        (
            [F // (M * K), F % (M * K) // K, F % K],
            {"f": N * M * K},
            [("f // (m * k)", "n"), ("f % (m * k) // k", "m"), ("f % k", "k")],
        ),
        (
            [(X * 16 + Y) // M, (X * 16 + Y) % M],
            {"x": M, "y": 16},
            [("(x * 16 + y) // m", "16"), ("(x * 16 + y) % m", "m")],
        ),
        ([X * (N + 1) + Y], {"x": M, "y": N + 1}, [("x * (n + 1) + y", "m * (n + 1)")]),
    ],
)
def test_bijective(indices, domain, expected):
    assert found(indices, domain, level=BIJECTIVE) == expected


def test_parts_may_be_unused_below_the_bijective_level():
    assert found([F % M], {"f": N * M}) == [("f % m", "m")]
    assert found([F // M], {"f": N * M}) == [("f // m", "n")]
    assert found([F // 16], {"f": N}) == [("f // 16", "(n + 15) // 16")]


def test_a_predicate_cuts_one_loop():
    assert found([X], {"x": N}, X < M) == [("x", "T.min(n, m)")]
    assert found([X], {"x": N * 2}, X < N) == [("x", "n")]
    assert found([X], {"x": N}, X >= 3) == [("x", "n - 3")]


def test_tiles_of_a_fused_loop_come_apart():
    index = X * 16 + Y
    got = found([index // M, index % M], {"x": (N * M + 15) // 16, "y": 16}, index < N * M)
    assert got == [("(x * 16 + y) // m", "n"), ("(x * 16 + y) % m", "m")]


def test_overlap():
    assert found([X * 8 + Y], {"x": N, "y": 10}) == [("x * 8 + y", "n * 8 + 2")]
    assert found([X * M + Y], {"x": N, "y": M * 2}) == [("x * m + y", "m * (n + 1)")]


# -------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("indices", "domain", "reason"),
    [
        ([X, X], {"x": N}, "overlap or leave a gap"),
        ([X * (K * 2) + Y], {"x": N, "y": K}, "leave gaps"),
        ([X * K], {"x": N}, "may not be positive"),
        ([X * M], {"x": N - M}, "may not be positive"),
        ([F % M], {"f": N}, "has a divisor that is not known"),
        ([F // 16, F % 16], {"f": N}, "do not make up"),
        ([X // K], {"x": N}, "has a divisor that is not known"),
        ([X + Y], {"x": X + 1, "y": N}, "depends on another"),
        ([X * Y], {"x": N, "y": N}, "multiplies iterators"),
    ],
)
def test_refused(indices, domain, reason):
    result = detect_iter_map(indices, ranges(**domain))
    assert not result.indices
    assert reason in result.errors[0]


def test_a_loop_that_may_be_longer_than_its_row_is_refused():
    result = detect_iter_map([X * M + Y], ranges(x=N, y=M + 1), TRUE, BIJECTIVE)
    assert not result.indices


# ----------------------------------------------------------------------------------------- casts

LONG = Var("long", "int64")


def test_a_narrowing_cast_is_looked_through_where_its_value_fits():
    domain = {LONG: Range(const(12 << 30, "int64"))}
    low = cast("int32", floormod(LONG, const(12, "int64")))
    high = cast("int32", floordiv(LONG, const(12, "int64")))
    (written,) = iter_map_simplify([low], domain)
    assert str(written) == 'T.Cast("int32", long % T.int64(12))'
    (written,) = iter_map_simplify([high], domain)
    assert str(written) == 'T.Cast("int32", long // T.int64(12))'


def test_a_cast_that_cuts_values_off_is_no_iterator():
    domain = {LONG: Range(const(12 << 30, "int64"))}
    index = floormod(cast("int32", LONG), 12)
    assert not detect_iter_map([index], domain).indices
    assert iter_map_simplify([index], domain) == (index,)


def test_a_symbolic_extent_fits_where_its_own_dtype_does():
    small, big = Var("s"), Var("b", "int64")
    wide = cast("int64", small)
    domain = {LONG: Range(wide * 12)}
    index = cast("int32", floordiv(LONG, const(12, "int64")))
    assert len(detect_iter_map([index], domain).indices) == 1
    assert not detect_iter_map([cast("int32", LONG)], {LONG: Range(big)}).indices


# ------------------------------------------------------------------- inverses, divisions, regions


def test_inverse():
    result = detect_iter_map([X * M + Y], ranges(x=N, y=M), TRUE, BIJECTIVE)
    solved = inverse_affine_iter_map(result.indices, [F], Analyzer().linearizer)
    assert {v.name: str(value) for v, value in solved.items()} == {"x": "f // m", "y": "f % m"}


@pytest.mark.parametrize(
    ("region", "domain", "low", "high"),
    [
        (Range.from_min_extent(X * 16 + Y, 1), {"x": N, "y": 16}, "0", "n * 16 - 1"),
        (Range.from_min_extent(X * 16, 16), {"x": N}, "0", "n * 16 - 1"),
        (Range.from_min_extent(F // M, 1), {"f": N * M}, "0", "n - 1"),
        (Range.from_min_extent(K - X, 1), {"x": N}, "k - n + 1", "k"),
        (Range.from_min_extent(X * M, M), {"x": N}, None, None),
        (Range.from_min_extent(X * M + Y, 1), {"x": N, "y": M}, "0", "n * m - 1"),
    ],
)
def test_regions(region, domain, low, high):
    box = estimate_region_strict_bound([region], ranges(**domain))
    if low is None:
        assert box is None
        return
    assert box is not None
    assert (str(box[0].min_value), str(box[0].max_value)) == (low, high)
    for estimate in (estimate_region_lower_bound, estimate_region_upper_bound):
        other = estimate([region], ranges(**domain))
        assert other is not None
        assert (str(other[0].min_value), str(other[0].max_value)) == (low, high)


def test_a_part_of_a_row_starts_from_the_remainder_of_its_offset():
    first = N * 4 + X
    indices = [first // 8, first % 8]
    assert found(indices, {"x": 4}, level=BIJECTIVE) == [("n // 2", "1"), ("x + n % 2 * 4", "4")]
    with pytest.raises(AssertionError):
        found(indices, {"x": 5})


def test_a_region_with_gaps_has_no_strict_bound():
    assert estimate_region_strict_bound([Range.from_min_extent(X * 16, 8)], ranges(x=N)) is None


# ------------------------------------------------------------------------------------- arithmetic


@pytest.mark.parametrize(
    ("condition", "surely"),
    [
        (TILES * 16 >= N, True),
        (TILES * 16 < N + 16, True),
        (TILES * 16 <= N, False),
        (N * 16 // 16 >= N, True),
        (N * M // M >= N, True),
    ],
)
def test_proofs(condition, surely):
    assert Analyzer().can_prove(condition) is surely


@pytest.mark.parametrize(
    ("condition", "surely"),
    [
        (F // (M * 4) < N, True),
        (F // (M * 4) >= 0, True),
        (F % (M * 4) // M < 4, True),
        (F % M < M, True),
        (F % M < M - 1, False),
        (F // M < N * 4, True),
        (F // M < N * 4 - 1, False),
    ],
)
def test_proofs_about_a_fused_loop(condition, surely):
    """The extent of a loop that runs is positive, and so are the factors that it is made of."""
    analyzer = Analyzer()
    analyzer.bind(F, Range(N * 4 * M))
    assert analyzer.can_prove(condition) is surely


@pytest.mark.parametrize(
    ("index", "simple"),
    [
        (F // M * M + F % M, "f"),
        (F % M, "f % m"),
        (F % (M * K) // K * K + F % K, "f % (m * k)"),
        ((F + N * M) % M, "f % m"),
        ((N * M + F) // M, "f // m + n"),
        (N * M // M, "n"),
        (F % (M * 16) // 16 * 3 + 5, "f % (m * 16) // 16 * 3 + 5"),
    ],
)
def test_remainders_of_symbols(index, simple):
    assert str(Analyzer().simplify(index)) == simple


def test_what_a_positive_extent_says_of_its_symbols():
    def least(extent):
        reader = Analyzer().linearizer
        found = least_values(reader(extent), reader.context.piece_bound)
        return {str(t.name): k for t, k in found if isinstance(t, Var)}

    assert least(N) == {"n": 1}
    assert least(N * 4 * M) == {"n": 1, "m": 1}
    assert least(N - 3) == {"n": 4}
    assert least(N + 3) == {"n": -2}
    assert least(TILES) == {"n": 1}
    assert least(TILES + 2) == {"n": -31}
    assert least(min_(N, M)) == {"n": 1, "m": 1}
    assert least(N * M + 1) == {}
    assert least(N + M) == {}


def test_order_of_sizes():
    result = detect_iter_map([X, Y], ranges(x=N * M, y=K))
    product, k = (s.args[0].extent for s in result.indices)
    assert at_most(1, product)
    assert at_most(1, k)
    assert at_most(k, product * k)
    assert not at_most(product, k)
    assert product - product == 0


# ------------------------------------------------------------------------------------- properties

_DIVISIONS = st.recursive(
    st.sampled_from([X, Y, N, M, as_expr(3)]),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, st.sampled_from([N, M, as_expr(2), N + 1])),
        st.builds(lambda a, d: a // d, inner, st.sampled_from([N, M, N * M, N * 4, N + M])),
        st.builds(lambda a, d: a % d, inner, st.sampled_from([N, M, N * M, N * 4, N + M])),
    ),
    max_leaves=6,
)


@given(_DIVISIONS)
def test_simplified_divisions_by_symbols_keep_their_value(expr):
    simple = Analyzer().simplify(expr)
    for point in points({X: range(-3, 14, 4), Y: range(5), N: range(1, 4), M: range(1, 4)}):
        assert evaluate(simple, point) == evaluate(expr, point)


@given(_DIVISIONS, _DIVISIONS)
def test_what_is_proven_holds(a, b):
    analyzer = Analyzer()
    analyzer.bind(X, Range(N * M))
    analyzer.bind(Y, Range(M))
    if analyzer.can_prove(a < b):
        for n, m in itertools.product(range(1, 4), repeat=2):
            for point in points({X: range(n * m), Y: range(m)}):
                known = {N: n, M: m, **point}
                assert evaluate(a, known) < evaluate(b, known)


_SIZES = st.sampled_from([N, M, N * 2, N * M, as_expr(2), as_expr(4), (N + 1) // 2])
_FACTORS = st.sampled_from([as_expr(2), as_expr(4), N, M, N * 2])
_PIECES = st.recursive(
    st.sampled_from([X, Y, Z]),
    lambda inner: st.one_of(
        st.builds(lambda a, s, b: a * s + b, inner, _FACTORS, inner),
        st.builds(lambda a, d: a // d, inner, _FACTORS),
        st.builds(lambda a, d: a % d, inner, _FACTORS),
    ),
    max_leaves=4,
)


@given(
    st.lists(_PIECES, min_size=1, max_size=2),
    st.fixed_dictionaries(dict.fromkeys((X, Y, Z), _SIZES)),
    st.one_of(
        st.none(), st.builds(lambda s, n: e.LT(X * s + Y, n), _FACTORS, st.sampled_from([N, M * 2]))
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
    rebuilt = [normalize_iter_map_to_expr(s) for s in result.indices]
    for n, m in ((1, 1), (2, 3), (3, 2), (4, 1), (1, 4)):
        known = {N: n, M: m}
        spans = {v: range(evaluate(size, known)) for v, size in sizes.items()}
        valid = [p | known for p in points(spans) if evaluate(condition, p | known)]
        values = [tuple(evaluate(i, p) for i in indices) for p in valid]
        assert values == [tuple(evaluate(i, p) for i in rebuilt) for p in valid]
        axes = [
            [offset + k * scale for k in range(extent)]
            for offset, extent, scale in (_steps(value, known) for value in result.indices)
        ]
        assert set(values) == set(itertools.product(*axes)) or not valid
        if level is BIJECTIVE:
            assert len(values) == len(set(values))


def _steps(value, known):
    """Return the base, the extent and the scale of a found index, for values of the symbols."""
    base = evaluate(Analyzer().linearizer.write(value.base, INT32), known)
    if not value.args:
        return base, 1, 1
    split = value.args[0]
    extent, scale = (evaluate(size_expr(s, INT32), known) for s in (split.extent, split.scale))
    return base, extent, scale
