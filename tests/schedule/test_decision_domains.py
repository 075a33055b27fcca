"""What holds for the alternatives of every sampling primitive."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedule import ChoiceDomain, DecisionDomain, InstructionKind, Schedule, ScheduleError
from schedule.decisions.domain import UnionDomain
from schedule.decisions.tiles import (
    InferredTileDomain,
    PartitionedTileDomain,
    PerfectTileDomain,
    count_factorizations,
    divisors,
    factorizations,
)
from schedule.primitives.sample import CategoricalDomain
from schedule.primitives.sample_compute_location import LocationDomain
from schedule.random_state import RandomState
from tensorir import parse
from tests.schedule.programs import NARROW_STAGES


@st.composite
def perfect_tiles(draw: st.DrawFn) -> DecisionDomain:
    n = draw(st.integers(1, 4))
    limit = -1 if n == 1 else draw(st.sampled_from([-1, 1, 2, 6, 16, 100]))
    return PerfectTileDomain(draw(st.integers(1, 120)), n, limit)


@st.composite
def partitioned_tiles(draw: st.DrawFn) -> DecisionDomain:
    factor, n = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    position = draw(st.integers(0, n if factor == 1 else n - 1))
    return PartitionedTileDomain(factor * draw(st.integers(1, 20)), n, position, factor)


@st.composite
def categories(draw: st.DrawFn) -> DecisionDomain:
    probs = draw(st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=1, max_size=5))
    probs[draw(st.integers(0, len(probs) - 1))] = 0.5
    return CategoricalDomain(tuple(range(len(probs))), tuple(probs))


choices = st.sets(st.integers(-5, 5), min_size=1).map(lambda v: ChoiceDomain(tuple(sorted(v))))
locations = st.sets(st.integers(0, 6)).map(lambda v: LocationDomain((-2, -1, *sorted(v))))
single = st.one_of(
    perfect_tiles(),
    partitioned_tiles(),
    categories(),
    choices,
    locations,
    st.integers(1, 4).map(InferredTileDomain),
)
domains = st.one_of(single, st.lists(perfect_tiles(), min_size=1, max_size=3).map(UnionDomain.of))


@given(domains)
def test_the_alternatives_are_as_many_as_the_size_says(domain):
    listed = list(domain)
    assert len(listed) == domain.size
    assert len(set(listed)) == len(listed)
    assert all(decision in domain for decision in listed)
    assert list(domain) == listed


@given(domains, st.integers(1, 1000))
def test_what_is_drawn_is_an_alternative(domain, seed):
    assert domain.size == 0 or domain.sample(RandomState(seed)) in domain


@given(domains, st.integers(0, 10**6), st.integers(1, 1000))
def test_steps_lead_to_other_alternatives_and_back(domain, place, seed):
    listed = list(domain)
    if not listed:
        return
    decision = listed[place % len(listed)]
    others = domain.neighbours(decision)
    assert len(set(others)) == len(others)
    assert all(other != decision and other in domain for other in others)
    assert all(decision in domain.neighbours(other) for other in others)
    step = domain.step(decision, RandomState(seed))
    assert step in others if others else step is None


@given(domains)
def test_alternatives_need_no_repair(domain):
    for decision in domain:
        assert domain.repair(decision) == decision
        assert domain.decide(RandomState(1), decision) == decision
        if isinstance(decision, tuple):
            assert domain.repair(list(decision)) == decision


@given(domains.filter(lambda domain: domain.size > 0), st.integers(1, 1000))
def test_drawing_is_deciding_without_a_decision(domain, seed):
    drawn, decided = RandomState(seed), RandomState(seed)
    assert domain.sample(drawn) == domain.decide(decided, None)
    assert drawn.state == decided.state


@given(
    st.integers(1, 120), st.lists(st.integers(-2, 40), min_size=1, max_size=4), st.integers(1, 6)
)
def test_repaired_tiles_fit(scale, decision, factor):
    perfect = PerfectTileDomain(scale, len(decision))
    assert perfect.repair(decision) in perfect
    partitioned = PartitionedTileDomain(scale * factor, len(decision), 0, factor)
    assert partitioned.repair(decision) in partitioned


@given(st.lists(st.integers(-1, 6), min_size=1, unique=True), st.integers(-5, 9))
def test_repaired_locations_are_possible(places, decision):
    domain = LocationDomain(tuple(sorted({-1, *places})))
    assert domain.repair(decision) in domain


def test_locations_print_in_runs():
    assert str(LocationDomain((-2, -1))) == "inline, root"
    assert str(LocationDomain((-1, 4))) == "root, loop 4"
    assert str(LocationDomain((-1, 0, 1, 2, 4, 5, 7))) == "root, loops 0 to 2, 4, 5, 7"


@given(locations, locations)
def test_joined_locations_are_those_of_both(first, second):
    joined = first.joined(second)
    assert isinstance(joined, LocationDomain)
    assert set(joined) == {*first, *second}


def test_all_steps_of_a_tile_are_connected():
    """From any tile, steps lead to every other."""
    domain = PerfectTileDomain(24, 3, 6)
    reached, border = {(24, 1, 1)}, [(24, 1, 1)]
    while border:
        fresh = set(domain.neighbours(border.pop())) - reached
        reached |= fresh
        border.extend(fresh)
    assert reached == set(domain)


def test_the_tiles_of_a_large_extent_are_counted_and_not_listed():
    extent = 2**40 * 3**10 * 5**4
    assert PerfectTileDomain(extent, 6).size == math.comb(45, 5) * math.comb(15, 5) * math.comb(
        9, 5
    )
    unions = UnionDomain.of([PerfectTileDomain(extent, 6), PerfectTileDomain(2 * extent, 6)])
    assert unions.size > 10**11


def test_a_step_moves_one_factor():
    domain = PerfectTileDomain(12, 2, 4)
    assert set(domain) == {(3, 4), (4, 3), (6, 2), (12, 1)}
    assert set(domain.neighbours((6, 2))) == {(3, 4), (12, 1)}
    inner = PartitionedTileDomain(24, 3, 1, 4)
    assert set(inner.neighbours((6, 2, 2))) == {
        (3, 4, 2), (3, 2, 4), (2, 6, 2), (2, 2, 6), (1, 12, 2), (1, 2, 12),
        (6, 4, 1), (6, 1, 4),
    }  # fmt: skip


@given(st.integers(1, 300), st.integers(1, 4))
@settings(max_examples=40)
def test_ordered_factorizations(value, n):
    found = list(factorizations(value, n))
    assert len(found) == count_factorizations(value, n)
    assert found == sorted(set(found))
    assert all(math.prod(tile) == value for tile in found)
    assert divisors(value) == tuple(d for d in range(1, value + 1) if value % d == 0)


def test_instructions_know_what_they_could_have_decided():
    sch = Schedule(parse(NARROW_STAGES))
    loop = sch.get_loops("C")[0]
    sch.sample_perfect_tile(loop, 2, 4)
    sch.sample_partitioned_tile(loop, 2, 1, 2)
    sch.sample_categorical([3, 5, 7], [0.5, 0.0, 0.5])
    sch.sample_compute_location("B")
    found = {i.kind.name: i.domain for i in sch.trace.insts if i.domain is not None}
    assert {name: str(domain) for name, domain in found.items()} == {
        "SamplePerfectTile": "8 in 2 parts, the last at most 4",
        "SamplePartitionedTile": "8 in 2 parts, those from 1 on a multiple of 2",
        "SampleCategorical": "3, 7",
        "SampleComputeLocation": "inline, root, loops 0, 1",
    }
    assert {name: domain.size for name, domain in found.items()} == {
        "SamplePerfectTile": 3,
        "SamplePartitionedTile": 3,
        "SampleCategorical": 2,
        "SampleComputeLocation": 4,
    }


def test_every_sampling_primitive_of_the_package_declares_its_alternatives():
    for kind in InstructionKind.all():
        if kind.has_decision and kind.function.__module__.startswith("schedule."):
            assert kind.domain is not None, kind.name


def test_a_decision_that_means_nothing_is_refused():
    with pytest.raises(ValueError, match="the decision 4 is not among 1, 2"):
        ChoiceDomain((1, 2)).repair(4)
    sch = Schedule(parse(NARROW_STAGES))
    with pytest.raises(ScheduleError, match=r"is 2; it must be an index in \[0, 2\)"):
        sch.sample_categorical([1, 2], [0.5, 0.5], decision=2)
