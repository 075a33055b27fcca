"""The report of a task at the end of a run: its times before and after, and the roofline."""

from __future__ import annotations

import time
from collections.abc import Sequence

from search.reports.profiler import Profiler
from search.reports.report import RunReport, TaskReport
from search.reports.roofline import Roofline, roofline
from search.reports.run_directory import REPORTS, TRIALS
from search.reports.tasks import Tasks
from search.reports.trial import Trial
from search.run import Run
from search.task_scheduler.task_state import FAILED_MS, TaskState


def report_task(run: Run, task: TaskState, logged: Tasks) -> None:
    """Measure the peak of the machine, and log and store the report of a task.

    `logged` has the trials in the log of the run. With `num_confirmed=0` nothing is measured.
    """
    roof = None
    if task.best_ms is None:
        return
    if run.config.num_confirmed and run.budget.left > 0:
        run.progress.phase("measuring the machine")
        with Profiler.timeit("ReportTask"):
            target = task.ctx.known_target
            if run.runner.measures_here(target):
                roof = roofline(task.ctx.program, target)
    task.report = _report_of(run, task, logged, roof)
    run.store.add(REPORTS, task.report)
    run.log.info("%s: %s", task.title, task.report.in_a_sentence())


def report_of_run(run: Run) -> RunReport:
    """Return the report of a run, in which unfinished tasks have what is known so far."""
    is_complete = all(task.report is not None for task in run.tasks)
    logged = Tasks([] if is_complete else run.store.latest(TRIALS))
    return RunReport([task.report or _report_of(run, task, logged) for task in run.tasks])


def _report_of(
    run: Run,
    task: TaskState,
    logged: Tasks,
    roof: Roofline | None = None,
) -> TaskReport:
    """Return the report of a task without measuring anything."""
    workload = run.database.workload_key(task.ctx.program)
    mine = logged.of((task.ctx.task_name, workload, str(task.ctx.target))).trials
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


def _winning_trial(run: Run, task: TaskState, trials: Sequence[Trial]) -> int | None:
    """Return the number of the trial of the winner; None if it was not a trial."""
    if task.winner is None:
        return None
    workload = run.database.commit_workload(task.ctx.program)
    records = run.database.tuning_records_of(workload, task.ctx.target)
    key = task.winner.record.trace_key
    times = {tuple(record.run_secs or ()) for record in records if record.trace_key == key}
    return next((t.number for t in trials if t.stage == "done" and t.run_secs in times), None)
