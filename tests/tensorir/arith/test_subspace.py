"""Dividing indices between an outer and an inner part of a loop nest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import X, Y, Z, evaluate, points

from tensorir import Range, Var
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    normalize_iter_map_to_expr,
    subspace_divide,
)
from tensorir.arith.size import size_expr
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT32
from tensorir.nodes.ops import TRUE, as_expr, const
from tensorir.rewriting.visit import collect_vars

F, N = Var("f"), Var("n")
NAMES = {"x": X, "y": Y, "z": Z, "f": F}


def divided(indices, domain, inner, predicate=TRUE, **options):
    """Divide, and write each index as (outer, extent, inner, extent, base)."""
    ranges = {NAMES[name]: Range(as_expr(n)) for name, n in domain.items()}
    analyzer = Analyzer()
    found = subspace_divide(indices, ranges, [NAMES[name] for name in inner], predicate, **options)
    if found is None:
        return None
    return [
        (
            str(normalize_iter_map_to_expr(part.outer)),
            str(size_expr(part.outer_extent, INT32)),
            str(normalize_iter_map_to_expr(part.inner)),
            str(size_expr(part.inner_extent, INT32)),
            str(analyzer.linearizer.write(part.base, INT32)),
        )
        for part in found.parts
    ]


@pytest.mark.parametrize(
    ("indices", "domain", "inner", "expected"),
    [
        ([X * 4 + Y], {"x": 3, "y": 4}, "y", [("x", "3", "y", "4", "0")]),
        ([X * 4 + Y], {"x": 3, "y": 4}, "xy", [("0", "1", "x * 4 + y", "12", "0")]),
        ([X * 4 + Y], {"x": 3, "y": 4}, "", [("x * 4 + y", "12", "0", "1", "0")]),
        ([X, Y], {"x": 3, "y": 4}, "y", [("x", "3", "0", "1", "0"), ("0", "1", "y", "4", "0")]),
        ([X * 4 + Y + 2], {"x": 3, "y": 4}, "y", [("x", "3", "y", "4", "2")]),
        ([const(7)], {"x": 3}, "x", [("0", "1", "0", "1", "7")]),
        (
            [X * 12 + Y * 4 + Z],
            {"x": 2, "y": 3, "z": 4},
            "yz",
            [("x", "2", "y * 4 + z", "12", "0")],
        ),
        (
            [X * 12 + Y * 4 + Z],
            {"x": 2, "y": 3, "z": 4},
            "z",
            [("x * 3 + y", "6", "z", "4", "0")],
        ),
        # A fused loop around: its pieces are outer, whatever they are added to.
        (
            [F // 4, F % 4 * 2 + Y],
            {"f": 16, "y": 2},
            "y",
            [("f // 4", "4", "0", "1", "0"), ("f % 4", "4", "y", "2", "0")],
        ),
        # A fused sum that is split again: one boundary is where the inner loops end.
        (
            [(X * 4 + Y) // 2, (X * 4 + Y) % 2],
            {"x": 3, "y": 4},
            "y",
            [("x", "3", "y // 2", "2", "0"), ("0", "1", "y % 2", "2", "0")],
        ),
        (
            [(X * 4 + Y) // 8, (X * 4 + Y) % 8],
            {"x": 4, "y": 4},
            "y",
            [("x // 2", "2", "0", "1", "0"), ("x % 2", "2", "y", "4", "0")],
        ),
        ([X * 4 + Y], {"x": N, "y": 4}, "y", [("x", "n", "y", "4", "0")]),
        ([X * N + Y], {"x": 3, "y": N}, "y", [("x", "3", "y", "n", "0")]),
    ],
)
def test_divided(indices, domain, inner, expected):
    assert divided(indices, domain, inner) == expected


@pytest.mark.parametrize(
    ("indices", "domain", "inner"),
    [
        # Inner loops around outer ones, and in between.
        ([X * 4 + Y], {"x": 3, "y": 4}, "x"),
        ([X * 12 + Y * 4 + Z], {"x": 2, "y": 3, "z": 4}, "xz"),
        ([X * 12 + Y * 4 + Z], {"x": 2, "y": 3, "z": 4}, "y"),
        # No boundary of a split where the inner loops end.
        ([(X * 4 + Y) // 3, (X * 4 + Y) % 3], {"x": 3, "y": 4}, "y"),
        ([(X * 6 + Y) // 4], {"x": 4, "y": 6}, "y"),
        # Values that are met twice, left out, or not apart from each other.
        ([X + Y], {"x": 3, "y": 4}, "y"),
        ([X * 8 + Y], {"x": 3, "y": 4}, "y"),
        ([X, X], {"x": 3, "y": 4}, "y"),
        ([X * Y], {"x": 3, "y": 4}, "y"),
        ([X * 3 + Y], {"x": 3, "y": 4}, "y"),
    ],
)
def test_not_divided(indices, domain, inner):
    assert divided(indices, domain, inner) is None


# --------------------------------------------------------------------------------------- predicates


@pytest.mark.parametrize(
    ("indices", "inner", "predicate", "outer_part", "inner_part"),
    [
        ([X * 4 + Y, Z], "z", X * 4 + Y < 10, "x * 4 + y < 10", "T.bool(True)"),
        ([X * 4 + Y, Z], "xy", X * 4 + Y < 10, "T.bool(True)", "x * 4 + y < 10"),
        ([X * 4 + Y, Z], "z", e.And(X * 4 + Y < 10, Z < 3), "x * 4 + y < 10", "z < 3"),
        (
            [X * 4 + Y, Z],
            "z",
            e.And(e.And(X < 2, Z < 3), Y < 4),
            "x < 2 and y < 4",
            "z < 3",
        ),
        ([X, Z], "z", N < 3, "n < 3", "T.bool(True)"),
    ],
)
def test_each_condition_goes_to_one_part(indices, inner, predicate, outer_part, inner_part):
    domain = {X: Range(3), Y: Range(4), Z: Range(5)}
    found = subspace_divide(indices, domain, [NAMES[name] for name in inner], predicate)
    assert found is not None
    assert (str(found.outer_predicate), str(found.inner_predicate)) == (outer_part, inner_part)


@pytest.mark.parametrize("predicate", [X * 4 + Y < 10, e.And(X < 2, X < Y), e.Or(X < 1, Y < 1)])
def test_a_condition_on_both_parts(predicate):
    assert divided([X * 4 + Y], {"x": 3, "y": 4}, "y", predicate) is None


def test_a_sum_under_a_condition_is_of_one_part():
    predicate = X * 4 + Y < 10
    assert divided([X * 4 + Y, Z], {"x": 3, "y": 4, "z": 5}, "z", predicate) == [
        ("x * 4 + y", "10", "0", "1", "0"),
        ("0", "1", "z", "5", "0"),
    ]


@pytest.mark.parametrize(
    ("index", "domain", "inner", "predicate", "expected"),
    [
        (
            Z * 12 + Y * 3 + X,
            {"x": 3, "y": 4, "z": 5},
            "x",
            Z * 4 + Y < 18,
            ("z * 4 + y", "18", "x", "3", "0"),
        ),
        (
            Z * 10 + Y * 4 + X,
            {"x": 4, "y": 3, "z": 5},
            "yx",
            Y * 4 + X < 10,
            ("z", "5", "y * 4 + x", "10", "0"),
        ),
        (
            (Z * 10 + Y * 4 + X) // 5,
            {"x": 4, "y": 3, "z": 5},
            "yx",
            Y * 4 + X < 10,
            ("z", "5", "(y * 4 + x) // 5", "2", "0"),
        ),
    ],
)
def test_terms_that_a_condition_limits_together_are_of_one_part(
    index, domain, inner, predicate, expected
):
    assert divided([index], domain, inner, predicate) == [expected]


def test_terms_of_both_parts_that_a_condition_limits_together_are_not_divided():
    index, predicate = Z * 10 + Y * 4 + X, Y * 4 + X < 10
    assert divided([index], {"x": 4, "y": 3, "z": 5}, "x", predicate) is None
    limited = Y * 4 + X >= 2
    assert divided([index], {"x": 4, "y": 3, "z": 5}, "yx", limited) is None


# ----------------------------------------------------------------------------------------- property

_EXTENTS = st.sampled_from([1, 2, 3, 4, 6, 8])
_FREE = st.recursive(
    st.sampled_from([X, Y, Z]),
    lambda inner: st.one_of(
        st.builds(lambda a, s, b: a * s + b, inner, st.sampled_from([1, 2, 3, 4, 6, 8]), inner),
        st.builds(lambda a, d: a // d, inner, st.sampled_from([2, 3, 4])),
        st.builds(lambda a, d: a % d, inner, st.sampled_from([2, 3, 4])),
    ),
    max_leaves=4,
)


@st.composite
def _problems(draw):
    """Bindings over x, y, z: a nest that is fused and split again, or anything at all."""
    sizes = {var: draw(_EXTENTS) for var in (X, Y, Z)}
    starts = {var: draw(st.sampled_from([0, 0, 0, 2])) for var in (X, Y, Z)}
    if draw(st.booleans()):
        order = draw(st.permutations([X, Y, Z]))
        fused = as_expr(draw(st.integers(0, 3)))
        scale = 1
        for var in reversed(order):
            fused = var * scale + fused
            scale *= sizes[var]
        cut = draw(st.sampled_from([1, *(d for d in (2, 3, 4, 6, 8) if scale % d == 0)]))
        bindings = [fused] if cut == 1 else [fused // cut, fused % cut]
        inner = order[draw(st.integers(0, 3)) :]
    else:
        bindings = draw(st.lists(_FREE, min_size=1, max_size=2))
        inner = draw(st.lists(st.sampled_from([X, Y, Z]), unique=True))
    conditions = [TRUE]
    if draw(st.booleans()):
        first, second = draw(st.permutations([X, Y, Z]))[:2]
        total = first * sizes[second] + second
        conditions.append(total < draw(st.integers(1, sizes[first] * sizes[second])))
    for var in draw(st.lists(st.sampled_from([X, Y, Z]), max_size=2)):
        conditions.append(var < draw(st.integers(1, 6)))
    if draw(st.booleans()):
        conditions.append(X * sizes[Y] + Y < draw(st.integers(1, 20)))
    predicate = TRUE
    for condition in conditions[1:]:
        predicate = condition if predicate is TRUE else e.And(predicate, condition)
    return bindings, starts, sizes, inner, predicate


@settings(max_examples=150)
@given(
    _problems(),
    st.sampled_from([IterMapLevel.BIJECTIVE, IterMapLevel.SURJECTIVE]),
    st.booleans(),
)
def test_parts_add_up(problem, level, simplify_trivial):
    bindings, starts, sizes, inner, predicate = problem
    domain = {v: Range.from_min_extent(const(starts[v]), const(n)) for v, n in sizes.items()}
    found = subspace_divide(
        bindings, domain, inner, predicate, level, simplify_trivial_iterators=simplify_trivial
    )
    if found is None:
        return
    outside = [var for var in sizes if var not in inner]
    analyzer = Analyzer()
    assert not any(var in inner for var in collect_vars(found.outer_predicate))
    assert not any(var in outside for var in collect_vars(found.inner_predicate))
    parts = []
    for binding, part in zip(bindings, found.parts, strict=True):
        outer, below = (normalize_iter_map_to_expr(s) for s in (part.outer, part.inner))
        assert not any(var in inner for var in collect_vars(outer))
        assert not any(var in outside for var in collect_vars(below))
        parts.append((binding, part, outer, below, analyzer.linearizer.write(part.base, INT32)))
    for point in points({v: range(starts[v], starts[v] + n) for v, n in sizes.items()}):
        holds = bool(evaluate(predicate, point))
        both = (found.outer_predicate, found.inner_predicate)
        assert holds == all(evaluate(side, point) for side in both)
        if not holds:
            continue
        for binding, part, outer, below, base in parts:
            high, low = evaluate(outer, point), evaluate(below, point)
            assert 0 <= low < part.inner_extent
            assert 0 <= high < part.outer_extent
            value = high * part.inner_extent + low + evaluate(base, point)
            assert value == evaluate(binding, point)


def test_the_property_is_not_empty():
    """The nests that are fused and split again are divided where a boundary allows it."""
    domain = {X: Range(4), Y: Range(3), Z: Range(2)}
    fused = X * 6 + Y * 2 + Z
    for inner, cut in (([Z], 2), ([Z], 6), ([Y, Z], 6), ([Y, Z], 2), ([X, Y, Z], 4)):
        assert subspace_divide([fused // cut, fused % cut], domain, inner) is not None
