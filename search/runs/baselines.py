"""What a search has to beat: the unscheduled program, and the serial forms of its schedules.

Each is measured once when the search of a task is over, and gets a record like any trial; those
that may be as fast as the best are then measured again beside it (`name_winner`). So the database
has the time of the unscheduled program, and a build that takes the best record takes that one where
no schedule is faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from schedule import Schedule
from search.arg_info import ArgInfo
from search.database.records import TuningRecord
from search.reports.profiler import Profiler
from search.run import Run
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.runner.time_call import HOPELESS
from search.runs.built_entries import built_entries
from search.runs.time_budget import BASELINE_SECONDS
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.knobs import serial_form
from search.task_scheduler.task_state import TaskState

_SHARE: Final = 0.1
"""The share of the time of a search for which the end of an unscheduled program is waited for."""


def measure_baselines(run: Run, task: TaskState, records: Sequence[TuningRecord]) -> None:
    """Measure the unscheduled program and the serial forms of `records`; keep what they take.

    `task.baselines` gets a record of each that runs, and the database has it. An unscheduled
    program that takes long is called once; one that takes very long is not waited for, and gets no
    record. A serial form that was measured before is not measured again.
    """
    assert task.ctx.mod is not None
    run.progress.phase("measuring the unscheduled program")
    with Profiler.timeit("MeasureBaselines"):
        usual = max(BASELINE_SECONDS, _SHARE * run.budget.seconds / len(run.tasks))
        longest = min(usual, run.budget.left) / HOPELESS
        plain = MeasureCandidate(Schedule(task.ctx.mod), ArgInfo.from_entry_func(task.ctx.mod))
        task.unscheduled = _measured(run, task, plain, longest, None)
        if task.ctx.constraint is None:  # of decisions, which it has none of
            _keep(run, task, plain, task.unscheduled)
        reference = None if task.reference is None else task.reference.result().artifact_path
        for serial in _serial_forms(task, records) if reference else ():
            seconds = None if task.best_ms is None else task.best_ms / 1e3
            _keep(run, task, serial, _measured(run, task, serial, seconds, reference))


def _serial_forms(task: TaskState, records: Sequence[TuningRecord]) -> Iterator[MeasureCandidate]:
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
    run: Run,
    task: TaskState,
    candidate: MeasureCandidate,
    best: float | None,
    reference: str | None,
) -> RunnerResult | None:
    """Return what a measurement gave; None where it fails."""
    with built_entries(
        run.builder, task.ctx, [candidate], task.facts, reference=reference, best=best
    ) as entries:
        if not entries:
            return None
        (future,) = run.runner.run(list(entries.values()))
        result = future.result()
    return None if result.median_secs is None else result


def _keep(
    run: Run, task: TaskState, candidate: MeasureCandidate, result: RunnerResult | None
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
