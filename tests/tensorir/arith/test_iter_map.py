"""Detecting independent pieces of iterators."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import X, Y, Z, evaluate, points

from tensorir import Range, Var
from tensorir.arith import IterMapLevel, detect_iter_map, normalize_iter_map_to_expr
from tensorir.nodes import expr as e
from tensorir.nodes.ops import TRUE, const

BIJECTIVE, SURJECTIVE = IterMapLevel.BIJECTIVE, IterMapLevel.SURJECTIVE
F = Var("f")


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
