"""What a run reports of a task when it is over: before and after, and what the machine can do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from search.analysis.roofline import Roofline, roofline
from search.arg_info import ArgInfo
from search.builder import BuilderInput
from search.reports.profiler import Profiler
from search.runner import RunnerInput, RunnerResult
from search.runner.time_call import HOPELESS
from search.task_scheduler.task_record import FAILED_MS
from search.trials.report import ProgramName, TaskReport
from search.trials.trial import Trial

if TYPE_CHECKING:
    from search.runs.tuning_run import TuningRun
    from search.task_scheduler import TaskRecord

_SHARE: Final = 0.1
REPORT_SECONDS: Final = 0.3
"""The time for which the end of an unscheduled program is waited for: a share of the search, but
enough for small ones."""


def report_task(
    run: TuningRun, task: TaskRecord, trials: Mapping[ProgramName, Sequence[Trial]]
) -> None:
    """Measure the unscheduled program and the machine, log a report of a task, and keep it.

    `trials` are those in the log of the run, by program. What is measured is part of measuring at
    the end, which `num_confirmed=0` leaves out.
    """
    unscheduled, roof = None, None
    if task.best_ms is None:
        return
    if run.config.num_confirmed and run.seconds_left > 0:
        run.progress.phase("measuring the unscheduled program")
        with Profiler.timeit("ReportTask"):
            unscheduled = _unscheduled(run, task)
            roof = _roofline(run, task)
    task.report = report_of(run, task, trials, unscheduled, roof)
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
    unscheduled: RunnerResult | None = None,
    roof: Roofline | None = None,
) -> TaskReport:
    """Return what is known of a task; nothing is measured."""
    assert task.ctx.mod is not None
    workload = run.database.workload_key(task.ctx.mod)
    mine = trials.get((task.ctx.task_name, workload, str(task.ctx.target)), ())
    own = mine[-task.trials :] if task.trials else []  # the last ones are those of the run
    began = [ms / 1e3 for ms in (task.first_ms, *task.latency_ms) if ms < FAILED_MS]
    winner = task.winner
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
        time=time.time(),
    )


def _unscheduled(run: TuningRun, task: TaskRecord) -> RunnerResult | None:
    """Measure the program as it was given; None where that fails.

    One that takes long is called once, and one that takes very long is not waited for.
    """
    mod, target = task.ctx.mod, task.ctx.target
    assert mod is not None
    assert target is not None
    usual = max(REPORT_SECONDS, _SHARE * run.seconds / len(run.tasks))
    longest = min(usual, run.seconds_left)
    (built,) = run.builder.build([BuilderInput(mod, target)])
    if built.artifact_path is None:
        return None
    entry = RunnerInput(
        built.artifact_path,
        target.kind,
        ArgInfo.from_entry_func(mod),
        best_seconds=longest / HOPELESS,
        facts=task.facts,
        input_data=task.ctx.input_data,
    )
    try:
        (future,) = run.runner.run([entry])
        result = future.result()
    finally:
        run.builder.remove_artifact(built.artifact_path)
    return None if result.median_secs is None else result


def _roofline(run: TuningRun, task: TaskRecord) -> Roofline | None:
    mod, target = task.ctx.mod, task.ctx.target
    assert mod is not None
    assert target is not None
    return roofline(mod, target) if run.runner.measures_here(target) else None
