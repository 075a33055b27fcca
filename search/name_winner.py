"""Naming the best schedule of a task, and how sure that is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from search.confirm_best import confirm_best, summary
from search.profiler import Profiler

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.database import TuningRecord
    from search.task_scheduler import TaskRecord
    from search.tuning_run import TuningRun

_RIVAL: Final = 1.15
"""How many times as slow as the best a candidate may be that may turn out to be the best."""
_SHARE: Final = 0.02
_LEAST_SECONDS: Final = 1.0
"""How long it may take: a share of the search, but enough for a few rounds of quick kernels."""


def name_winner(run: TuningRun, task: TaskRecord) -> None:
    """Measure the best few records of a task again, and keep and log what came out.

    The new times are committed as further records, which count in place of the old ones.
    """
    rivals = _rivals(run, task.ctx)
    if not rivals:
        return
    run.progress.phase(f"measuring the best {len(rivals)} again")
    share = _SHARE * (time.monotonic() - run.started) / len(run.tasks)
    with Profiler.timeit("ConfirmBest"):
        confirmed = confirm_best(
            rivals, run.builder, run.runner, task.ctx, max(_LEAST_SECONDS, share)
        )
    for confirmation in confirmed:
        run.database.commit_tuning_record(confirmation.record)
    if confirmed:
        task.confirmed_ms = confirmed[0].median * 1e3
    run.logs.scheduler.info(
        'Task "%s", the best measured again: %s', task.ctx.task_name, summary(confirmed)
    )


def _rivals(run: TuningRun, task: TuneContext) -> list[TuningRecord]:
    """Return the best records of a task that are nearly as good as the best, best first."""
    if task.mod is None or run.config.num_confirmed == 0:
        return []
    workload = run.database.commit_workload(task.mod)
    best = run.database.top_records(workload, run.config.num_confirmed, task.target)
    return [record for record in best if record.mean_seconds < _RIVAL * best[0].mean_seconds]
