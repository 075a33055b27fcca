"""The listeners to the measurements of a search: logs and tables."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from search.auto_scheduler.log.record import (
    MeasureInput,
    MeasureResult,
    dump_record_to_string,
)
from search.context import TuneContext
from search.errors import TuningError
from search.measure_callback import MeasureCallback
from search.records.appended_file import append_lines, replace_lines
from search.records.measure_error_no import MeasureErrorNo
from search.task_scheduler.task_record import statistics_table

if TYPE_CHECKING:
    from search.auto_scheduler.search_task import SearchTask
    from search.builder import BuilderResult
    from search.database import TuningRecord
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult
    from search.search_strategy import SearchStrategy
    from search.space_generator import SpaceGenerator
    from search.task_scheduler import TaskScheduler


class TaskContext(TuneContext):
    """A task of the search that knows which `SearchTask` it is."""

    def __init__(
        self, task: SearchTask, space: SpaceGenerator, strategy: SearchStrategy, seed: int
    ) -> None:
        self.search_task = task
        super().__init__(
            task.mod,
            target=task.target,
            space_generator=space,
            search_strategy=strategy,
            task_name=str(task),
            rand_state=seed,
        )


class MeasurementSink(MeasureCallback):
    """Is told of each measurement of a `SearchTask` in Ansor's terms."""

    def take(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Take note of one measurement."""
        raise NotImplementedError

    def apply_to_trial(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        candidate: MeasureCandidate,
        builder_result: BuilderResult,
        runner_result: RunnerResult,
    ) -> None:
        """Take note of a trial."""
        task = self._task(task_scheduler, task_id)
        result = _result(builder_result, runner_result)
        self.take(MeasureInput(task, candidate.sch.trace), result)

    def apply_to_confirmed(
        self, task_scheduler: TaskScheduler, task_id: int, record: TuningRecord
    ) -> None:
        """Take note of one of the best, measured again."""
        task = self._task(task_scheduler, task_id)
        costs = tuple(record.run_secs or ())
        result = MeasureResult(costs, MeasureErrorNo.NO_ERROR, "", sum(costs), time.time())
        self.take(MeasureInput(task, record.trace), result)

    def _task(self, task_scheduler: TaskScheduler, task_id: int) -> SearchTask:
        """Return the task that a search is of; TuningError where there is none."""
        context = task_scheduler.tasks[task_id].ctx
        if not isinstance(context, TaskContext):
            raise TuningError(
                f"{type(self).__name__} writes the SearchTask of each measurement, and the task "
                f'"{context.task_name}" was not made of one; use SearchTask.tune or a '
                "TaskScheduler of auto_scheduler, or keep a database"
            )
        return context.search_task


class RecordToFile(MeasurementSink):
    """Appends each measurement to a log, a line in one write; directories are made if need be.

    When the search ends, the best few are measured again: they have a further line, the last one
    being that of the winner. Who reads the log takes that one (`load_best_record`).
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        Path(self.filename).parent.mkdir(parents=True, exist_ok=True)

    def take(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Append one line."""
        append_lines(self.filename, [dump_record_to_string(inp, result)])


class CollectMeasurements(MeasurementSink):
    """Keeps the measurements in two lists."""

    def __init__(self) -> None:
        self.inputs: list[MeasureInput] = []
        self.results: list[MeasureResult] = []

    def take(self, inp: MeasureInput, result: MeasureResult) -> None:
        """Append to both."""
        self.inputs.append(inp)
        self.results.append(result)


class PrintTableInfo(MeasureCallback):
    """Prints the table of all tasks after each batch."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Print the table."""
        sys.stdout.write(statistics_table(task_scheduler.tasks) + "\n")
        sys.stdout.flush()


class LogEstimatedLatency(MeasureCallback):
    """Writes a line after each batch: elapsed seconds, estimated milliseconds, trials so far.

    The fields are `ElapsedTime(s)`, `EstimatedLatency(ms)` and `Trials`, each before its value,
    separated by tabs. What is estimated is the objective of the scheduler, `N/A` before every task
    has a latency. The first line of a search takes the place of an earlier file.
    """

    def __init__(self, log_file: str | os.PathLike[str]) -> None:
        self.log_file = Path(log_file)
        self._run: object = None

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Write a line."""
        run = task_scheduler.run
        assert run is not None
        objective = task_scheduler.objective_now()
        latency = "N/A" if objective is None else f"{objective * 1e3:.3f}"
        trials = sum(task.trials for task in task_scheduler.tasks)
        line = (
            f"ElapsedTime(s)\t{run.seconds:.0f}\tEstimatedLatency(ms)\t{latency}\tTrials\t{trials}"
        )
        write = append_lines if run is self._run else replace_lines
        write(self.log_file, [line])
        self._run = run


def _result(build: BuilderResult, run: RunnerResult) -> MeasureResult:
    """Return the result of a trial, with the error numbers that logs have.

    One that was ended early has no cost: what is known is a bound of it.
    """
    spent = build.seconds + run.seconds
    costs = tuple(run.run_secs or ())
    if build.error_msg is not None:
        return MeasureResult.failed(MeasureErrorNo.of_build(build), build.error_msg, spent)
    error_no = MeasureErrorNo.of_run(run)
    if error_no == MeasureErrorNo.NO_ERROR:
        return MeasureResult(costs, error_no, "", spent, time.time())
    if not run.stopped:
        return MeasureResult.failed(error_no, run.error_msg or "", spent)
    text = f"ended in its first call, which took longer than {costs[0]:.3g} s: not the best"
    return MeasureResult.failed(error_no, text, spent)._replace(slower_than=costs[0])
