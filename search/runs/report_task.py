"""What a run reports of a task when it is over: before and after, and what the machine can do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from search.analysis.roofline import Roofline, roofline
from search.reports.profiler import Profiler
from search.task_scheduler.task_record import FAILED_MS
from search.trials.report import ProgramName, TaskReport
from search.trials.trial import Trial

if TYPE_CHECKING:
    from search.runs.tuning_run import TuningRun
    from search.task_scheduler import TaskRecord


def report_task(
    run: TuningRun, task: TaskRecord, trials: Mapping[ProgramName, Sequence[Trial]]
) -> None:
    """Measure the machine, log a report of a task, and keep it.

    `trials` are those in the log of the run, by program. What is measured is part of measuring at
    the end, which `num_confirmed=0` leaves out.
    """
    roof = None
    if task.best_ms is None:
        return
    if run.config.num_confirmed and run.seconds_left > 0:
        run.progress.phase("measuring the machine")
        with Profiler.timeit("ReportTask"):
            roof = _roofline(run, task)
    task.report = report_of(run, task, trials, roof)
    run.report_log.append(task.report)
    run.logs.scheduler.info(
        'Task #%d "%s": %s',
        run.scheduler.tasks.index(task),
        task.ctx.task_name,
        task.report.in_a_sentence(),
    )


def report_of(
    run: TuningRun,
    task: TaskRecord,
    trials: Mapping[ProgramName, Sequence[Trial]],
    roof: Roofline | None = None,
) -> TaskReport:
    """Return what is known of a task; nothing is measured."""
    assert task.ctx.mod is not None
    workload = run.database.workload_key(task.ctx.mod)
    mine = trials.get((task.ctx.task_name, workload, str(task.ctx.target)), ())
    own = mine[-task.trials :] if task.trials else []  # the last ones are those of the run
    began = [ms / 1e3 for ms in (task.first_ms, *task.latency_ms) if ms < FAILED_MS]
    if task.first_again is not None:
        began.insert(0, task.first_again)
    winner, unscheduled = task.winner, task.unscheduled
    return TaskReport(
        task=task.ctx.task_name,
        target=str(task.ctx.target),
        workload=workload,
        weight=task.task_weight,
        unscheduled=None if unscheduled is None else unscheduled.median_secs,
        at_least=unscheduled is not None and unscheduled.stopped,
        first=next(iter(began), None),
        best=None if task.best_ms is None else task.best_ms / 1e3,
        spread=None if winner is None else winner.spread,
        rounds=0 if winner is None else winner.rounds,
        roofline=roof,
        trials=len(own),
        failed=sum(trial.failed for trial in own),
        stopped=sum(trial.stage == "stopped" for trial in own),
        seconds=task.seconds,
        exhausted=task.is_exhausted,
        winner=_winning_trial(run, task, own),
        ended=task.ended,
        time=time.time(),
    )


def _winning_trial(run: TuningRun, task: TaskRecord, trials: Sequence[Trial]) -> int | None:
    """Return the number of the trial that the winner comes from; None if it was not a trial."""
    if task.winner is None or task.ctx.mod is None:
        return None
    workload = run.database.commit_workload(task.ctx.mod)
    key = task.winner.record.trace_key
    same = [
        record
        for record in run.database.tuning_records_of(workload, task.ctx.target)
        if record.trace_key == key
    ]
    times = {tuple(record.run_secs or ()) for record in same}
    return next((t.number for t in trials if t.stage == "done" and t.run_secs in times), None)


def _roofline(run: TuningRun, task: TaskRecord) -> Roofline | None:
    mod, target = task.ctx.mod, task.ctx.target
    assert mod is not None
    assert target is not None
    return roofline(mod, target) if run.runner.measures_here(target) else None
