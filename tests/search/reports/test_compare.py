"""Two schedules compared: their decisions, their traces, their programs and their times."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import search as ms
from codegen import Target
from schedule import Schedule
from search.database.programs import ProgramRecords
from search.database.records import FAILED, TuningRecord, Workload
from search.errors import ArgumentError
from search.reports.run_directory import records_of_trials
from tensorir import parse
from tests.search.explorer.test_explorer import MATMUL
from tests.search.reports.searches_for_pages import TARGET, TRIAL, write_search

COPY = parse("""
@T.prim_func
def main(A: T.Buffer((32, 64)), B: T.Buffer((32, 64))):
    for i, j in T.grid(32, 64):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
""")


def tiled(tile: list[int]) -> Schedule:
    sch = Schedule(COPY)
    _, j = sch.get_loops("B")
    sch.split(j, sch.sample_perfect_tile(j, 2, decision=tile))
    return sch


def test_two_decisions() -> None:
    found = ms.compare(tiled([4, 16]), tiled([8, 8]))
    assert (
        str(found)
        == """\
a time is unknown; measure=True measures both
a        b
unknown  unknown

Decisions that differ
decision             a        b
tile of loop 1 of B  (4, 16)  (8, 8)

Traces
  the same

Programs
      def main(A: T.Buffer((32, 64), "float32"), B: T.Buffer((32, 64), "float32")):
          # with T.block("root"):
-         for i, j_0, j_1 in T.grid(32, 4, 16):
+         for i, j_0, j_1 in T.grid(32, 8, 8):
              with T.block("B"):
                  vi = T.axis.spatial(32, i)
-                 vj = T.axis.spatial(64, j_0 * 16 + j_1)
+                 vj = T.axis.spatial(64, j_0 * 8 + j_1)
                  T.reads(A[vi, vj])
                  T.writes(B[vi, vj])"""
    )


def test_instructions_are_equal_whatever_the_names_of_their_handles() -> None:
    a, b = Schedule(COPY), Schedule(COPY)
    b.annotate(b.get_block("B"), "note", 1)
    for sch in (a, b):
        sch.parallel(sch.get_loops(sch.get_block("B"))[0])
    assert ms.compare(a, b).trace_difference == [
        '+ b0 = sch.get_block(name="B", func_name="main")',
        '+ sch.annotate(block_or_loop=b0, ann_key="note", ann_val=1)',
        '  b0 = sch.get_block(name="B", func_name="main")',
        "  l1, l2 = sch.get_loops(block=b0)",
    ]


def record(tile: list[int], seconds: tuple[float, ...] | None) -> TuningRecord:
    sch = tiled(tile)
    return TuningRecord(sch.trace, Workload(sch.initial_mod), seconds, Target("llvm"))


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((3e-6,), (1e-6,), r"b is 3\.00 times as fast as a; too few times to judge: .*"),
        ((1e-6, 1.1e-6, 1e-6), (2e-6, 2e-6, 2.1e-6), "a is 2.00 times .*, with .* 100%"),
        ((1e-6, 2e-6, 3e-6), (1.1e-6, 2.1e-6, 2.9e-6), "no significant difference: a is .*"),
        (None, (1e-6,), "a time is unknown; measure=True measures both"),
    ],
)
def test_recorded_times(a: tuple[float, ...], b: tuple[float, ...], verdict: str) -> None:
    found = ms.compare(record([4, 16], a), record([8, 8], b))
    assert re.fullmatch(verdict, found.verdict)


def test_both_are_measured_interleaved() -> None:
    found = ms.compare(tiled([4, 16]), record([8, 8], None))
    found.measure(TARGET, max_seconds=0)
    assert found.how == f"measured in 3 interleaved rounds on {TARGET}"
    assert all(each is not None and 0 < each < 1 for each in found.seconds)
    assert found.certainty is not None
    assert 0 <= found.certainty <= 1


def test_trials_of_a_run(tmp_path: Path) -> None:
    write_search(tmp_path)
    first, *_, last = ms.load_run(tmp_path).trials
    found = ms.compare(first, last, work_dir=tmp_path)
    assert found.seconds == pytest.approx([3e-6, 16e-6])
    assert set(found.decisions) <= {f"tile of loop {k} of C" for k in range(3)}
    assert found.decisions["tile of loop 0 of C"] == tuple(
        tuple(trial.decisions[0]) for trial in (first, last) if trial.decisions
    )


def test_a_failed_trial_has_the_record_with_its_decisions() -> None:
    failed = record([4, 16], (FAILED,))
    program = ProgramRecords("17", failed.workload, TARGET, [failed])
    trial = replace(TRIAL, stage="run", run_secs=(), decisions=[[4, 16]])
    other = replace(trial, decisions=[[8, 8]])
    assert records_of_trials([trial, other], [program]) == [failed, None]


def test_a_notebook_shows_tables_and_marked_lines() -> None:
    shown = ms.compare(tiled([4, 16]), tiled([8, 8]))._repr_html_()
    assert "<td>(4, 16)</td>" in shown
    assert shown.count('background:#c5221f33">-') == 2
    assert "B[vi, vj]" in shown


def test_arguments_that_cannot_be_compared(tmp_path: Path) -> None:
    a = tiled([4, 16])
    with pytest.raises(ArgumentError, match="give the directory of its run as work_dir"):
        ms.compare(a, TRIAL)
    with pytest.raises(ArgumentError, match=r"trial 3 of matmul has no record in .*; failed"):
        ms.compare(a, replace(TRIAL, number=3), work_dir=tmp_path)
    with pytest.raises(ArgumentError, match=r"compare takes two schedules .* or two logs, got str"):
        ms.compare(a, "tuned")  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="schedules of different programs cannot be measured"):
        ms.compare(a, Schedule(MATMUL), measure=True)
