"""Sampling where a block is computed."""

from __future__ import annotations

import collections
import json

import pytest

from schedule import LoopRV, Schedule, Trace
from tensorir import parse
from tests.schedule.programs import NARROW_STAGES as STAGES
from tests.schedule.transformation import apply

UNIT_LOOP = STAGES.replace(
    """    for i, j in T.grid(8, 4):
        with T.block("C")""",
    """    for i, u, j in T.grid(8, 1, 4):
        with T.block("C")""",
)

ROW_SUM = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 3))):
    B = T.alloc_buffer((8,))
    for i, k in T.grid(8, 4):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i, j in T.grid(8, 3):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi] + T.float32(1)
"""

SUMMED = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i, k in T.grid(8, 4):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + B[vi, vk]
"""

SUMMED_OUTSIDE = SUMMED.replace("for i, k in T.grid(8, 4)", "for k, i in T.grid(4, 8)")

TWO_CONSUMERS = """\
@T.prim_func
def main(A: T.Buffer((8, 4)), C: T.Buffer((8, 4)), D: T.Buffer((8, 4))):
    B = T.alloc_buffer((8, 4))
    for i, j in T.grid(8, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
    for i in range(8):
        for j in range(4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] + T.float32(1)
        for j in range(4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] + T.float32(2)
"""

TWO_NESTS = TWO_CONSUMERS.replace(
    """        for j in range(4):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                D[vi, vj] = B[vi, vj] + T.float32(2)
""",
    """    for i, j in T.grid(8, 4):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = B[vi, vj] + T.float32(2)
""",
)

WRITTEN_TWICE = """\
@T.prim_func
def main(A: T.Buffer((8,)), C: T.Buffer((8,))):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
    for i in range(8):
        with T.block("B_again"):
            vi = T.axis.spatial(8, i)
            B[vi] = B[vi] * T.float32(2)
        with T.block("C"):
            vi = T.axis.spatial(8, i)
            C[vi] = B[vi]
"""


def locate(block, decision):
    """Return a call that samples a location and computes the block there."""

    def call(sch):
        sch.compute_at(block, sch.sample_compute_location(block, decision=decision))

    return call


def decision_used(text, block, decision):
    sch = Schedule(parse(text), debug_mask="all")
    sch.sample_compute_location(block, decision=decision)
    ((_, used),) = sch.trace.as_json()[1]
    return used


@pytest.mark.parametrize(("decision", "mark"), [(-2, LoopRV.inline_rv()), (-1, LoopRV.root_rv())])
def test_marks(decision, mark):
    sch = Schedule(parse(STAGES))
    location = sch.sample_compute_location("B", decision=decision)
    assert sch.get_sref(location) is sch.get_sref(mark)


@pytest.mark.parametrize("decision", [0, 1])
def test_a_loop(decision):
    sch = Schedule(parse(STAGES))
    location = sch.sample_compute_location("B", decision=decision)
    assert sch.get(location) is sch.get(sch.get_loops("C")[decision])


@pytest.mark.parametrize(
    ("text", "block", "candidates"),
    [
        pytest.param(STAGES, "B", [-2, -1, 0, 1], id="all loops of the consumer"),
        pytest.param(STAGES, "C", [-1], id="an output block has no consumer"),
        pytest.param(UNIT_LOOP, "B", [-2, -1, 0, 2], id="not a loop of one iteration"),
        pytest.param(ROW_SUM, "B", [-1, 0, 1], id="a reduction cannot be inlined"),
        pytest.param(SUMMED, "B", [-2, -1, 0], id="not the reduction loop below all others"),
        pytest.param(SUMMED_OUTSIDE, "B", [-2, -1, 0], id="no loop inside the reduction loop"),
        pytest.param(TWO_CONSUMERS, "B", [-2, -1, 0], id="the loops that all consumers share"),
        pytest.param(TWO_NESTS, "B", [-2, -1], id="no loop is shared"),
        pytest.param(WRITTEN_TWICE, "B", [-1], id="not where compute_at is refused"),
    ],
)
def test_candidates(text, block, candidates):
    """A decision that is possible is kept, another becomes the next smaller one, or the root."""
    for decision in range(-3, 5):
        smaller = [c for c in candidates if c <= decision]
        assert decision_used(text, block, decision) == (smaller[-1] if smaller else -1)
    sch = Schedule(parse(text), seed=11)
    count = collections.Counter()
    for _ in range(150):
        sch.sample_compute_location(block)
    for _, used in sch.trace.as_json()[1]:
        count[used] += 1
    assert sorted(count) == candidates
    assert min(count.values()) > 150 / len(candidates) / 2


@pytest.mark.parametrize(
    "text", [STAGES, UNIT_LOOP, ROW_SUM, SUMMED, SUMMED_OUTSIDE, TWO_CONSUMERS]
)
@pytest.mark.parametrize("decision", [-2, -1, 0, 1, 2])
def test_what_is_sampled_can_be_done(text, decision):
    apply(text, locate("B", decision))


def test_one_candidate_is_not_drawn():
    sch = Schedule(parse(STAGES), seed=42)
    sch.sample_compute_location("C")
    assert sch.fork_seed() == 431226885


# ------------------------------------------------------------------------------------ trace, replay


def test_a_replay_on_another_program_records_the_location_that_is_possible():
    stored = json.dumps(apply(STAGES, locate("B", 1)).trace.as_json())
    sch = Schedule(parse(SUMMED))
    Trace.from_json(json.loads(stored)).apply_to_schedule(sch, remove_postproc=False)
    assert sch.trace.as_json()[1] == [[1, 0]]
    outer = sch.get_loops("C")[0]
    assert sch.get(sch.get_loops("B")[0]) is sch.get(outer)


@pytest.mark.parametrize(
    ("keeps", "decision", "known"),
    [(True, 1, True), (False, 1, False), (False, 99, False), (False, None, True)],
)
def test_all_places_are_looked_for_if_somebody_wants_them(keeps, decision, known):
    sch = Schedule(parse(STAGES))
    sch.keeps_domains = keeps
    sch.sample_compute_location(sch.get_block("B"), decision=decision)
    (sampling,) = sch.trace.decisions
    assert (sampling.domain is not None) == known


@pytest.mark.parametrize("program", [STAGES, SUMMED])
def test_a_place_that_is_asked_for_is_that_of_the_domain(program):
    for decision in range(-2, 6):
        places = []
        for keeps in (True, False):
            sch = Schedule(parse(program))
            sch.keeps_domains = keeps
            sch.sample_compute_location(sch.get_block("B"), decision=decision)
            places += sch.trace.decisions.values()
            (sampling,) = sch.trace.decisions
            if keeps:
                places.append(sampling.domain.repair(decision))
        assert len(set(places)) == 1
