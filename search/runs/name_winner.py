"""Naming the best schedule of a task, and how sure that is."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from search.database.best_records import RIVAL, best_records
from search.database.usable_records import with_schedules
from search.errors import blamed_on
from search.reports.profiler import Profiler
from search.runs.confirm_best import confirm_best, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from search.context import TuneContext
    from search.database import TuningRecord
    from search.runs.confirm_best import Confirmation
    from search.runs.tuning_run import TuningRun
    from search.task_scheduler import TaskRecord

_FIRST_TRIALS: Final = 16
"""The trials that a search begins with, at most: the default first, then samples."""
_FIRST_RIVAL: Final = 1.5
"""The factor to the best time up to which one of them may be as good: each was measured once."""
_SHARE: Final = 0.02
_LEAST_SECONDS: Final = 0.5
"""The time it may take: a share of the search, but enough for a few rounds with quick kernels."""


def name_winner(run: TuningRun, task: TaskRecord) -> None:
    """Measure the best few records of a task again, and keep and log the results.

    With them is what the search began with, the default and the best of the first trials: the
    winner is not slower than these when measured side by side.

    The new times are committed as further records, which count in place of the old ones, that of
    the winner last, so that the database has it for the best. Being chosen for a low time makes the
    new ones higher on average, so that others, measured once, may come out ahead: those are then
    measured again beside the winner, until the best record is one that was, or the time is over.
    """
    end = time.monotonic() + max(_LEAST_SECONDS, _SHARE * run.seconds / len(run.tasks))
    tried: set[bytes] = set()
    found: list[Confirmation] = []
    ahead = _best(run, task.ctx)
    ahead += _of_the_first(run, task.ctx, ahead)
    while ahead:
        rivals = [*ahead, *(confirmation.record for confirmation in found[:1])]
        run.progress.phase(f"measuring the best {len(rivals)} again")
        left = max(0.0, end - time.monotonic())
        with Profiler.timeit("ConfirmBest"):
            found = confirm_best(rivals, run.builder, run.runner, task.ctx, left)
        if not found:
            return
        for confirmation in reversed(found):
            _keep(run, task, confirmation.record)
        tried.update(record.trace_key for record in rivals)
        ahead = [
            record
            for record in _best(run, task.ctx)
            if record.trace_key not in tried and record.mean_seconds < found[0].record.mean_seconds
        ]
        if time.monotonic() >= end:
            break
    if found:
        task.winner = found[0]
        unsure = (
            f"; time was too short to measure {len(ahead)} more again that may be faster"
            if ahead
            else ""
        )
        run.logs.scheduler.info(
            'Task "%s", the best measured again: %s%s', task.ctx.task_name, summary(found), unsure
        )


def _keep(run: TuningRun, task: TaskRecord, record: TuningRecord) -> None:
    run.database.commit_tuning_record(record)
    for callback in run.measure_callbacks:
        with blamed_on(callback, lambda: f"the trace\n{record.trace}"):
            callback.apply_to_confirmed(run.scheduler, run.scheduler.tasks.index(task), record)


def _best(run: TuningRun, task: TuneContext) -> list[TuningRecord]:
    """Return the best records of a task that are nearly as good as the best, best first."""
    if task.mod is None or run.config.num_confirmed == 0:
        return []
    workload = run.database.commit_workload(task.mod)
    ranked = run.database.top_records(workload, len(run.database), task.target)
    best = [record for record, _ in islice(with_schedules(ranked), run.config.num_confirmed)]
    return [record for record in best if record.mean_seconds < RIVAL * best[0].mean_seconds]


def _of_the_first(
    run: TuningRun, task: TuneContext, best: Sequence[TuningRecord]
) -> list[TuningRecord]:
    """Return the first record of a task and the best of the first few, but for those in `best`."""
    if task.mod is None or not best:
        return []
    known = run.database.tuning_records_of(run.database.commit_workload(task.mod), task.target)
    first = [record for record in known[:_FIRST_TRIALS] if record.is_valid]
    found = {record.trace_key: record for record in [*first[:1], *best_records(first, 1)]}
    return [
        record
        for key, record in found.items()
        if key not in {other.trace_key for other in best}
        and record.mean_seconds < _FIRST_RIVAL * best[0].mean_seconds
    ]
