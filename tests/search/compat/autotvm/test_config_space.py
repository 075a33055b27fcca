"""The configurations of a space: their number, their order, and filters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule.random_state import RandomState
from search import autotvm
from search.compat.autotvm import ConfigSpace, KnobError, SpaceIndexError, SplitSpace
from tests.search.compat.autotvm import templates


def two_tiles(**options):
    space = ConfigSpace()
    space.define_split("x", 128, num_outputs=2, **options)
    space.define_split("y", 128, num_outputs=2)
    return space


def tile_product(values):
    return values["x"].size[-1] * values["y"].size[-1]


def splits(length, parts, policy="factors", **options):
    return [e.size for e in SplitSpace(length, policy, num_outputs=parts, **options)]


@pytest.mark.parametrize(
    ("length", "parts", "policy", "count"),
    [
        (128, 2, "factors", 8),
        (512, 2, "factors", 10),
        (256, 3, "factors", 45),
        (256, 3, "power2", 45),
        (256, 3, "verbose", 45),
        (224, 3, "factors", 63),
        (224, 3, "power2", 36),
        (224, 3, "verbose", 84),
        (1 << 25, 4, "factors", 3276),
        (12, 3, "factors", 18),
        (7, 1, "factors", 1),
    ],
)
def test_number_of_splits(length, parts, policy, count):
    assert len(SplitSpace(length, policy, num_outputs=parts)) == count


def test_no_tail():
    assert [size for _, size in splits(12, 2, "power2", no_tail=True)] == [1, 2, 4]


def test_limits_and_filters_of_one_split():
    assert splits(128, 2, max_factor=8) == [[-1, 1], [-1, 2], [-1, 4], [-1, 8]]
    assert splits(128, 2, filter=lambda e: e.size[-1] in (4, 64)) == [[-1, 4], [-1, 64]]
    listed = [[16, 64], [32, 32], [64, 16]]
    assert splits(1024, 2, "candidate", candidate=listed) == listed


def test_filter_over_two_knobs():
    space = two_tiles()
    space.multi_filter(lambda values: 32 <= tile_product(values) < 1024)
    assert (len(space), space.range_length) == (34, 64)
    assert not space.is_index_valid(0)
    assert space.is_index_valid(15)
    assert space.get_next_index(0) == 5
    assert space.get_next_index(0, 2) == space.get_next_index(5) == 6
    assert space.get_next_index(63, -1) == 58
    assert space.get_next_index(63) is None
    assert space.subrange_length(0, 32) == 17
    assert space.subrange_length(16, 32) == 10
    with pytest.raises(SpaceIndexError, match=r"filter of the space rejects configuration 0"):
        space.get(0)
    space.multi_filter(lambda values: 8 <= tile_product(values) < 1024)
    assert len(space) == 43


@pytest.mark.parametrize("filter_first", [True, False])
def test_filters_of_one_knob_and_of_two(filter_first):
    space = ConfigSpace()
    if filter_first:
        space.multi_filter(lambda values: 32 <= tile_product(values) < 1024)
    space.define_split("x", 128, num_outputs=2, filter=lambda e: e.size[-1] < 64)
    space.define_split("y", 128, num_outputs=2)
    if not filter_first:
        assert (len(space), space.range_length) == (48, 48)
        space.multi_filter(lambda values: 32 <= tile_product(values) < 1024)
    assert (len(space), space.range_length) == (27, 48)


def test_a_space_of_all_kinds_has_the_published_index():
    """The example line of the log: dims 9, 8, 6, 20, 4 and knobs 5, 4, 1, 5, 3."""
    task = autotvm.task.create(templates.DEMO, (256, 384, 128, "float32"), "llvm")
    space = task.config_space
    assert space.dims == [9, 8, 6, 20, 4]
    assert space.point2knob(28193) == [5, 4, 1, 5, 3]
    assert space.get(28193).to_json_dict() == {
        "index": 28193,
        "code_hash": None,
        "entity": [
            ["tile_y", "sp", [-1, 32]],
            ["tile_x", "sp", [-1, 16]],
            ["order", "re", [0, 2, 1]],
            ["ann", "an", ["none", "unroll", "vec"]],
            ["unroll_k", "ot", 8],
        ],
    }
    assert task.flop == 25165824


def huge():
    space = ConfigSpace()
    for k in range(3):
        space.define_split(f"tile_{k}", 1 << 16, num_outputs=4)
    space.define_reorder("order", [0, 1, 2, 3, 4, 5], "all")
    return space


def test_a_filter_of_a_large_space_is_counted_by_a_sample():
    space = huge()
    space.multi_filter(lambda values: values["tile_0"].size[-1] <= 2)
    assert not space.length_is_exact
    share = sum(e.size[-1] <= 2 for e in space.space_map["tile_0"]) / 969
    assert len(space) / space.range_length == pytest.approx(share, rel=0.2)
    assert str(space).startswith("ConfigSpace (len=about ")
    drawn = space.get(*space.sample_ints(1, rng=RandomState(1)))
    assert drawn["tile_0"].size[-1] <= 2
    following = space.get_next_index(space.range_length // 2)
    assert space.is_index_valid(following)


def test_random_choices_end():
    space = two_tiles()
    rng = RandomState(7)
    assert sorted(space.sample_ints(64, rng=rng)) == list(range(64))
    assert sorted(space.random_order(rng, 8, 12)) == [8, 9, 10, 11]
    with pytest.raises(SpaceIndexError, match=r"has 64 configurations, fewer than 65"):
        space.sample_ints(65, rng=rng)
    space.multi_filter(lambda values: tile_product(values) == 1 << 14)
    assert space.sample_ints(1, rng=rng) == [63]


def test_indices_that_do_not_exist():
    space = two_tiles()
    for index in (-1, 64, 10**12):
        assert not space.is_index_valid(index)
        with pytest.raises(IndexError, match=r"configuration -?[0-9]+ does not exist"):
            space.get(index)
    with pytest.raises(SpaceIndexError, match=r"\[0, 65\) is not within \[0, 64\)"):
        space.subrange_length(0, 65)


def test_of_equal_candidates_the_first_has_the_index():
    space = ConfigSpace()
    space.define_knob("x", [1, 1, True, None])
    assert [space.index_of(space.get(k).entity_map) for k in range(4)] == [0, 0, 2, 3]


def test_filters_that_fail_are_named():
    with pytest.raises(
        KnobError, match=r"'x' .* filter of sizes raises AttributeError for \[-1, 1"
    ):
        two_tiles(filter=lambda e: e.sizes[-1] > 2)
    space = two_tiles()
    space.multi_filter(lambda values: values["z"].size[-1] > 2)
    with pytest.raises(KnobError, match=r"filter over several knobs raises KeyError for .*: 'z'"):
        space.get(3)


def test_a_knob_without_values_is_named():
    with pytest.raises(KnobError, match=r"the knob 'x' .* its filter rejects all candidates"):
        two_tiles(filter=lambda e: e.size[-1] > 128)
    with pytest.raises(KnobError, match=r"the knob 'x' .* candidates is empty"):
        ConfigSpace().define_knob("x", [])


@given(st.integers(1, 300), st.integers(1, 4), st.sampled_from(["factors", "power2", "verbose"]))
def test_splits_are_those_of_the_plain_loops(length, parts, policy):
    """Compare with the definition: nested loops over all factors, then a test of the product."""
    divisors = [d for d in range(1, length + 1) if length % d == 0]
    powers = [1 << k for k in range(length.bit_length())]
    factors = {"factors": divisors, "power2": powers, "verbose": sorted({*divisors, *powers})}
    wanted = [[-1]]
    for _ in range(parts - 1):
        wanted = [[-1, f, *size[1:]] for size in wanted for f in factors[policy]]

    def fits(size):
        product = 1
        for factor in size[1:]:
            product *= factor
        return product <= length and (length % product == 0 or policy != "factors")

    assert splits(length, parts, policy) == [size for size in wanted if fits(size)]
