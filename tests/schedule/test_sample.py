"""Sampling numbers: sample_categorical, sample_perfect_tile."""

from __future__ import annotations

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule import Schedule, Trace
from schedule.decisions.tiles import PerfectTileDomain
from schedule.random_state import RandomState
from tensorir import parse
from tests.schedule.programs import SYMBOLIC, VECTOR


def vector(extent, seed=None):
    return Schedule(parse(VECTOR.replace("128", str(extent))), seed=seed, debug_mask="all")


def tile(sch, n, max_innermost_factor=16, decision=None):
    (loop,) = sch.get_loops(sch.get_block("B"))
    factors = sch.sample_perfect_tile(loop, n, max_innermost_factor, decision=decision)
    return [sch.get(factor) for factor in factors]


def category(sch, candidates, probs, decision=None):
    return sch.get(sch.sample_categorical(candidates, probs, decision=decision))


# --------------------------------------------------------------------------------- published numbers


@pytest.mark.parametrize(
    ("seed", "numbers"),
    [
        (42, [2027382, 1226992407, 551494037, 961371815]),
        (1, [48271, 182605794, 1291394886]),
    ],
)
def test_the_engine(seed, numbers):
    rng = RandomState(seed)
    assert [rng.next() for _ in numbers] == numbers


def test_a_forked_seed():
    rng = RandomState(42)
    assert rng.fork() == 431226885
    assert rng.state == 2027382
    assert vector(8, seed=42).fork_seed() == 431226885


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_forks_of_one_stream_begin_independently(seed):
    rng = RandomState(seed)
    drawn = np.array([RandomState(rng.fork()).uniform_int(0, 10_000) for _ in range(10_000)])
    counts, _ = np.histogram(drawn, bins=16, range=(0, 10_000))
    chi_squared = np.sum((counts - 625.0) ** 2) / 625.0
    assert chi_squared < 37.7  # exceeded in one of a thousand samples, with 15 degrees of freedom
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]) < 0.035  # 3.5 deviations


@pytest.mark.parametrize(
    ("extent", "n", "limit", "tiles"),
    [
        (128, 2, 16, [[16, 8], [8, 16], [32, 4], [128, 1], [32, 4], [32, 4]]),
        (128, 4, 64, [[1, 8, 2, 8], [16, 2, 4, 1], [4, 8, 1, 4], [4, 8, 1, 4]]),
        (1470, 4, 16, [[98, 5, 3, 1], [35, 7, 6, 1], [21, 2, 7, 5]]),
    ],
)
def test_tiles_of_seed_42(extent, n, limit, tiles):
    sch = vector(extent, seed=42)
    assert [tile(sch, n, limit) for _ in tiles] == tiles


def test_categories_of_seed_42():
    sch = vector(8, seed=42)
    drawn = [category(sch, [0, 1, 2, 3], [0.25] * 4) for _ in range(10)]
    assert drawn == [2, 1, 3, 2, 0, 2, 0, 1, 3, 2]


@pytest.mark.parametrize(
    ("extent", "decision", "repaired"),
    [
        (96, [4, 5, 8], [1, 12, 8]),
        (96, [3, 4, 8], [3, 4, 8]),
        (96, [9, 9, 9], [1, 1, 96]),
        (96, [1, 1], [96, 1]),
        (96, [8, 16], [6, 16]),
        (7, [4, 32], [1, 7]),
        (96, [5], [96]),
        (96, [96, 0], [1, 96]),
        (96, [1, -3, 4], [1, 24, 4]),
    ],
)
def test_decisions_that_do_not_fit_are_repaired_from_the_inside_out(extent, decision, repaired):
    assert PerfectTileDomain(extent, len(decision)).repair(decision) == tuple(repaired)
    sch = vector(extent)
    assert tile(sch, len(decision), decision=decision) == repaired
    assert sch.trace.as_json()[1] == [[2, repaired]]


# ------------------------------------------------------------------------------ sample_perfect_tile


@given(st.integers(1, 400), st.integers(2, 5), st.sampled_from([-1, 1, 2, 16]), st.integers(1, 99))
def test_tiles_multiply_to_the_extent(extent, n, limit, seed):
    drawn = tile(vector(extent, seed=seed), n, limit)
    assert len(drawn) == n
    assert math.prod(drawn) == extent
    assert limit == -1 or drawn[-1] <= limit


def test_every_factorisation_comes_up_equally_often():
    sch = vector(12, seed=3)
    (loop,) = sch.get_loops(sch.get_block("B"))
    count = collections.Counter(
        tuple(sch.get(f) for f in sch.sample_perfect_tile(loop, 2, -1)) for _ in range(600)
    )
    assert set(count) == {(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)}
    assert all(60 < times < 140 for times in count.values())


@given(
    st.integers(1, 200), st.lists(st.integers(-2, 50), min_size=1, max_size=4), st.integers(1, 9)
)
def test_repaired_tiles_multiply_to_the_extent(extent, decision, n):
    repaired = tile(vector(extent), n, decision=decision)
    assert len(repaired) == len(decision)
    assert math.prod(repaired) == extent
    assert PerfectTileDomain(extent, len(repaired)).repair(repaired) == tuple(repaired)


