"""Tuning end to end, with small programs and few trials."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import codegen
import search as ms
from schedule import Schedule, Trace
from search.cost_model import XGBModel
from search.database import JSONDatabase, MemoryDatabase, TuningRecord, Workload
from search.measure_callback import MeasureCallback
from tensorir import assert_structural_equal
from tests.search import programs
from tests.search.programs import Matmul, split_all, split_j
from tests.search.test_tune_calls import OF_TVM, PRETENDED, TARGET

PARTS = {name: part for name, part in PRETENDED.items() if name != "seed"}


def tune(work_dir: Path, trials: int, space: object, **options: object) -> Schedule | None:
    """Tune a product of matrices; unless a runner is given, each candidate takes a millisecond."""
    return ms.tune_tir(
        mod=Matmul,
        target=TARGET,
        config=ms.TuneConfig(trials, num_trials_per_iter=8, num_confirmed=0),
        work_dir=work_dir,
        space=space,
        **{**PRETENDED, **options},
    )


def test_a_space_of_five_points_is_measured_once_each(
    tmp_path: Path, measured: dict[str, object]
) -> None:
    best = tune(tmp_path, 64, split_j, **measured)
    assert best is not None
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    decisions = sorted(str(r.trace.as_json()[1]) for r in records)
    assert len(decisions) == len(set(decisions)) == 5
    assert "enter_postproc" in str(best.trace)
    best.trace.save(tmp_path / "trace.json")
    again = Schedule(Matmul)
    Trace.load(tmp_path / "trace.json").apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, best.mod)

    a, b = (np.random.default_rng(k).random((32, 32), np.float32) for k in (0, 1))
    c = np.zeros((32, 32), np.float32)
    codegen.build(best.mod, TARGET)["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_another_run_on_the_same_directory_measures_nothing_twice(tmp_path: Path) -> None:
    tune(tmp_path, 8, split_all)
    tune(tmp_path, 8, split_all)
    records = JSONDatabase(work_dir=tmp_path).get_all_tuning_records()
    assert len(records) == 16
    assert len({str(r.trace.as_json()) for r in records}) == 16


@pytest.mark.parametrize("strategy", ["replay-trace", "replay-func", "evolutionary"])
def test_strategies_make_as_many_trials_as_asked(tmp_path: Path, strategy: str) -> None:
    database = ms.tune_module(
        Matmul,
        TARGET,
        tmp_path,
        10,
        num_trials_per_iter=4,
        space=split_all,
        strategy=strategy,
        **OF_TVM,
    )
    assert isinstance(database, MemoryDatabase)
    assert len(database) == 10
    sch = ms.compile_tir(database, Matmul, TARGET)
    assert sch is not None


def test_verbose_0_shows_warnings_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tune(tmp_path, 4, split_j, verbose=0)
    assert capsys.readouterr() == ("", "")
    tune(tmp_path / "more", 4, split_j, verbose=2)
    assert "[DEBUG]" in capsys.readouterr().err


def test_logs_tell_the_course_of_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tune(tmp_path, 64, split_j)
    shown = capsys.readouterr().err
    assert f"Working directory: {tmp_path}" in shown
    assert 'Task #0 "main": 5 trials measured, 5 in all; the best so far takes ' in shown
    assert (
        'Task #0 "main" ends after 5 trials: its strategy finds no candidate that was not measured'
        in shown
    )
    assert shown.count(TABLE_HEAD) == 1, "only the last table"
    assert shown.index("5 trials measured") < shown.index(TABLE_HEAD)

    logs = tmp_path / "logs"
    full = (logs / "tvm.meta_schedule.logging.task_scheduler.log").read_text()
    assert 'TaskScheduler picks Task #0: "main"' in full
    assert "Sending 5 sample(s) to builder" in full
    assert full.count(TABLE_HEAD) == 3, "before the search, after the batch, and at the end"
    assert "Task #0 has finished. Remaining task(s): 0" in full
    text = (logs / "tvm.meta_schedule.logging.task_0_main.log").read_text()
    assert "Design spaces: 1" in text
    assert "sch.sample_perfect_tile(" in text
    assert "[Task #0: main] Trial #5: GFLOPs: " in text


TABLE_HEAD = " ID | Name |  FLOP | Weight | Speed (GFLOPS) |"


def test_what_a_candidate_does_wrong_costs_that_trial(
    tmp_path: Path, measured: dict[str, object]
) -> None:
    def split_only(sch: Schedule) -> None:
        _, j, _ = sch.get_loops(sch.get_block("C", "main"))
        sch.split(j, sch.sample_perfect_tile(j, n=2, max_innermost_factor=16))

    database = MemoryDatabase()
    parts = {**measured, "builder": _Sabotage()}
    tune(tmp_path, 8, split_only, database=database, **parts)
    records = database.get_all_tuning_records()
    failed = [r for r in records if not r.is_valid]
    assert (len(records), len(failed)) == (5, 1)
    assert "wrong in" in str(failed[0].error_msg)
    log = tmp_path / "logs" / "tvm.meta_schedule.logging.task_0_main.log"
    assert "Error in running" in log.read_text()


class _Sabotage(ms.builder.LocalBuilder):
    """Builds a program that does nothing in place of the one with an inner loop of 2."""

    def build(
        self, build_inputs: "list[ms.builder.BuilderInput]"
    ) -> "list[ms.builder.BuilderResult]":
        inputs = [
            ms.builder.BuilderInput(_idle(), i.target)
            if "T.grid(32, 16, 2, 32)" in i.mod.script()
            else i
            for i in build_inputs
        ]
        try:
            return super().build(inputs)
        finally:
            self.close()


def _idle() -> "programs.IRModule":
    func = Matmul["main"]
    return programs.IRModule({"main": func.with_body(programs.nothing())})


def test_no_trials_means_what_the_database_knows(tmp_path: Path) -> None:
    assert ms.tune_tir(Matmul, TARGET, ms.TuneConfig(0), tmp_path, space=split_j) is None


def test_random_search_returns_the_fastest(capsys: pytest.CaptureFixture[str]) -> None:
    best = ms.random_search(Matmul, split_j, num_trials=3, target=TARGET, seed=1)
    shown = capsys.readouterr().out
    assert shown.count("sch.sample_perfect_tile") == 3
    assert "===== Attempt 2: " in shown
    assert any("sample_perfect_tile" in line for line in best.trace.as_python())


class Values(MemoryDatabase):
    """Gives out workloads and records that are equal to the ones it holds, but others."""

    def commit_workload(self, mod: "programs.IRModule") -> Workload:
        return copied(super().commit_workload(mod))

    def get_all_tuning_records(self) -> list[TuningRecord]:
        records = super().get_all_tuning_records()
        return [replace(record, workload=copied(record.workload)) for record in records]


def copied(workload: Workload) -> Workload:
    return Workload.from_json(workload.as_json())


def test_records_are_found_by_the_value_of_their_workload(tmp_path: Path) -> None:
    database = Values()
    for _ in range(2):
        tune(tmp_path, 64, split_j, database=database)
    assert len(database) == 5, "the second run finds all measured"
    assert len(database.get_top_k(database.commit_workload(Matmul), 9)) == 5
    pruned = MemoryDatabase()
    database.dump_pruned(pruned)
    assert len(pruned) == 1


def test_tasks_with_one_program_share_its_records_on_resume(tmp_path: Path) -> None:
    def task(name: str) -> ms.TuneContext:
        return ms.TuneContext(
            Matmul,
            target=TARGET,
            space_generator=split_all,
            search_strategy="replay-trace",
            task_name=name,
            rand_state=1,
        )

    class StopAfterSix(MeasureCallback):
        def apply_to_trial(self, scheduler: "ms.TaskScheduler", *_: object) -> None:
            if sum(len(task.latency_ms) for task in scheduler.tasks) == 5:
                raise KeyboardInterrupt

    def run(*callbacks: MeasureCallback) -> int:
        database = ms.tune_tasks(
            tasks=[task("one"), task("two")],
            task_weights=[1.0, 1.0],
            work_dir=tmp_path,
            max_trials_global=12,
            max_trials_per_task=6,
            num_trials_per_iter=2,
            measure_callbacks=[*MeasureCallback.create("default"), *callbacks],
            num_confirmed=0,
            on_interrupt="return",
            **PARTS,
        )
        return len(database)

    assert run(StopAfterSix()) == 6
    assert run() == 12


def test_a_cost_model_learns_what_the_database_knows_once(tmp_path: Path) -> None:
    tune(tmp_path, 12, split_all)
    model = XGBModel(num_tuning_cores=1)
    tune(tmp_path, 2, split_all, cost_model=model)
    assert model.data_size == 14
    assert model.trained
    tune(tmp_path, 2, split_all, cost_model=model)
    assert model.data_size == 16, "and not the fourteen again"
    log = tmp_path / "logs" / "tvm.meta_schedule.logging.task_0_main.log"
    learned = [x for x in log.read_text().splitlines() if "the cost model learned from: " in x]
    assert [x.split("learned from: ")[1] for x in learned] == ["0", "12", "0"]
