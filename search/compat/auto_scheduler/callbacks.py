"""The listeners to the measurements of a search: logs and tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search.compat.auto_scheduler.records import (
    MeasureInput,
    MeasureResult,
    dump_record_to_string,
)
from search.compat.auto_scheduler.task import WorkloadTask
from search.compat.auto_scheduler.workloads import register_program
from search.context import TuneContext
from search.database.measure_error_no import MeasureErrorNo
from search.lines import append_lines, replace_lines
from search.measure_callback import MeasureCallback
from search.task_scheduler.task_state import statistics_table

if TYPE_CHECKING:
    from search.builder import BuilderResult
    from search.database import TuningRecord
    from search.run import Run
    from search.runner import RunnerResult
    from search.runner.measure_candidate import MeasureCandidate


class TaskContext(TuneContext):
    """A task of the search that knows what a log says of it."""

    def __init__(self, task: WorkloadTask, **parts: Any) -> None:
        self.search_task = task
        super().__init__(task.mod, target=task.target, task_name=str(task), **parts)


class RecordToFile(MeasureCallback):
    """Appends each measurement to a log, a line in one write; directories are made if need be.

    When the search ends, the best few are measured again: they have a further line, the last one
    being that of the winner. Who reads the log takes that one (`load_best_record`). In a search
    that is not of a `SearchTask` the workload is the program, by its hash, as in `from_database`.
    """

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        self.filename = os.fspath(filename)
        Path(self.filename).parent.mkdir(parents=True, exist_ok=True)

    def apply_to_trial(
        self,
        run: Run,
        task_id: int,
        candidate: MeasureCandidate,
        builder_result: BuilderResult,
        runner_result: RunnerResult,
    ) -> None:
        """Take note of a trial."""
        result = _result(builder_result, runner_result)
        self._append(MeasureInput(_task(run, task_id), candidate.sch.trace), result)

    def apply_to_confirmed(self, run: Run, task_id: int, record: TuningRecord) -> None:
        """Take note of one of the best, measured again."""
        costs = tuple(record.run_secs or ())
        result = MeasureResult.now(costs, all_cost=sum(costs))
        self._append(MeasureInput(_task(run, task_id), record.trace), result)

    def _append(self, inp: MeasureInput, result: MeasureResult) -> None:
        append_lines(self.filename, [dump_record_to_string(inp, result)])


def _task(run: Run, task_id: int) -> WorkloadTask:
    """Return the task that a log says; the program is its own workload in any other search."""
    context = run.tasks[task_id].ctx
    if isinstance(context, TaskContext):
        return context.search_task
    assert context.mod is not None
    assert context.target is not None
    return WorkloadTask(register_program(context.mod.prim_func("main")), context.target)


def _result(build: BuilderResult, run: RunnerResult) -> MeasureResult:
    """Return the result of a trial, with the error numbers that logs have.

    One that was ended early has no cost: what is known is a bound of it.
    """
    spent = build.seconds + run.seconds
    costs = tuple(run.run_secs or ())
    if build.error_msg is not None:
        return MeasureResult.now(costs, MeasureErrorNo.of_build(build), build.error_msg, spent)
    error_no = MeasureErrorNo.of_run(run)
    if not run.stopped:
        return MeasureResult.now(costs, error_no, run.error_msg or "", spent)
    text = f"ended in its first call, which took longer than {costs[0]:.3g} s: not the best"
    return MeasureResult.now(costs, error_no, text, spent, costs[0])


class PrintTableInfo(MeasureCallback):
    """Prints the table of all tasks after each batch."""

    def apply(
        self,
        run: Run,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Print the table."""
        sys.stdout.write(statistics_table(run.tasks) + "\n")
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
        run: Run,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Write a line."""
        objective = run.scheduler.objective_now()
        latency = "N/A" if objective is None else f"{objective * 1e3:.3f}"
        trials = sum(task.trials for task in run.tasks)
        line = (
            f"ElapsedTime(s)\t{run.budget.seconds:.0f}\tEstimatedLatency(ms)\t{latency}"
            f"\tTrials\t{trials}"
        )
        write = append_lines if run is self._run else replace_lines
        write(self.log_file, [line])
        self._run = run
