"""Sharing trials among tasks, with builders and runners that make times up."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import search as ms
from codegen import Target
from search.builder import Builder, BuilderInput, BuilderResult
from search.loop import Patience, tune_run
from search.measure_callback import MeasureCallback
from search.run import Run
from search.runner import Runner, RunnerFuture, RunnerInput, RunnerResult
from search.task_scheduler import TaskScheduler, TaskState
from search.task_scheduler.task_scheduler import SimilarTasks, tagged_group
from tensorir import te
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
    """Gives the results of a function of the number of earlier ones."""

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
    batch: int = 2,
    database: ms.Database | None = None,
    **config: Any,
) -> list[int]:
    """Return how many trials each task got."""
    artifacts = folder / "artifacts"
    artifacts.mkdir(exist_ok=True)
    options = ms.TuneConfig(
        trials,
        num_trials_per_iter=batch,
        num_confirmed=0,
        builder=EmptyFiles(artifacts),
        runner=MadeUpTimes(result_of),
        database="memory" if database is None else database,
        cost_model=None,
        measure_callbacks=callbacks or "default",
        task_scheduler=scheduler,
        **config,
    )
    with Run.open(tasks, [1.0] * len(tasks), folder, options) as run:
        tune_run(run)
    return [len(record.latency_ms) for record in scheduler.tasks]


def one_ms(_: int) -> RunnerResult:
    return RunnerResult(run_secs=(1e-3,))


def test_tasks_are_measured_before_all_of_them_have_a_batch(tmp_path: Path) -> None:
    """A bound on the time may come before the last of many tasks has its first candidates.

    The builds of the next batch would disturb a measurement, and start after it.
    """
    scheduler = TaskScheduler.create("gradient")
    batches: list[list[int]] = []

    def seen(_: int) -> RunnerResult:
        batches.append([task.batches for task in scheduler.tasks])
        return RunnerResult(run_secs=(1e-3,))

    assert tune(tmp_path, scheduler, [task(name) for name in "abcd"], seen, 4, batch=1) == [1] * 4
    assert batches[:2] == [[1, 0, 0, 0], [1, 1, 0, 0]]


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
    assert record.errors.total() == 1


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
        first = scheduler.tasks[0]
        fails = first.trials < 2 * first.batches
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
    task = TaskState(None, build_seconds=build_seconds, measure_seconds=measure_seconds)
    assert task.is_faster_side_by_side(cores) == beside


def test_a_batch_that_fails_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(k: int) -> RunnerResult:
        return (
            RunnerResult(error_msg="Traceback:\n  in main\nValueError: no shape")
            if k
            else one_ms(k)
        )

    tune(tmp_path, TaskScheduler.create("gradient"), [task("a")], fails, 4)
    shown = capsys.readouterr().err
    assert shown.count("every trial of the batch failed") == 1, "not of the first, where one ran"
    assert (
        'Task #0 "a": every trial of the batch failed, the first with: ValueError: no sh' in shown
    )


# ---------------------------------------------------------------------------------- early stopping


def milliseconds(*times: float) -> Callable[[int], RunnerResult]:
    """Return the times of the first trials, and a failure for each one after them."""

    def result_of(k: int) -> RunnerResult:
        if k < len(times):
            return RunnerResult(run_secs=(times[k] * 1e-3,))
        return RunnerResult(error_msg="slower than slow")

    return result_of


@pytest.mark.parametrize("limit", ["early_stopping", "early_stopping_per_task"])
def test_a_search_ends_after_trials_since_best(tmp_path: Path, limit: str) -> None:
    scheduler = TaskScheduler.create("gradient")
    times = milliseconds(5, 4, 3, 3, 9, 1)
    assert tune(tmp_path, scheduler, [task("a")], times, 20, batch=1, **{limit: 4}) == [10]
    assert tune(tmp_path, scheduler, [task("a")], times, 20, batch=1, **{limit: 2}) == [5]
    assert tune(tmp_path, scheduler, [task("a")], times, 20, batch=2, **{limit: 2}) == [8]
    assert tune(tmp_path, scheduler, [task("a")], times, 8, batch=1, **{limit: 4}) == [8]


def test_a_task_in_vain_leaves_its_trials_to_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scheduler = TaskScheduler.create("round-robin")

    def second_improves(k: int) -> RunnerResult:
        # Both have a batch on its way while the first is measured, the second alone.
        record = scheduler.tasks[0]
        first = record.trials < record.batches
        return RunnerResult(run_secs=((1.0 if first else 1 / (2 + k)),))

    tasks = [task("stays"), task("improves")]
    trials = tune(
        tmp_path, scheduler, tasks, second_improves, 12, batch=1, early_stopping_per_task=3
    )
    assert trials == [4, 8]
    shown = capsys.readouterr().err
    assert 'Task #0 "stays" ends early: none of its last 3 trials was better than its best' in shown


def test_a_search_does_not_give_up_before_every_task_has_a_time(tmp_path: Path) -> None:
    scheduler = TaskScheduler.create("round-robin")
    tasks = [task("a"), task("b")]
    failing = milliseconds()
    assert tune(tmp_path, scheduler, tasks, failing, 12, batch=1, early_stopping=2) == [6, 6]


def test_tuning_tasks_may_end_early(tmp_path: Path) -> None:
    (tmp_path / "artifacts").mkdir()
    database = ms.tune_tasks(
        tasks=[task("a")],
        task_weights=[1.0],
        work_dir=tmp_path,
        max_trials_global=20,
        num_trials_per_iter=1,
        builder=EmptyFiles(tmp_path / "artifacts"),
        runner=MadeUpTimes(one_ms),
        database="memory",
        cost_model="none",
        num_confirmed=0,
        early_stopping=3,
    )
    assert len(database) == 4


def test_patience() -> None:
    patience = Patience(3)
    for value, in_vain in [(None, 2), (None, 4), (5.0, 0), (5.0, 2), (4.0, 0), (6.0, 2)]:
        patience.note(value, 2)
        assert patience.trials_since_best == in_vain
        assert not patience.is_over
    patience.note(4.0, 2)
    assert patience.is_over


@pytest.mark.parametrize("limit", ["early_stopping", "early_stopping_per_task"])
def test_patience_is_at_least_one_trial(limit: str) -> None:
    with pytest.raises(ms.TuningError, match=f"{limit} is an int of at least 1, got 0"):
        ms.TuneConfig(8, **{limit: 0})


# ----------------------------------------------------------------------------------- earlier records


def test_records_of_earlier_runs_count_as_batches(tmp_path: Path) -> None:
    database = ms.database.MemoryDatabase()
    before = TaskScheduler.create("gradient")
    tune(tmp_path, before, [task("a")], milliseconds(3, 2, 4, 5, 6), 5, database=database)
    after = TaskScheduler.create("gradient")
    tune(tmp_path, after, [task("a")], milliseconds(9, 8), 2, database=database)
    (record,) = after.tasks
    assert record.known_ms == 2.0
    assert record.best_ms == 2.0, "of the earlier run"
    assert record.batches == 3 + 1, "5 records in batches of 2, and one more"
    assert record.trials == 2, "which are those of this run"
    assert record.trials_since_best == 2
    assert record.best_history_ms == [2.0, 2.0]


def test_few_earlier_records_do_not_make_a_batch() -> None:
    record = TaskState(task("a")).begin(known=[], batch_size=2)
    assert (record.batches, record.best_ms, record.best_history_ms) == (0, None, [])


# ------------------------------------------------------------------------------------ the objective


def known(*best_ms: float | None, gflops: float = 1.0, batches: int = 4) -> list[TaskState]:
    """Return tasks with these latencies, which did not get better since their first batch."""
    tasks = []
    for best in best_ms:
        ctx = ms.TuneContext(Matmul, target=TARGET)
        record = TaskState(
            ctx, index=len(tasks), flop=gflops * 1e6 * (best or 1.0), batches=batches
        )
        record.latency_ms = [] if best is None else [best]
        record.best_history_ms = [1e9 if best is None else best] * batches
        tasks.append(record)
    return tasks


def choice(scheduler: TaskScheduler, tasks: list[TaskState]) -> int:
    for place, task in enumerate(tasks):
        task.index = place
    if list(scheduler.tasks) != tasks:
        scheduler.begin(tasks)
    return scheduler.next_task_id()


def test_an_objective_that_knows_one_task_gets_its_trials(tmp_path: Path) -> None:
    scheduler = ms.task_scheduler.GradientBased(objective_func=lambda costs: 1e5 * costs[0], seed=1)
    assert tune(tmp_path, scheduler, [task("a"), task("b")], one_ms, 5, batch=1) == [4, 1]


def test_the_objective_is_the_weighted_sum_unless_it_is_given() -> None:
    tasks = known(5.0, 1.0)
    tasks[1].task_weight = 10.0
    assert choice(ms.task_scheduler.GradientBased(seed=1), tasks) == 1
    slowest = ms.task_scheduler.GradientBased(objective_func=max, seed=1)
    assert choice(slowest, tasks) == 0, "only the slowest task lowers the maximum"


def test_an_objective_that_is_reached_asks_for_no_more() -> None:
    def above_2_ms(costs: Sequence[float]) -> float:
        return sum(max(seconds, 2e-3) for seconds in costs)

    scheduler = ms.task_scheduler.GradientBased(objective_func=above_2_ms, seed=1)
    assert choice(scheduler, known(1.0, 1.9, 2.1)) == 2


def test_a_task_without_a_time_counts_as_the_slowest() -> None:
    asked = []

    def remembered(costs: Sequence[float]) -> float:
        asked.append(tuple(costs))
        return sum(costs)

    scheduler = ms.task_scheduler.GradientBased(objective_func=remembered, seed=1)
    tasks = known(1.0, 4.0, None)
    tasks[2].batches = 8
    assert choice(scheduler, tasks) == 1
    assert asked[0] == (1e-3, 4e-3, 4e-3)


# ------------------------------------------------------------------------------------ similar tasks


def test_a_task_that_is_slow_for_its_kind_promises_more() -> None:
    """At 8 GFLOPS like the first, with a factor of 2 to spare, the second could save 6 of 8 ms."""
    tasks = [*known(20.0, gflops=8.0), *known(8.0, gflops=1.0)]
    assert choice(ms.task_scheduler.GradientBased(seed=1), tasks) == 0
    alike = ms.task_scheduler.GradientBased(seed=1, group_of=lambda _: "conv2d")
    assert choice(alike, tasks) == 1
    strict = ms.task_scheduler.GradientBased(seed=1, group_of=lambda _: "conv2d", beta=7.0)
    assert choice(strict, tasks) == 0, "1/7 of the speed is all that is expected"


def test_a_task_that_stays_slow_leaves_its_group() -> None:
    scheduler = ms.task_scheduler.GradientBased(seed=1, group_of=lambda _: "conv2d")
    fast, slow = [*known(20.0, gflops=8.0), *known(8.0, gflops=1.0)]
    assert choice(scheduler, [fast, slow]) == 1
    slow.batches = fast.batches + 5
    assert choice(scheduler, [fast, slow]) == 1
    slow.batches = fast.batches + 6
    assert choice(scheduler, [fast, slow]) == 0
    slow.batches = fast.batches
    assert choice(scheduler, [fast, slow]) == 0, "it does not come back"


def tagged(size: int, tag: str | None) -> TaskState:
    """Return the task of doubling numbers, `size` operations."""
    a = te.placeholder((size,), name="A")
    attrs = {} if tag is None else {"auto_scheduler_task_scheduler_tag": tag}
    doubled = te.compute((size,), lambda i: a[i] * 2.0, name="B", attrs=attrs)
    return TaskState(ms.TuneContext(te.create_prim_func([a, doubled]), target=TARGET)).begin()


def test_similar_are_tasks_with_the_same_tag_and_about_as_many_operations() -> None:
    # The golden ratio to the 14th is 843, to the 15th 1364.
    assert tagged_group(tagged(900, "double")) == ("double", 14)
    assert tagged_group(tagged(1300, "double")) == ("double", 14)
    assert tagged_group(tagged(1400, "double")) == ("double", 15)
    assert tagged_group(tagged(900, "twice")) == ("twice", 14)
    assert tagged_group(tagged(900, None)) is None


def test_tasks_without_a_group_are_similar_to_none() -> None:
    assert SimilarTasks([None, None], 2.0).reachable_ms(0, known(1.0, 2.0)) is None
    assert SimilarTasks(["a", "b"], 2.0).reachable_ms(0, known(1.0, 2.0)) is None
    assert SimilarTasks(["a", "a"], 2.0).reachable_ms(0, known(None, None)) is None
    one, two = [*known(6.0, gflops=1.0), *known(2.0, gflops=4.0)]
    assert SimilarTasks(["a", "a"], 2.0).reachable_ms(0, [one, two]) == pytest.approx(3.0)
