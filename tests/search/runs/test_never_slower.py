"""What a search returns and records is not slower than the program that it was given."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import pytest

import codegen
import search as ms
from schedule import Schedule
from search.database import JSONDatabase
from search.postproc import RewriteParallelVectorizeUnroll
from search.runner import RunnerInput, RunnerResult
from search.tune import TunedSchedule
from tensorir import assert_structural_equal
from tests.search.made_up_runs import TARGET, ScriptFiles, TimesOfScripts
from tests.search.programs import Matmul, split_all


def microseconds(*times: float) -> RunnerResult:
    return RunnerResult(tuple(t * 1e-6 for t in times))


def tuned(folder: Path, runner: TimesOfScripts, **parts: object) -> TunedSchedule:
    best = ms.tune_tir(
        Matmul,
        parts.pop("target", TARGET),
        parts.pop("config", ms.TuneConfig(8)),
        folder,
        **{"space": split_all, "cost_model": "random", "seed": 1, **parts},
        builder=ScriptFiles(folder / "artifacts"),
        runner=runner,
    )
    assert isinstance(best, TunedSchedule)
    return best


def test_the_unscheduled_program_wins_where_no_schedule_is_faster(tmp_path: Path) -> None:
    runner = TimesOfScripts(lambda k: microseconds(110 + k), unscheduled=microseconds(100))
    best = tuned(tmp_path, runner)
    assert not best.trace.insts
    assert best.report.best == best.report.unscheduled == pytest.approx(100e-6)
    assert best.report.trials == 8, "it is none of the trials"
    database = JSONDatabase(work_dir=tmp_path)
    later = ms.compile_tir(database, Matmul, TARGET)
    assert later is not None
    assert_structural_equal(later.mod, Matmul)
    with database:
        scheduled = codegen.build(Matmul, TARGET)
    assert scheduled.inspect_llvm() == codegen.build(Matmul, TARGET).inspect_llvm()


def test_a_schedule_that_seemed_faster_on_a_busy_machine_is_not_used(tmp_path: Path) -> None:
    """Each took 20 us once, and takes 900 when it is measured beside the program of 100."""
    plain = Schedule(Matmul).mod.script()

    class Lucky(TimesOfScripts):
        def _result(self, entry: RunnerInput) -> RunnerResult:
            self.log.append("")
            is_plain = Path(entry.artifact_path).read_text() == plain
            usual = 100 if is_plain else 20 if len(self.log) <= 8 else 900
            return microseconds(usual + len(self.log) / 100)

    best = tuned(tmp_path, Lucky())
    assert not best.trace.insts
    database = JSONDatabase(work_dir=tmp_path)
    with database:
        found = ms.find_schedule(database, Matmul, TARGET)
    assert found is not None
    assert not found.record.schedules, "also builds take the unscheduled program"
    assert best.report.unscheduled == pytest.approx(100e-6, rel=0.01)


def test_with_little_time_the_best_is_compared_with_the_first_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first takes 100 us; each other one took 90 us in the search, and takes 120 later."""
    monkeypatch.setattr("search.runs.name_winner._SHORT_SECONDS", math.inf)
    calls: Counter[str] = Counter()

    class Lucky(TimesOfScripts):
        def _result(self, entry: RunnerInput) -> RunnerResult:
            text = Path(entry.artifact_path).read_text()
            calls[text] += 1
            is_first = text == next(iter(calls))
            return microseconds(100 if is_first else 90 if calls[text] == 1 else 120)

    best = tuned(tmp_path, Lucky(), config=ms.TuneConfig(8, max_seconds=1000.0))
    first = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()[0]
    assert best.trace.as_json() == first.trace.as_json()
    assert best.report.unscheduled is None
    assert sorted(calls.values())[-3:] == [1, 4, 4], "in three rounds"


def in_parallel(sch: Schedule) -> None:
    split_all(sch)
    sch.annotate(sch.get_block("root"), "meta_schedule.parallel", 64)


def test_the_serial_form_of_a_parallel_schedule_is_measured_beside_it(tmp_path: Path) -> None:
    """Threads make each schedule take ten times as long. No trial is serial: nothing mutates."""

    class Threads(TimesOfScripts):
        def _result(self, entry: RunnerInput) -> RunnerResult:
            self.log.append("")
            slow = "T.parallel" in Path(entry.artifact_path).read_text()
            return microseconds(1000 + len(self.log) / 100 if slow else 100)

    space = ms.space_generator.ScheduleFn(
        in_parallel, postprocs=[RewriteParallelVectorizeUnroll(one_core=0)], mutator_probs={}
    )
    only_parallel = ms.TuneConfig(1)
    runner = Threads(unscheduled=microseconds(5000))
    best = tuned(
        tmp_path, runner, space=space, config=only_parallel, target="llvm -num-cores=4", seed=3
    )
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert "T.parallel" in records[0].schedule().mod.script()
    assert "T.parallel" not in best.mod.script()
    assert best.report.best == pytest.approx(100e-6)


@pytest.mark.parametrize(("waits", "wins"), [(0, True), (900, False)])
def test_threads_have_to_save_time_on_average(tmp_path: Path, waits: int, wins: bool) -> None:
    """Threads halve the time of 200 us, but some calls wait for a thread of another program."""
    calls: Counter[str] = Counter()

    class Threads(TimesOfScripts):
        def _result(self, entry: RunnerInput) -> RunnerResult:
            self.log.append("")
            text = Path(entry.artifact_path).read_text()
            calls[text] += 1
            if "T.parallel" not in text:
                return microseconds(200 + len(self.log) / 1000)
            return microseconds(100 + len(self.log) / 1000 + waits * (calls[text] % 3 == 0))

    space = ms.space_generator.ScheduleFn(
        in_parallel, postprocs=[RewriteParallelVectorizeUnroll(one_core=0)]
    )
    best = tuned(tmp_path, Threads(), space=space, target="llvm -num-cores=4")
    assert ("T.parallel" in best.mod.script()) is wins


def test_nothing_is_measured_at_the_end_without_confirmation(tmp_path: Path) -> None:
    runner = TimesOfScripts(lambda k: microseconds(110 + k), unscheduled=microseconds(100))
    best = tuned(tmp_path, runner, config=ms.TuneConfig(8, num_confirmed=0))
    assert best.trace.insts
    assert len(JSONDatabase(work_dir=tmp_path)) == 8


def test_a_constraint_is_not_asked_about_a_program_without_decisions(tmp_path: Path) -> None:
    runner = TimesOfScripts(lambda k: microseconds(110 + k), unscheduled=microseconds(100))
    best = tuned(tmp_path, runner, constraint=lambda decided: next(iter(decided.values()))[0] > 0)
    assert best.trace.insts
    assert best.report.unscheduled == pytest.approx(100e-6)
