"""Iterator maps of plain sums, and those that are remembered instead of detected again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorir import structural_equal
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    detect_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
)
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import TRUE, const

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
