"""Composites and combinators: several primitives as one step, all of it or none."""

from __future__ import annotations

import json

import pytest

from schedule import Schedule, ScheduleError, Trace
from schedule.composites import at_each, attempt, composite, first_of, repeat
from schedule.handles import BlockRV, LoopRV
from tensorir import assert_structural_equal, parse
from tests.matmul import matmul

MATMUL = parse(matmul(64, 64, 64))

SCRIPT = """\
from schedule import Schedule

def apply_trace(sch: Schedule) -> None:
  b0 = sch.get_block(name="C", func_name="main")
  with sch.composite(name="tile", arguments="block=block C, rows=2"):
    l1, l2, l3 = sch.get_loops(block=b0)
    with sch.composite(name="halve", arguments="loop=loop i"):
      l4, l5 = sch.split(loop=l1, factors=[2, None], preserve_unit_iters=True, \
disable_predication=False)
    v6, v7 = sch.sample_perfect_tile(loop=l2, n=2, max_innermost_factor=16, decision=[8, 8])
    l8, l9 = sch.split(loop=l2, factors=[v6, v7], preserve_unit_iters=True, \
disable_predication=False)
    sch.reorder(l4, l8, l3, l5, l9)
  with sch.composite(name="nothing", arguments=""):
    pass
  sch.parallel(loop=l4)"""


@composite
def halve(sch: Schedule, loop: LoopRV) -> list[LoopRV]:
    return sch.split(loop, [2, None])


@composite
def tile(sch: Schedule, block: BlockRV, rows: int = 4) -> LoopRV:
    i, j, k = sch.get_loops(block)
    i0, i1 = halve(sch, i)
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, decision=[8, 8]))
    sch.reorder(i0, j0, k, i1, j1)
    return i0


@composite
def nothing(sch: Schedule) -> None:
    pass


@composite
def impossible(sch: Schedule, block: BlockRV) -> None:
    sch.seed(1)
    sch.sample_perfect_tile(sch.get_loops(block)[0], 2)
    tile(sch, block)
    sch.compute_inline(block)


def parallel_then_inline(sch: Schedule, loop: LoopRV) -> None:
    sch.parallel(loop)
    sch.compute_inline("C")


def fuse_two(sch: Schedule) -> bool:
    loops = sch.get_loops("C")
    if len(loops) == 1:
        return False
    sch.fuse(*loops[:2])
    return True


def tiled() -> Schedule:
    sch = Schedule(MATMUL, seed=7, debug_mask="all")
    outermost = tile(sch, sch.get_block("C"), rows=2)
    nothing(sch)
    sch.parallel(outermost)
    return sch


def test_a_composite_is_one_step_of_the_trace() -> None:
    assert tiled().trace.script() == SCRIPT


def test_a_trace_with_composites_replays_where_they_are_unknown() -> None:
    sch = tiled()
    forms = [
        Trace.from_json(json.loads(json.dumps(sch.trace.as_json()))),
        Trace.from_python(sch.trace.script()),
        Trace.from_python("\n".join(sch.trace.as_python())),
        sch.trace.without_composites(),
    ]
    for trace in forms:
        again = Schedule(MATMUL)
        trace.apply_to_schedule(again, remove_postproc=False)
        assert_structural_equal(again.mod, sch.mod)
    assert [str(trace) for trace in forms[:3]] == [SCRIPT] * 3
    assert "composite" not in str(forms[3])


def test_tvm_has_no_composites() -> None:
    lines = tiled().trace.script(dialect="tvm").splitlines()
    assert lines[3] == "  # tile(block=block C, rows=2)"
    assert all(line.startswith("  ") and line[2] != " " for line in lines[2:])
    with_marks = tiled().trace
    assert len(with_marks.without_composites().insts) == len(with_marks.insts) - 6


def test_a_transaction_in_a_transaction() -> None:
    sch = Schedule(MATMUL, debug_mask="all")
    block = sch.get_block("C")
    with sch.transaction():
        i, _, _ = sch.get_loops(block)
        inner = halve(sch, i)
        assert not attempt(sch, Schedule.compute_inline, block)
        sch.unroll(inner[1])
    assert "for i_1 in T.unroll(32)" in sch.mod.script()
    copied = sch.copy()
    assert not attempt(sch, parallel_then_inline, inner[0])
    assert "parallel" not in sch.mod.script()
    assert_structural_equal(copied.mod, sch.mod)
    sch.state.verify()


def test_first_of_takes_the_first_step_that_is_possible() -> None:
    sch = Schedule(MATMUL)
    block = sch.get_block("C")
    chosen = first_of(
        sch,
        lambda s: s.compute_inline(block),
        lambda s: s.vectorize(s.get_loops(block)[2]),
        lambda s: s.unroll(s.get_loops(block)[0]) or "unrolled",
    )
    assert chosen == "unrolled"
    with pytest.raises(ScheduleError, match="vectorize") as failed:
        first_of(
            sch,
            lambda s: s.compute_inline(block),
            lambda s: s.vectorize(s.get_loops(block)[2]),
        )
    assert "compute-inline" in failed.value.__notes__[0]
    with pytest.raises(ValueError, match="at least one step"):
        first_of(sch)


def test_repeat_ends_where_the_step_is_impossible() -> None:
    sch = Schedule(MATMUL)
    assert repeat(sch, lambda s: s.parallel(s.get_loops("C")[2])) == 0
    assert repeat(sch, fuse_two) == 2
    assert len(sch.get_loops("C")) == 1
    assert repeat(sch, lambda s: False) == 0
    with pytest.raises(RuntimeError, match="applied 3 times"):
        repeat(sch, lambda s: s.split(s.get_loops("C")[0], [1, None]), limit=3)
    assert len(sch.get_loops("C")) == 1


def test_at_each_takes_all_or_only_what_is_possible() -> None:
    sch = Schedule(MATMUL)
    loops = sch.get_loops("C")
    before = sch.mod
    with pytest.raises(ScheduleError, match="parallel"):
        at_each(sch, loops, lambda s, loop: s.parallel(loop))
    assert sch.mod is before
    found = at_each(sch, loops, lambda s, loop: s.parallel(loop) or loop, skip=True)
    assert found == loops[:2]
    assert sch.mod.script().count("T.parallel(64)") == 2
