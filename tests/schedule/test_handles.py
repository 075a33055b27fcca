"""Handles print as what they mean now, in the schedule that made them."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from schedule import BlockRV, LoopRV, Schedule, ScheduleError, Trace
from tensorir import assert_structural_equal, parse

PROGRAM = """\
@T.prim_func
def main(A: T.Buffer((8, n)), B: T.Buffer((8, n))):
    for i, j in T.grid(8, 16):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2)
""".replace("n)", "16)")


@pytest.fixture
def sch() -> Schedule:
    return Schedule(parse(PROGRAM), seed=1)


def test_handles_follow_the_program(sch):
    i, j = sch.get_loops("B")
    sch.vectorize(j)
    sch.annotate(i, "note", 1)
    assert repr(j) == "LoopRV(l2: for j in T.vectorized(16))"
    assert repr(i) == 'LoopRV(l1: for i in T.serial(8, annotations={"note": 1}))'


def test_what_was_consumed(sch):
    i, j = sch.get_loops("B")
    fused = sch.fuse(i, j)
    assert repr(i) == "LoopRV(l1: gone, fuse replaced it)"
    assert repr(fused) == "LoopRV(l3: for i_j_fused in range(128))"
    sch.remove_rv(fused)
    assert repr(fused) == "LoopRV(l3: removed)"


def test_numbers_are_variables(sch):
    i, _ = sch.get_loops("B")
    assert str(sch.sample_perfect_tile(i, n=2)) == "[v3, v4]"


def test_compute_locations(sch):
    assert repr(LoopRV.inline_rv()) == "LoopRV.inline_rv()"
    assert repr(LoopRV.root_rv()) == "LoopRV.root_rv()"
    assert repr(sch.sample_compute_location("B")) == "LoopRV(l1: keep it at the root)"


def test_handles_of_no_schedule():
    assert repr(BlockRV()) == "BlockRV(of no schedule)"
    trace = Trace.from_json([[["GetBlock", [], ["B", "main"], ["b0"]]], []])
    assert repr(trace.insts[0].outputs[0]) == "BlockRV(of no schedule)"


def test_a_handle_does_not_keep_its_schedule_alive(sch):
    schedule = sch.copy()
    block = schedule.get_block("B")
    del schedule
    gc.collect()
    assert repr(block) == "BlockRV(its schedule is gone)"


def test_copies_and_pickles_leave_the_schedule_out(sch):
    sch.get_loops("B")
    block = sch.get_block("B")
    for handle in (pickle.loads(pickle.dumps(block)), copy.deepcopy(block)):
        assert repr(handle) == "BlockRV(of no schedule)"
    twin = pickle.loads(pickle.dumps(sch))
    twin.unroll(twin.get_loops("B")[0])
    assert_structural_equal(twin.mod["main"], parse(PROGRAM.replace(
        "for i, j in T.grid(8, 16):\n        with", "for i in T.unroll(8):\n      for j in range(16):\n        with"
    )))  # fmt: skip


def test_a_refused_call_leaves_no_name(sch):
    i, _ = sch.get_loops("B")
    with pytest.raises(ScheduleError, match="smaller than the extent"):
        sch.split(i, [2, 2])
    assert repr(i) == "LoopRV(l1: for i in range(8))"
