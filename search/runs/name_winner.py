"""The winner of a task, and its report.

The winner is the best of the search, and not slower than the initial trials and baselines. The
report has the times before and after the search, and the roofline.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from schedule import Schedule
from search.context import TuneContext
from search.database import Database
from search.database.best_records import RIVAL, with_schedules
from search.database.records import TuningRecord
from search.errors import blamed_on
from search.reports.profiler import Profiler
from search.reports.report import RunReport, TaskReport
from search.reports.roofline import Roofline, roofline
from search.reports.run_directory import REPORTS, TRIALS
from search.reports.tasks import Tasks
from search.reports.trial import Trial
from search.run import BASELINE_SECONDS, Run
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate
from search.runner.objective import SECONDS
from search.runner.time_call import HOPELESS
from search.runs.confirm_best import Confirmation, confirm_best, summary
from search.runs.measuring import built_inputs, interleaved_rounds, runner_input
from search.search_strategy.trace_application import TraceApplication
from search.space_generator.knobs import serial_form
from search.task_scheduler.task_state import FAILED_MS, TaskState
from tensorir.nodes.stmt import For, ForKind
from tensorir.rewriting.visit import walk

_FIRST_TRIALS: Final = 16
"""The maximum number of initial trials of a search: the default schedule, then samples."""
_EARLIER_RIVAL: Final = 2.0
"""The factor to the best time up to which an initial trial or a baseline may be as good: each was
measured once, at another time than the best.
"""
_MOST_COMPARISONS: Final = 4
"""The number of comparisons after which a winner is named even if other records have lower
times.
"""
_SHORT_SECONDS: Final = 1.0
"""The seconds for a winner below which only the best and the default schedule are compared."""
_BASELINE_FRACTION: Final = 0.1
"""The time limit of an unscheduled program, as a fraction of the time of the search."""


def name_winners(run: Run) -> None:
    """Measure the best candidates of each task again, if there is time, and store its report."""
    logged = Tasks(run.store.latest(TRIALS))
    unconfirmed = 0
    by_time = sorted(run.tasks, key=lambda task: -task.task_weight * (task.best_ms or 0.0))
    for number, task in enumerate(by_time):
        is_over = run.budget.left == 0
        unconfirmed += is_over and task.best_ms is not None
        if not is_over:
            with run.isolate_failure(task):
                name_winner(run, task, run.budget.for_winner_number(number))
    for task in run.tasks:
        if task.failure is None:
            with run.isolate_failure(task):
                report_task(run, task, logged)
    if unconfirmed and run.config.num_confirmed:
        run.log.info(
            "Time was too short to measure the best of %d task(s) again: their winners are the "
            "fastest of the search, measured once",
            unconfirmed,
        )


def name_winner(run: Run, task: TaskState, max_seconds: float = math.inf) -> None:
    """Measure the best few records of a task again, and commit and log the results.

    The winner is not slower than the first trial, the best of the first trials, and the baselines
    (`measure_baselines`), because these are measured together with it.

    The new times are committed as further records, which replace the old ones; those of the winner
    come last, so that the database returns it as the best. A record that was chosen for a low time
    is slower on average when it is measured again, so that other records may then rank first. These
    are then compared with the winner, until the best record was measured again.

    All this takes a small fraction of the time of the run, and at most `max_seconds`, except for
    the minimum number of rounds, and for a baseline that ranks first. If that is too short for many
    candidates (`_SHORT_SECONDS`), only the best and the first record are compared, because a search
    of a model begins with the schedule of the untuned model.
    """
    best = _best(run, task.ctx)
    if not best:
        return
    first = _earliest(run, task.ctx)[:1]
    is_short = max_seconds < _SHORT_SECONDS
    if not is_short:
        measure_baselines(run, task, [*first, best[0]])
    end = time.monotonic() + (0.0 if is_short else min(max_seconds, run.budget.for_a_winner))
    value = task.ctx.objective.of_record
    best = _best(run, task.ctx)  # the baselines may rank first
    contenders = [*best, *_to_beat(run, task, best)]
    if is_short:
        keys = [record.trace_key for record in (best[0], *first)]
        contenders = [record for record in contenders if record.trace_key in keys]
        if len(contenders) == 1:
            return
    baselines = {record.trace_key for record in task.baselines}
    compared: set[bytes] = set()
    found: list[Confirmation] = []
    not_compared: list[TuningRecord] = []
    comparisons = 0
    while contenders:
        repeated = [  # the seconds of the previous comparison
            one.record
            for one in found
            if one is found[0] or (one.record.trace_key in baselines and one.ratio < RIVAL)
        ]
        rivals = [*contenders, *repeated]
        run.progress.phase(f"measuring the best {len(rivals)} again")
        seconds = max(0.0, end - time.monotonic())
        with Profiler.timeit("ConfirmBest"):
            found = confirm_best(rivals, run.builder, run.runner, task.ctx, seconds)
        if not found:
            return
        found = _prefer_serial(found)
        _commit_confirmed(run, task, found, first)
        compared.update(record.trace_key for record in rivals)
        best = _best(run, task.ctx)
        contenders = [
            record
            for record in (*best, *_to_beat(run, task, [found[0].record, *best]))
            if record.trace_key not in compared and value(record) < value(found[0].record)
        ]
        comparisons += 1
        if time.monotonic() >= end or comparisons >= _MOST_COMPARISONS:
            not_compared = [r for r in contenders if r.trace_key not in baselines]
            contenders = [r for r in contenders if r.trace_key in baselines]
    task.winner = found[0]
    unsure = (
        f"; {len(not_compared)} other candidates were not re-measured (time limit); one of them "
        "may be faster"
        if not_compared
        else ""
    )
    run.log.info("%s: %s%s", task.title, summary(found), unsure)


def measure_baselines(run: Run, task: TaskState, records: Sequence[TuningRecord]) -> None:
    """Measure the unscheduled program and the serial forms of `records`, and commit the results.

    So the database has the time of the unscheduled program, and a build leaves a program
    unscheduled if no schedule is faster. An unscheduled program that runs long is called once; one
    that runs very long is stopped, and gets no record. A GPU runs no program without threads.
    """
    if task.ctx.known_target.gpu is not None:
        return
    run.progress.phase("measuring the unscheduled program")
    with Profiler.timeit("MeasureBaselines"):
        usual_seconds = max(
            BASELINE_SECONDS, _BASELINE_FRACTION * run.budget.seconds / len(run.tasks)
        )
        max_seconds = min(usual_seconds, run.budget.left) / HOPELESS
        plain = MeasureCandidate(Schedule(task.ctx.program))
        task.unscheduled = _measure(run, task, plain, max_seconds * 1e3, None)
        if task.ctx.constraint is None:  # a constraint checks decisions, and here are none
            _add_baseline(run, task, plain, task.unscheduled)
        reference = None if task.reference is None else task.reference.result().artifact_path
        for serial in _serial_forms(task, records) if reference else ():
            _add_baseline(run, task, serial, _measure(run, task, serial, task.best_ms, reference))


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


def _measure(
    run: Run,
    task: TaskState,
    candidate: MeasureCandidate,
    best_ms: float | None,
    reference: str | None,
) -> RunnerResult | None:
    """Return the result of a single measurement, None if it fails."""
    entry = runner_input(task.ctx, candidate, task.facts, reference, best_ms)
    with built_inputs(run.builder, task.ctx.known_target, [(candidate.mod, entry)]) as entries:
        rounds = next(interleaved_rounds(run.runner, entries), {})
    return rounds[0][0] if rounds else None


def _add_baseline(
    run: Run, task: TaskState, candidate: MeasureCandidate, result: RunnerResult | None
) -> None:
    """Commit the record of a baseline, unless it failed or is certainly slower than the best."""
    if result is None or result.stopped:
        return
    record = TuningRecord(
        candidate.sch.trace,
        run.database.commit_workload(task.ctx.program),
        result.run_secs,
        task.ctx.target,
        candidate.args_info,
    )
    task.ctx.objective.note(result.run_secs or (), [result])
    run.database.commit_tuning_record(record)
    task.baselines.append(record)


def _commit_confirmed(
    run: Run, task: TaskState, found: Sequence[Confirmation], first: Sequence[TuningRecord]
) -> None:
    """Commit the records of a comparison, the fastest last; `first` has the first of the task."""
    for confirmation in reversed(found):
        record = confirmation.record
        if first and record.trace_key == first[0].trace_key:
            task.first_again = confirmation.median
        if not record.trace.insts:
            task.unscheduled = RunnerResult(tuple(record.run_secs or ()))
        run.database.commit_tuning_record(record)
        for callback in run.measure_callbacks:
            with blamed_on(callback, lambda: f"the trace\n{record.trace}"):  # noqa: B023
                callback.apply_to_confirmed(run, task.index, record)


def _prefer_serial(found: Sequence[Confirmation]) -> list[Confirmation]:
    """Return the measurements, a serial schedule first if threads do not save time on average.

    Where other programs use the cores, some calls of a parallel loop wait for a thread, and the
    mean of its rounds is far above their median. So a parallel schedule comes first only if its
    mean is below the median of the fastest serial one.
    """
    best, *others = found
    mean = best.record.mean_seconds
    if all(mean < one.median for one in others) or not _has_threads(best.record):
        return list(found)
    serial = next((one for one in others if not _has_threads(one.record)), None)
    if serial is None or mean < serial.median:
        return list(found)
    return [serial, *(one for one in found if one is not serial)]


def _has_threads(record: TuningRecord) -> bool:
    functions = record.schedule().mod.prim_funcs().values()
    nodes = (node for func in functions for node in walk(func.body))
    return any(isinstance(node, For) and node.kind is ForKind.PARALLEL for node in nodes)


def _best(run: Run, task: TuneContext) -> list[TuningRecord]:
    """Return the best records of a task that are nearly as good as the best, best first."""
    if run.config.num_confirmed == 0:
        return []
    value = task.objective.of_record
    best = list(
        islice(_allowed_records(task, best_for(task, run.database)), run.config.num_confirmed)
    )
    return [record for record in best if value(record) < RIVAL * value(best[0])]


def best_for(task: TuneContext, database: Database) -> list[TuningRecord]:
    """Return the valid records of a task, best first by its objective."""
    workload = database.commit_workload(task.program)
    ranked = database.top_records(workload, len(database), task.target)
    if task.objective is SECONDS:
        return ranked
    values = {id(record): task.objective.of_record(record) for record in ranked}
    known = [record for record in ranked if values[id(record)] < math.inf]
    return sorted(known, key=lambda record: values[id(record)])


def _allowed_records(task: TuneContext, records: Sequence[TuningRecord]) -> Iterator[TuningRecord]:
    """Yield the records that replay and that the constraint of the task allows."""
    return (record for record, sch in with_schedules(records) if task.allows(sch))


def _to_beat(run: Run, task: TaskState, best: Sequence[TuningRecord]) -> list[TuningRecord]:
    """Return the first record, the best of the initial records, and the baselines, if they may win.

    Records in `best` are left out, and records that are at least twice as slow as the best.
    """
    if not best:
        return []
    value = task.ctx.objective.of_record
    first = _earliest(run, task.ctx)
    found = {
        record.trace_key: record
        for record in [*task.baselines, *first[:1], *sorted(first, key=value)[:1]]
    }
    return [
        record
        for key, record in found.items()
        if key not in {other.trace_key for other in best}
        and value(record) < _EARLIER_RIVAL * value(best[0])
    ]


def _earliest(run: Run, task: TuneContext) -> list[TuningRecord]:
    """Return the valid and allowed records among the first of a task."""
    known = run.database.tuning_records_of(run.database.commit_workload(task.program), task.target)
    first = [record for record in known[:_FIRST_TRIALS] if record.is_valid]
    if task.constraint is not None:
        first = list(_allowed_records(task, first))
    return [record for record in first if task.objective.of_record(record) < math.inf]


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
    """Return the report of a run; unfinished tasks have the results so far."""
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
