"""Sharing trials among tasks, with builders and runners that make times up."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import search as ms
from codegen import Target
from search.builder import Builder, BuilderInput, BuilderResult
from search.measure_callback import MeasureCallback
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.task_scheduler import TaskRecord, TaskScheduler
from search.tuning_run import TuningRun
from tests.search.programs import Matmul, split_all

TARGET = Target("llvm -num-cores=1")


class EmptyFiles(Builder):
    """Builds an empty file in a directory that holds another one, always with success."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "something else").touch()

    def build(self, build_inputs: Sequence[BuilderInput]) -> list[BuilderResult]:
        handles = [tempfile.mkstemp(dir=self.folder) for _ in build_inputs]
        return [BuilderResult(artifact_path=path) for _, path in handles]


class MadeUpTimes(Runner):
    """Gives the results of a function of how many were asked for before."""

    def __init__(self, result_of: Callable[[int], RunnerResult]) -> None:
        self.result_of = result_of
        self.count = 0

    def run(self, runner_inputs: Sequence[RunnerInput]) -> list[RunnerFuture]:
        futures = [
            RunnerFuture.ready(self.result_of(self.count + k)) for k in range(len(runner_inputs))
        ]
        self.count += len(futures)
        return futures


def task(name: str) -> ms.TuneContext:
    return ms.TuneContext(
        Matmul,
        target=TARGET,
        space_generator=split_all,
        search_strategy="replay-trace",
        task_name=name,
        rand_state=1,
    )


def tune(
    folder: Path,
    scheduler: TaskScheduler,
    tasks: Sequence[ms.TuneContext],
    result_of: Callable[[int], RunnerResult],
    trials: int,
    callbacks: Sequence[MeasureCallback] | None = None,
) -> list[int]:
    """Return how many trials each task got, in batches of 2."""
    artifacts = folder / "artifacts"
    artifacts.mkdir(exist_ok=True)
    with TuningRun.open(
        tasks,
        [1.0] * len(tasks),
        folder,
        ms.TuneConfig(trials, num_trials_per_iter=2, num_confirmed=0),
        builder=EmptyFiles(artifacts),
        runner=MadeUpTimes(result_of),
        database="memory",
        cost_model=None,
        measure_callbacks=callbacks or "default",
        task_scheduler=scheduler,
    ) as run:
        run.tune()
    return [len(record.latency_ms) for record in scheduler.tasks]


def one_ms(_: int) -> RunnerResult:
    return RunnerResult(run_secs=(1e-3,))


def test_no_time_at_all_is_a_failed_trial(tmp_path: Path) -> None:
    scheduler = TaskScheduler.create("gradient")
    tune(
        tmp_path,
        scheduler,
        [task("a")],
        lambda k: RunnerResult(run_secs=(0.0 if k == 1 else 1e-3,)),
        4,
    )
    (record,) = scheduler.tasks
    assert record.latency_ms == [1.0, 1e9, 1.0, 1.0]
    assert record.run_error_count == 1


def test_nothing_is_removed_beside_the_artifacts(tmp_path: Path) -> None:
    tune(tmp_path, TaskScheduler.create("gradient"), [task("a")], one_ms, 4)
    left = {path.name for path in (tmp_path / "artifacts").iterdir()}
    assert "something else" in left
    assert len(left) == 2, "and the unscheduled program, which is no candidate"


@pytest.mark.parametrize("kind", ["gradient", "round-robin"])
def test_a_scheduler_can_be_used_again(tmp_path: Path, kind: str) -> None:
    scheduler = TaskScheduler.create(kind)
    for names in ("ab", "abc", "ab"):
        trials = tune(tmp_path, scheduler, [task(n) for n in names], one_ms, 2 * len(names))
        assert trials == [2] * len(names), "each task gets its first batch first"


@pytest.mark.parametrize("kind", ["gradient", "round-robin"])
def test_a_task_whose_first_batch_fails_goes_on(tmp_path: Path, kind: str) -> None:
    def first_two_fail(k: int) -> RunnerResult:
        return RunnerResult(error_msg="bad luck") if k < 2 else one_ms(k)

    scheduler = TaskScheduler.create(kind)
    trials = tune(tmp_path, scheduler, [task("unlucky"), task("lucky")], first_two_fail, 12)
    assert min(trials) >= 4
    assert [record.best_ms for record in scheduler.tasks] == [1.0, 1.0]


def test_a_task_that_always_fails_gets_its_share_and_no_more(tmp_path: Path) -> None:
    scheduler = TaskScheduler.create("gradient")

    def first_task_fails(_: int) -> RunnerResult:
        fails = scheduler.tasks[0].measure_candidates is not None
        return RunnerResult(error_msg="bad luck") if fails else one_ms(0)

    trials = tune(tmp_path, scheduler, [task("bad"), task("good")], first_task_fails, 16)
    assert trials == [8, 8]
    assert [record.best_ms for record in scheduler.tasks] == [None, 1.0]


@pytest.mark.parametrize(
    ("build_seconds", "measure_seconds", "cores", "beside"),
    [
        (0.0, 0.0, 2, True),  # nothing is known yet
        (4.0, 4.0, 2, True),  # 4 s beside one another, 6 s after one another
        (20.0, 2.0, 2, False),  # 20 s on one core, 12 s where both build
        (20.0, 2.0, 8, True),
        (0.1, 9.0, 2, True),
    ],
)
def test_builds_go_on_beside_measurements_where_that_is_faster(
    build_seconds, measure_seconds, cores, beside
):
    task = TaskRecord(None, build_seconds=build_seconds, measure_seconds=measure_seconds)
    assert task.is_faster_side_by_side(cores) == beside