def test_the_limit_does_not_hold_for_decisions():
    assert tile(vector(128), 2, 16, decision=[2, 64]) == [2, 64]


def test_without_a_choice_nothing_is_drawn():
    sch = vector(1, seed=42)
    assert tile(sch, 3) == [1, 1, 1]
    assert tile(sch, 1, -1) == [1]
    assert tile(sch, 1) == [1]
    assert sch.fork_seed() == 431226885
    sch = vector(128, seed=42)
    assert tile(sch, 1, -1) == [128]
    assert tile(sch, 2, decision=[8, 16]) == [8, 16]
    assert sch.fork_seed() == 431226885


def test_a_large_prime_goes_to_one_side():
    sch = vector(65537, seed=1)
    drawn = {tuple(tile(sch, 2, -1)) for _ in range(20)}
    assert drawn == {(65537, 1), (1, 65537)}


@pytest.mark.parametrize(
    ("extent", "n", "limit", "decision", "words"),
    [
        (128, 0, -1, None, "at least 1 part"),
        (128, -2, 16, None, "at least 1 part"),
        (128, 2, 16, [], "at least 1 part"),
        (128, 1, 16, None, "needs at least 2 parts"),
        (0, 2, 16, None, "extent 0"),
    ],
)
def test_tiles_that_cannot_be(extent, n, limit, decision, words):
    sch = vector(128)
    if extent == 0:
        sch = Schedule(parse(VECTOR.replace("range(128)", "range(0)")))
    with pytest.raises(ValueError, match=words):
        tile(sch, n, limit, decision)
    assert len(sch.trace.insts) == 2


@pytest.mark.parametrize(("n", "decision"), [(0, None), (2, [])])
def test_an_unknown_extent_needs_a_part_too(n, decision):
    with pytest.raises(ValueError, match="at least 1 part"):
        tile(Schedule(parse(SYMBOLIC)), n, 16, decision)


# ------------------------------------------------------------------------------- sample_categorical


def test_candidates_come_up_in_proportion_to_their_weights():
    sch = vector(8, seed=7)
    candidates, weights = [1, 2, 3, 4], [4, 2, 0, 2]
    count = collections.Counter(category(sch, candidates, weights) for _ in range(800))
    assert count[3] == 0
    assert 350 < count[1] < 450
    assert 150 < count[2] < 250
    assert 150 < count[4] < 250


def test_weights_become_probabilities_with_a_word(caplog):
    weights = [0.17, 0.17, 0.17, 0.17, 0.17, 0.17]
    sch = Schedule(parse(VECTOR))
    for _ in range(3):
        sch.sample_categorical([1, 2, 3, 4, 5, 6], weights)
    (record,) = caplog.records
    assert "has the sum 1.02, not 1" in record.getMessage()
    again = Schedule(parse(VECTOR))
    Trace.from_json(sch.trace.as_json()).apply_to_schedule(again, remove_postproc=False)
    assert again.trace.as_json() == sch.trace.as_json()


@pytest.mark.parametrize("weights", [[0.25] * 4, [1 / 6] * 6, [float(np.float32(1 / 3))] * 3])
def test_rounded_probabilities_need_no_word(weights, caplog):
    Schedule(parse(VECTOR)).sample_categorical(list(range(len(weights))), weights)
    assert not caplog.records


def test_one_candidate_is_not_drawn():
    sch = vector(8, seed=42)
    assert category(sch, [5], [1.0]) == 5
    assert sch.fork_seed() == 431226885


@pytest.mark.parametrize(
    ("candidates", "probs", "decision", "words"),
    [
        ([1, 2], [1.0], None, "has 2 candidates but there are 1 prob"),
        ([], [], None, "0 candidates"),
        ([1, 2], [0.5, 0.5], 2, r"`decision` is 2; it must be an index in \[0, 2\)"),
        ([1, 2], [0.5, 0.5], -1, "`decision` is -1; it must be an index"),
    ],
)
def test_choices_that_cannot_be(candidates, probs, decision, words):
    sch = vector(8)
    with pytest.raises(ValueError, match=words):
        sch.sample_categorical(candidates, probs, decision=decision)
    assert sch.trace.insts == []


# ------------------------------------------------------------------------------------ trace, replay


def test_a_seed_gives_the_same_decisions_again():
    first, second = vector(1470, seed=5), vector(1470, seed=5)
    for _ in range(4):
        assert tile(first, 3) == tile(second, 3)
    first.seed(9)
    second.seed(9)
    assert tile(first, 3) == tile(second, 3)


def test_a_copy_draws_from_a_stream_of_its_own():
    sch = vector(1470, seed=5)
    twin = sch.copy()
    ours, theirs = ([tile(s, 3) for _ in range(6)] for s in (sch, twin))
    assert ours != theirs
    assert len(set(map(tuple, itertools.chain(ours, theirs)))) > 6
