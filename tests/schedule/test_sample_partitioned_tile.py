"""Sampling tiles whose inner part is a multiple of something."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule import Schedule
from schedule.decisions.tiles import PartitionedTileDomain
from tensorir import parse

TEXT = """\
@T.prim_func
def main(A: T.Buffer((96,)), B: T.Buffer((96,))):
    for i in range(96):
        with T.block("B"):
            vi = T.axis.spatial(96, i)
            B[vi] = A[vi]
"""


def sample(sch, n, position, factor, decision=None):
    (loop,) = sch.get_loops(sch.get_block("B"))
    tile = sch.sample_partitioned_tile(loop, n, position, factor, decision=decision)
    return [sch.get(part) for part in tile]


@pytest.mark.parametrize(("n", "position", "factor"), [(4, 2, 8), (2, 1, 96), (3, 0, 4), (1, 0, 1)])
def test_inner_part_is_a_multiple(n, position, factor):
    for seed in range(1, 20):
        tile = sample(Schedule(parse(TEXT), seed=seed), n, position, factor)
        assert len(tile) == n
        assert math.prod(tile) == 96
        assert math.prod(tile[position:]) % factor == 0


def test_without_a_factor_it_is_the_unlimited_perfect_tile():
    for seed in range(1, 6):
        first, second = (Schedule(parse(TEXT), seed=seed) for _ in range(2))
        (loop,) = second.get_loops(second.get_block("B"))
        plain = [second.get(p) for p in second.sample_perfect_tile(loop, 3, -1)]
        assert sample(first, 3, 0, 1) == plain


def test_decisions_are_kept_or_repaired():
    assert sample(Schedule(parse(TEXT)), 3, 1, 8, [12, 2, 4]) == [12, 2, 4]
    assert sample(Schedule(parse(TEXT)), 3, 1, 8, [5, 2, 4]) == [12, 2, 4]
    assert sample(Schedule(parse(TEXT)), 3, 1, 8, [48, 2, 1]) == [12, 8, 1]


@given(
    decision=st.lists(st.integers(1, 12), min_size=2, max_size=4),
    factor=st.sampled_from([1, 2, 3, 4, 8, 12]),
    scale=st.integers(1, 12),
)
def test_repaired_decisions_fit(decision, factor, scale):
    extent = factor * scale
    tile = PartitionedTileDomain(extent, len(decision), 1, factor).repair(decision)
    assert math.prod(tile) == extent
    assert math.prod(tile[1:]) % factor == 0


def test_extents_that_cannot_be_tiled():
    assert sample(Schedule(parse(TEXT)), 3, 1, 7) == [-1, 1, 1]
    symbolic = TEXT.replace(
        "A: T.Buffer((96,)), B: T.Buffer((96,))", "a: T.handle, b: T.handle, n: T.int32"
    )
    symbolic = symbolic.replace(
        "    for", "    A = T.match_buffer(a, (n,))\n    B = T.match_buffer(b, (n,))\n    for"
    )
    assert sample(Schedule(parse(symbolic.replace("96", "n"))), 2, 1, 4) == [-1, 1]


@pytest.mark.parametrize(
    ("n", "position", "factor"), [(2, 3, 1), (2, -1, 1), (2, 1, 0), (0, 0, 1), (2, 2, 4)]
)
def test_impossible_arguments(n, position, factor):
    sch = Schedule(parse(TEXT))
    with pytest.raises(ValueError, match=r"part|position"):
        sample(sch, n, position, factor)
    assert len(sch.trace.insts) == 2
