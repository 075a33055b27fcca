"""Traces with primitives from outside the package are mutated like all others."""

from __future__ import annotations

import search as ms
from schedule import ChoiceDomain, Schedule, StmtSRef, primitive
from schedule.instruction import LoopArg, Number, Sampled
from schedule.random_state import RandomState
from schedule.state import ScheduleState
from search.mutator import MutateDecision, MutateTileSize
from tests.search.programs import Matmul


@primitive("NoteLoop")
def note_loop(state: ScheduleState, loop: LoopArg, text: str) -> None:
    """Annotate a loop with a text."""
    old = loop.loop
    state.replace(loop, old.with_(annotations={**old.annotations, "note": text}))


def lengths_of(state: ScheduleState, loop: StmtSRef) -> ChoiceDomain:
    """Return the divisors of a loop's extent that are vector lengths."""
    extent = int(loop.loop.extent)
    return ChoiceDomain(tuple(length for length in (4, 8, 16) if extent % length == 0))


@primitive("SampleVectorLength", pure=True, domain=lengths_of)
def sample_vector_length(
    state: ScheduleState,
    loop: LoopArg,
    *,
    domain: ChoiceDomain,
    rng: RandomState,
    decision: int | None = None,
) -> Number:
    """Choose a vector length that divides a loop."""
    length = domain.decide(rng, decision)
    assert isinstance(length, int)
    return Sampled(length, length)


@primitive("SampleUnknown", pure=True)
def sample_unknown(
    state: ScheduleState, loop: LoopArg, *, rng: RandomState, decision: int | None = None
) -> Number:
    """Choose a number among unknown ones."""
    number = 1 << rng.uniform_int(0, 6) if decision is None else decision
    return Sampled(number, number)


def vectorized(sch: Schedule) -> None:
    j = sch.get_loops(sch.get_block("C"))[1]
    _, inner = sch.split(j, [None, sch.sample_vector_length(j, decision=8)])
    sch.vectorize(inner)


def test_presets_mutate_a_sampling_primitive_that_declares_its_alternatives():
    space = ms.SpaceGenerator.create("schedule-fn", vectorized)
    context = ms.TuneContext(Matmul, target="llvm -num-cores=2", space_generator=space)
    (sch,) = context.generate_design_space()
    rng = RandomState(1)
    found = set()
    for mutator in space.mutator_probs:
        for _ in range(20):
            mutated = mutator.apply(sch.trace, rng)
            if mutated is not None:
                found.add((str(mutator), *mutated.decisions.values()))
    assert found == {("MutateTileSize()", 4), ("MutateTileSize()", 16)}


def test_the_general_mutator_takes_the_knobs_of_a_purpose():
    sch = Schedule(Matmul, seed=3)
    vectorized(sch)
    rng = RandomState(1)
    assert MutateDecision("SampleVectorLength").apply(sch.trace, rng) is not None
    assert MutateDecision().apply(sch.trace, rng) is not None
    assert MutateDecision("location").apply(sch.trace, rng) is None
    assert MutateDecision(lambda knob: "loop 1 of C" in knob.name).apply(sch.trace, rng) is not None
    assert MutateDecision(lambda knob: "loop 0" in knob.name).apply(sch.trace, rng) is None


def test_what_declares_no_alternatives_is_sampled_anew():
    sch = Schedule(Matmul, seed=3)
    i, _, _ = sch.get_loops(sch.get_block("C"))
    sch.split(i, [None, sch.sample_unknown(i, decision=64)])
    mutated = MutateTileSize().apply(sch.trace, RandomState(1))
    assert mutated is not None
    assert mutated.decisions == {}
    replayed = Schedule(Matmul, seed=5)
    mutated.apply_to_schedule(replayed, remove_postproc=True)
    assert len(replayed.trace.decisions) == 1
