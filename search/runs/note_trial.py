"""Adding a trial to the trial log, the journal and the statistics, and logging it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

from search.builder import BuilderResult
from search.reports.run_directory import TRIALS
from search.reports.trial import Stage, Trial
from search.run import Run
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.task_scheduler.task_state import FAILED_MS, TaskState, statistics_table


def enter_trial(
    run: Run,
    task: TaskState,
    candidate: MeasureCandidate,
    build: BuilderResult,
    result: RunnerResult,
) -> Trial:
    """Write a trial to the trial log and the journal of its run, and return it."""
    trial = trial_of(
        candidate,
        result,
        build,
        task=task.ctx.task_name,
        workload=run.database.workload_key(task.ctx.program),
        target=str(task.ctx.target),
        batch=task.batches - 1,
        number=task.trials,
        time=time.time(),
    )
    run.store.add(TRIALS, trial)
    if not trial.failed:
        task.ctx.objective.note(trial.run_secs, [result])
    run.journal.note_trial(task.index)
    return trial


def trial_of(
    candidate: MeasureCandidate,
    result: RunnerResult,
    build: BuilderResult | None = None,
    **fields: Any,
) -> Trial:
    """Return the trial of a candidate with a result; `fields` has its task and its place there."""
    error = result.error_msg if build is None else build.error_msg or result.error_msg
    stage: Stage = "stopped" if result.stopped else "done"
    if error is not None:
        stage = "build" if build is not None and build.error_msg is not None else result.stage
    return Trial(
        **fields,
        stage=stage,
        error=error,
        build_secs=result.build_seconds + (0.0 if build is None else build.seconds),
        measure_secs=result.seconds,
        run_secs=result.run_secs or (),
        predicted=candidate.predicted,
        space=candidate.space_index,
        decisions=None if candidate.decisions is None else list(candidate.decisions),
        machine=result.machine,
    )


def count_trial(run: Run, task: TaskState, candidate: MeasureCandidate, trial: Trial) -> None:
    """Add a trial to the statistics and the log of its task."""
    prefix = f"[Task #{task.index}: {task.ctx.task_name}] Trial #{task.trials + 1}: "
    task.build_seconds += trial.build_secs
    task.measure_seconds += trial.measure_secs
    if trial.failed:
        task.latency_ms.append(FAILED_MS)
        task.errors[_last_line(trial.error)] += 1
        task.ctx.logger.info(
            "%sError in %s:\n%s\n%s\n%s",
            prefix,
            "building" if trial.stage == "build" else "running",
            trial.error,
            candidate.sch.mod,
            candidate.sch.trace,
        )
    else:
        is_stopped = trial.stage == "stopped"
        latency = statistics.median(trial.run_secs) * 1e3
        task.latency_ms.append(FAILED_MS if is_stopped else latency)
        task.ctx.logger.info(
            "%sGFLOPs: %.4f. Time: %.4f us%s. Best GFLOPs: %.4f",
            prefix,
            task.flop / latency / 1e6,
            latency * 1e3,
            " or more, ended early" if is_stopped else "",
            task.best_gflops or 0.0,
        )
    best = task.best_ms
    run.progress.trial("" if best is None else f"{best * 1e3:.2f} us")


def log_batch(run: Run, task: TaskState, results: Sequence[RunnerResult]) -> None:
    """Log the results of a batch, and show the table of all tasks."""
    failed = sum(result.error_msg is not None for result in results)
    best = task.best_ms
    speed = f", {task.best_gflops:.2f} GFLOPS" if task.flop > 1 and task.best_gflops else ""
    stopped = sum(result.stopped for result in results)
    run.log.info(
        "%s: %s measured%s%s, %d in all; %s",
        task.title,
        "1 trial" if len(results) == 1 else f"{len(results)} trials",
        f", {failed} failed" if failed else "",
        f", {stopped} ended early as too slow" if stopped else "",
        task.trials,
        "none has succeeded so far"
        if best is None
        else f"the best so far takes {best * 1e3:.2f} us" + speed,
    )
    if failed == len(results):
        run.log.warning(
            "%s: every trial of the batch failed, the first with: %s",
            task.title,
            _last_line(results[0].error_msg),
        )
    show_statistics(run)


def log_failed_tasks(run: Run) -> None:
    """Warn of each task without a working trial, with its most frequent error."""
    for task in run.tasks:
        if task.best_ms is not None or not task.errors:
            continue
        (error, count), *others = task.errors.most_common()
        run.log.warning(
            "%s has no schedule: all of its %d trials failed, %s with: %s",
            task.title,
            task.errors.total(),
            f"{count} of them" if others else "each",
            error,
        )


def show_statistics(run: Run) -> None:
    """Log the table of all tasks, and show it instead of the previous table."""
    table = statistics_table(run.tasks)
    run.log.debug("\n%s\n", table)
    run.progress.table(table)


def _last_line(text: str | None) -> str:
    *_, last = (text or "").strip().splitlines() or [""]
    return last
