"""The short cut for plain sums gives what the general detection gives."""

from hypothesis import given
from hypothesis import strategies as st

from tensorir import structural_equal
from tensorir.arith import Analyzer, IterMapLevel, detect_iter_map
from tensorir.arith.iter_map import normalize_iter_map_to_expr
from tensorir.arith.mixed_radix import mixed_radix, written
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import TRUE, const

EXTENTS = st.lists(st.sampled_from([1, 1, 2, 3, 4, 8]), min_size=1, max_size=5)


@given(EXTENTS, st.randoms(use_true_random=False), st.booleans())
def test_short_cut_and_general_way_agree(extents, random, keep_unit) -> None:
    domain: dict[Var, Range] = {}
    terms: list[PrimExpr] = []
    scale = 1
    for k, extent in reversed(list(enumerate(extents))):
        var = Var(f"i{k}")
        domain[var] = Range.from_min_extent(const(0), const(extent))
        terms.append(var * scale)
        scale *= extent
    random.shuffle(terms)
    index = terms[0]
    for term in terms[1:]:
        index = index + term
    plain = mixed_radix([index], domain, keep_unit)
    general = detect_iter_map(
        [index], domain, TRUE, IterMapLevel.SURJECTIVE, simplify_trivial_iterators=not keep_unit
    )
    assert plain is not None
    assert general.indices
    expected = normalize_iter_map_to_expr(general.indices[0], index.dtype, Analyzer())
    got = written(plain[0], index.dtype)
    assert structural_equal(got, expected, map_free_vars=False), f"{got} is not {expected}"


def test_what_is_not_plain_is_left_to_the_general_way() -> None:
    i, j = Var("i"), Var("j")
    domain = {v: Range.from_min_extent(const(0), const(4)) for v in (i, j)}
    assert mixed_radix([i * 4 + j], domain, keep_unit=True) is not None
    for index in (i * 8 + j, i * 2 + j, i * 4 + j + 1, i // 2, i * 4 + i, i * -4 + j):
        assert mixed_radix([index], domain, keep_unit=True) is None, f"{index}"
    assert mixed_radix([i, i], domain, keep_unit=True) is None, "used twice"
