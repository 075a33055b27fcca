"""Measure callbacks that write logs and tables."""

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
from search.database.record_files import MeasureErrorNo
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
    """A task of the search with the `WorkloadTask` that logs need."""

    def __init__(self, task: WorkloadTask, **parts: Any) -> None:
        self.search_task = task
        super().__init__(
            task.mod,
            target=task.target,
            task_name=str(task),
            input_data=task.task_inputs,
            **parts,
        )


class RecordToFile(MeasureCallback):
    """Appends each measurement to a log, a line in one write; missing directories are made.

    At the end of a search the best few candidates are measured again, and each gets another line;
    the winner's is the last one, and `load_best_record` returns it. In a search without a
    `SearchTask` the workload is the hash of the program, as in `from_database`.
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
        """Append a trial."""
        spent = builder_result.seconds + runner_result.seconds
        costs = tuple(runner_result.run_secs or ())
        text, bound = builder_result.error_msg or runner_result.error_msg or "", None
        if builder_result.error_msg is None and runner_result.stopped:
            bound = costs[0]
            text = f"ended early: its first call was longer than {bound:.3g} s"
        error_no = MeasureErrorNo.of_trial(builder_result, runner_result)
        result = MeasureResult.now(costs, error_no, text, spent, bound)
        self._append(MeasureInput(_task(run, task_id), candidate.sch.trace), result)

    def apply_to_confirmed(self, run: Run, task_id: int, record: TuningRecord) -> None:
        """Append another measurement of one of the best candidates."""
        costs = tuple(record.run_secs or ())
        result = MeasureResult.now(costs, all_cost=sum(costs))
        self._append(MeasureInput(_task(run, task_id), record.trace), result)

    def _append(self, inp: MeasureInput, result: MeasureResult) -> None:
        append_lines(self.filename, [dump_record_to_string(inp, result)])


def _task(run: Run, task_id: int) -> WorkloadTask:
    """Return the task for a log; in other searches the program itself is the workload."""
    context = run.tasks[task_id].ctx
    if isinstance(context, TaskContext):
        return context.search_task
    assert context.mod is not None
    assert context.target is not None
    return WorkloadTask(register_program(context.mod.prim_func("main")), context.target)


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
    separated by tabs. The estimate is the objective of the scheduler, `N/A` until every task has a
    latency. The first line of a search replaces an earlier file.
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
