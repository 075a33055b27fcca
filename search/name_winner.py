"""Naming the best schedule of a task, and how sure that is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from search.confirm_best import confirm_best, summary
from search.database.target_key import same_target
from search.profiler import Profiler

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.database import TuningRecord
    from search.tuning_run import TuningRun

_RIVAL: Final = 1.15
"""How many times as slow as the best a candidate may be that may turn out to be the best."""
_SHARE: Final = 0.02
_LEAST_SECONDS: Final = 1.0
"""How long it may take: a share of the search, but enough for a few rounds of quick kernels."""


def name_winner(run: TuningRun, task: TuneContext) -> None:
    """Measure the best few records of a task again, and keep and log what came out.

    The new times are committed as further records, which count in place of the old ones.
    """
    rivals = _rivals(run, task)
    if not rivals:
        return
    run.progress.phase(f"measuring the best {len(rivals)} again")
    share = _SHARE * (time.monotonic() - run.started) / len(run.tasks)
    with Profiler.timeit("ConfirmBest"):
        confirmed = confirm_best(rivals, run.builder, run.runner, task, max(_LEAST_SECONDS, share))
    for confirmation in confirmed:
        run.database.commit_tuning_record(confirmation.record)
    run.logs.scheduler.info('Task "%s": %s', task.task_name, summary(confirmed))


def _rivals(run: TuningRun, task: TuneContext) -> list[TuningRecord]:
    """Return the best records of a task that are nearly as good as the best, best first."""
    if task.mod is None or run.config.num_confirmed == 0:
        return []
    workload = run.database.commit_workload(task.mod)
    known = run.database.get_top_k(workload, len(run.database))
    best = [record for record in known if same_target(record.target, task.target)]
    rivals = best[: run.config.num_confirmed]
    return [record for record in rivals if record.mean_seconds < _RIVAL * best[0].mean_seconds]
