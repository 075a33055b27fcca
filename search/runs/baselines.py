"""What a search has to beat: the unscheduled program, and the serial forms of its schedules.

Each is measured once when the search of a task is over, and gets a record like any trial; those
that may be as fast as the best are then measured again beside it (`name_winner`). So the database
has the time of the unscheduled program, and a build that takes the best record takes that one where
no schedule is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from schedule import Schedule
from search.arg_info import ArgInfo
from search.builder import BuilderInput
from search.database.records import TuningRecord
from search.measuring.measure_candidate import MeasureCandidate
from search.reports.profiler import Profiler
from search.runner import RunnerInput, RunnerResult
from search.runner.time_call import HOPELESS
from search.search_strategy.trace_application import TraceApplication
from search.spaces.decision_site import serial_form

if TYPE_CHECKING:
    from search.runs.tuning_run import TuningRun
    from search.task_scheduler import TaskRecord

_SHARE: Final = 0.1
BASELINE_SECONDS: Final = 0.3
"""The time for which the end of an unscheduled program is waited for: a share of the search, but
enough for small ones."""


def measure_baselines(run: TuningRun, task: TaskRecord, records: Sequence[TuningRecord]) -> None:
    """Measure the unscheduled program and the serial forms of `records`; keep what they take.

    `task.baselines` gets a record of each that runs, and the database has it. An unscheduled
    program that takes long is called once; one that takes very long is not waited for, and gets no
    record. A serial form that was measured before is not measured again.
    """
    assert task.ctx.mod is not None
    run.progress.phase("measuring the unscheduled program")
    with Profiler.timeit("MeasureBaselines"):
        usual = max(BASELINE_SECONDS, _SHARE * run.seconds / len(run.tasks))
        longest = min(usual, run.seconds_left) / HOPELESS
        plain = MeasureCandidate(Schedule(task.ctx.mod), ArgInfo.from_entry_func(task.ctx.mod))
        task.unscheduled = _measured(run, task, plain, longest, None)
        if task.ctx.constraint is None:  # of decisions, which it has none of
            _keep(run, task, plain, task.unscheduled)
        reference = None if task.reference is None else task.reference.result().artifact_path
        for serial in _serial_forms(task, records) if reference else ():
            seconds = None if task.best_ms is None else task.best_ms / 1e3
            _keep(run, task, serial, _measured(run, task, serial, seconds, reference))


def _serial_forms(task: TaskRecord, records: Sequence[TuningRecord]) -> Iterator[MeasureCandidate]:
    """Yield the schedules of records without their parallel loops, each once."""
    application = TraceApplication(task.ctx)
    known: set[str] = set()
    for record in records:
        trace = serial_form(record.trace)
        sch = None if trace is None else application.apply(trace)
        if sch is not None and sch.mod.script() not in known and task.ctx.allows(sch):
            known.add(sch.mod.script())
            yield application.candidate(sch)


def _measured(
    run: TuningRun,
    task: TaskRecord,
    candidate: MeasureCandidate,
    best: float | None,
    reference: str | None,
) -> RunnerResult | None:
    """Return what a measurement gave; None where it fails."""
    target = task.ctx.target
    assert target is not None
    (built,) = run.builder.build([BuilderInput(candidate.sch.mod, target)])
    if built.artifact_path is None:
        return None
    entry = RunnerInput(
        built.artifact_path,
        target.kind,
        candidate.args_info,
        reference,
        best_seconds=best,
        facts=task.facts,
        input_data=task.ctx.input_data,
    )
    try:
        (future,) = run.runner.run([entry])
        result = future.result()
    finally:
        run.builder.remove_artifact(built.artifact_path)
    return None if result.median_secs is None else result


def _keep(
    run: TuningRun, task: TaskRecord, candidate: MeasureCandidate, result: RunnerResult | None
) -> None:
    """Commit the record of a baseline, unless it failed or is certainly slower than the best."""
    if result is None or result.stopped:
        return
    assert task.ctx.mod is not None
    record = TuningRecord(
        candidate.sch.trace,
        run.database.commit_workload(task.ctx.mod),
        result.run_secs,
        task.ctx.target,
        candidate.args_info,
    )
    task.ctx.objective.note(result.run_secs or (), [result])
    run.database.commit_tuning_record(record)
    task.baselines.append(record)
