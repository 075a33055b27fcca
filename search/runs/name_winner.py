"""The winner of a task: the best of its search, and not slower than what the search began with."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from codegen.machine import core_share
from codegen.target import host
from search.context import TuneContext
from search.database import Database
from search.database.best_records import RIVAL, with_schedules
from search.database.records import TuningRecord
from search.errors import blamed_on
from search.reports.profiler import Profiler
from search.reports.run_directory import TRIALS
from search.reports.tasks import Tasks
from search.run import Run
from search.runner import RunnerResult
from search.runner.objective import SECONDS
from search.runs.baselines import measure_baselines
from search.runs.confirm_best import Confirmation, confirm_best, summary
from search.runs.report_task import report_task
from search.task_scheduler.task_state import TaskState
from tensorir.nodes.stmt import For, ForKind
from tensorir.rewriting.visit import walk

_FIRST_TRIALS: Final = 16
"""The trials that a search begins with, at most: the default first, then samples."""
_EARLIER_RIVAL: Final = 2.0
"""The factor to the best time up to which one of them, or a baseline, may be as good: each was
measured once, at another time than the best."""
_MOST_COMPARISONS: Final = 4
"""The comparisons after which a winner is named although others are faster on record."""
_QUIET: Final = 0.9
"""The share of the time for which threads have a core on a machine without other work."""
_TIME_SLICE: Final = 4e-3
"""The seconds for which a system lets another program have a core."""


def name_winners(run: Run) -> None:
    """Measure the best of each task again, as far as there is time, and report on it."""
    logged = Tasks(run.store.latest(TRIALS))
    in_vain = 0
    for task in run.tasks:
        is_over = run.budget.left == 0
        in_vain += is_over and task.best_ms is not None
        if not is_over:
            with run.leaving_out(task):
                name_winner(run, task, run.budget.for_winner_number(task.index))
        if task.failure is None:
            with run.leaving_out(task):
                report_task(run, task, logged)
    if in_vain and run.config.num_confirmed:
        run.log.info(
            "Time was too short to measure the best of %d task(s) again: their winners are the "
            "fastest of the search, measured once",
            in_vain,
        )


def name_winner(run: Run, task: TaskState, max_seconds: float = math.inf) -> None:
    """Measure the best few records of a task again, and keep and log the results.

    It takes a small share of the time of the run, and no more than `max_seconds`, but for the
    least that says anything.

    With them is what the search began with, the default and the best of the first trials, and the
    baselines: the unscheduled program and serial forms of parallel schedules. The winner is not
    slower than these when measured side by side.

    The new times are committed as further records, which count in place of the old ones, that of
    the winner last, so that the database has it for the best. Being chosen for a low time makes the
    new ones higher on average, so that others, measured once, may come out ahead: those are then
    measured again beside the winner, until the best record is one that was. That takes longer than
    the time only where a baseline is ahead.
    """
    ahead = _best(run, task.ctx)
    if not ahead:
        return
    first = _earliest(run, task.ctx)[:1]
    measure_baselines(run, task, [*first, ahead[0]])
    end = time.monotonic() + min(max_seconds, run.budget.for_a_winner)
    value = task.ctx.objective.of_record
    tried: set[bytes] = set()
    found: list[Confirmation] = []
    is_busy = _is_busy(run, task.ctx)
    ahead = _best(run, task.ctx)
    ahead += _to_beat(run, task, ahead, _TIME_SLICE * is_busy)
    left_out: list[TuningRecord] = []
    comparisons = 0
    while ahead:
        rivals = [*ahead, *_compared_again(found, task)]
        run.progress.phase(f"measuring the best {len(rivals)} again")
        left = max(0.0, end - time.monotonic())
        with Profiler.timeit("ConfirmBest"):
            found = confirm_best(rivals, run.builder, run.runner, task.ctx, left)
        if not found:
            return
        is_busy = is_busy or _is_busy(run, task.ctx)
        if is_busy:
            found = _without_luck(found)
        for confirmation in reversed(found):
            if first and confirmation.record.trace_key == first[0].trace_key:
                task.first_again = confirmation.median
            _keep(run, task, confirmation.record)
            if not confirmation.record.trace.insts:
                task.unscheduled = RunnerResult(tuple(confirmation.record.run_secs or ()))
        tried.update(record.trace_key for record in rivals)
        best = _best(run, task.ctx)
        ahead = [
            record
            for record in (*best, *_to_beat(run, task, [found[0].record, *best]))
            if record.trace_key not in tried and value(record) < value(found[0].record)
        ]
        comparisons += 1
        baselines = {record.trace_key for record in task.baselines}
        is_over = time.monotonic() >= end or comparisons >= _MOST_COMPARISONS
        left_out = [r for r in ahead if is_over and r.trace_key not in baselines]
        ahead = [r for r in ahead if r not in left_out]
    if found:
        task.winner = found[0]
        unsure = (
            f"; {len(left_out)} more may be faster: the time for measuring them again was over"
            if left_out
            else ""
        )
        run.log.info("%s: %s%s", task.title, summary(found), unsure)
        if is_busy:
            run.log.info(
                "%s: the machine is busy with other programs, so that parallel loops wait for "
                "their threads now and then: serial schedules are preferred; tune again when it is "
                "quiet",
                task.title,
            )


def _is_busy(run: Run, task: TuneContext) -> bool:
    """Say whether other programs take cores of this machine, where several are measured on it."""
    target = task.target
    assert target is not None
    cores = min(target.num_cores or 1, host.physical_cores())
    if cores == 1 or not run.runner.measures_here(target):
        return False
    return core_share(target, cores) < _QUIET


def _without_luck(found: Sequence[Confirmation]) -> list[Confirmation]:
    """Return what was measured on a busy machine, first the best of what can be relied on.

    A parallel loop waits for a time slice of the system in some calls and not in others: it has to
    be faster by as much.
    """
    serial = [one for one in found if not _has_threads(one.record)]
    if not serial or found[0] in serial or found[0].median + _TIME_SLICE < serial[0].median:
        return list(found)
    return [serial[0], *(one for one in found if one is not serial[0])]


def _has_threads(record: TuningRecord) -> bool:
    functions = record.schedule().mod.prim_funcs().values()
    nodes = (node for func in functions for node in walk(func.body))
    return any(isinstance(node, For) and node.kind is ForKind.PARALLEL for node in nodes)


def _keep(run: Run, task: TaskState, record: TuningRecord) -> None:
    run.database.commit_tuning_record(record)
    for callback in run.measure_callbacks:
        with blamed_on(callback, lambda: f"the trace\n{record.trace}"):
            callback.apply_to_confirmed(run, task.index, record)


def _best(run: Run, task: TuneContext) -> list[TuningRecord]:
    """Return the best records of a task that are nearly as good as the best, best first."""
    if run.config.num_confirmed == 0:
        return []
    value = task.objective.of_record
    best = list(islice(_allowed(task, best_for(task, run.database)), run.config.num_confirmed))
    return [record for record in best if value(record) < RIVAL * value(best[0])]


def best_for(task: TuneContext, database: Database) -> list[TuningRecord]:
    """Return the valid records of a task, best first by its objective."""
    if task.mod is None:
        return []
    workload = database.commit_workload(task.mod)
    ranked = database.top_records(workload, len(database), task.target)
    if task.objective is SECONDS:
        return ranked
    values = {id(record): task.objective.of_record(record) for record in ranked}
    known = [record for record in ranked if values[id(record)] < math.inf]
    return sorted(known, key=lambda record: values[id(record)])


def _allowed(task: TuneContext, records: Sequence[TuningRecord]) -> Iterator[TuningRecord]:
    """Yield the records that replay and that the constraint of the task allows."""
    return (record for record, sch in with_schedules(records) if task.allows(sch))


def _to_beat(
    run: Run, task: TaskState, best: Sequence[TuningRecord], seconds: float = 0.0
) -> list[TuningRecord]:
    """Return what a search begins with and its baselines, as far as they may be as good.

    These are the first record and the best of the first few; those in `best` are left out, and so
    are others that take twice as long, and `seconds` longer.
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
        and (
            value(record) < _EARLIER_RIVAL * value(best[0])
            or record.mean_seconds < best[0].mean_seconds + seconds
        )
    ]


def _earliest(run: Run, task: TuneContext) -> list[TuningRecord]:
    """Return those of the first records of a task that are valid and allowed."""
    assert task.mod is not None
    known = run.database.tuning_records_of(run.database.commit_workload(task.mod), task.target)
    first = [record for record in known[:_FIRST_TRIALS] if record.is_valid]
    if task.constraint is not None:
        first = list(_allowed(task, first))
    return [record for record in first if task.objective.of_record(record) < math.inf]


def _compared_again(found: Sequence[Confirmation], task: TaskState) -> list[TuningRecord]:
    """Return what others are compared with: the winner so far, and baselines close to it."""
    baselines = {record.trace_key for record in task.baselines}
    return [
        confirmation.record
        for place, confirmation in enumerate(found)
        if place == 0 or (confirmation.record.trace_key in baselines and confirmation.ratio < RIVAL)
    ]
