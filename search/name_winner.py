"""Naming the best schedule of a task, and how sure that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from search.confirm_best import confirm_best
from search.database.target_key import same_target

if TYPE_CHECKING:
    from search.confirm_best import Confirmation
    from search.context import TuneContext
    from search.database import TuningRecord
    from search.tuning_run import TuningRun

_RIVAL: Final = 1.15
"""How many times as slow as the best a candidate may be that may turn out to be the best."""


def name_winner(run: TuningRun, task: TuneContext) -> None:
    """Measure the best few records of a task again, and keep and log what came out.

    The new times are committed as further records, which take the place of the old ones.
    """
    rivals = _rivals(run, task)
    if not rivals:
        return
    run.progress.phase("measuring the best again")
    confirmed = confirm_best(rivals, run.builder, run.runner, task)
    for confirmation in confirmed:
        run.database.commit_tuning_record(confirmation.record)
    if confirmed:
        run.logs.scheduler.info('Task "%s": %s', task.task_name, verdict(confirmed))


def verdict(confirmed: list[Confirmation]) -> str:
    """Return in a sentence how fast the winner is, and how sure it is that it has won."""
    best = confirmed[0]
    said = f"the winner takes {best.median * 1e6:.2f} us +- {best.spread * 1e6:.2f}"
    if len(confirmed) == 1:
        return f"{said}; no other came near"
    slower = (confirmed[1].ratio - 1) * 100
    return (
        f"{said}; of {len(confirmed)} measured again it is the fastest with a probability of "
        f"{best.certainty:.0%}, the runner-up takes {slower:.1f} % longer"
    )


def _rivals(run: TuningRun, task: TuneContext) -> list[TuningRecord]:
    """Return the best records of a task that are nearly as good as the best, best first."""
    if task.mod is None or run.config.num_confirmed == 0:
        return []
    workload = run.database.commit_workload(task.mod)
    known = run.database.get_top_k(workload, len(run.database))
    best = [record for record in known if same_target(record.target, task.target)]
    rivals = best[: run.config.num_confirmed]
    return [record for record in rivals if record.mean_seconds < _RIVAL * best[0].mean_seconds]
