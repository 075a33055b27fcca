"""Detecting independent pieces of iterators."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import X, Y, Z, evaluate, points

from tensorir import Range, Var
from tensorir.arith import (
    IterMapLevel,
    IterSumExpr,
    detect_iter_map,
    normalize_iter_map_to_expr,
    normalize_to_iter_sum,
)
from tensorir.arith.linear import ZERO
from tensorir.arith.size import size_expr
from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import INT32
from tensorir.nodes.ops import TRUE, as_expr, const, max_

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
