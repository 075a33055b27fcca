"""A search of policies, with what measures and what is told about it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

from search.errors import TuningError
from search.measure_callback import MeasureCallback
from search.reports.progress import Progress
from search.runs.tuning_run import TuningRun
from search.tune_config import TuneConfig

if TYPE_CHECKING:
    from search.auto_scheduler.tuning.options import TuningOptions
    from search.auto_scheduler.tuning.policy import SearchPolicy
    from search.cost_model import CostModel
    from search.database import Database
    from search.task_scheduler import TaskScheduler


def measured_search(
    policies: Sequence[SearchPolicy],
    weights: Sequence[float],
    options: TuningOptions,
    scheduler: TaskScheduler,
    database: Database,
    *,
    per_task_early_stopping: int | None = None,
    num_confirmed: int = 4,
) -> None:
    """Search the task of each policy until the trials of `options` are made, or nothing is left.

    What is found goes to `database`, and what that has already is not measured again. The policies
    have one cost model, which learns from all tasks. Ctrl-C ends it as the
    options say; what was measured is kept.
    """
    config = TuneConfig(
        options.num_measure_trials,
        options.num_measures_per_round,
        num_confirmed=num_confirmed,
        early_stopping=options.early_stopping,
        early_stopping_per_task=per_task_early_stopping,
    )
    builder, runner = options.measuring_parts()
    with (
        tempfile.TemporaryDirectory(prefix="auto_scheduler_") as folder,
        TuningRun.open(
            [policy.context() for policy in policies],
            weights,
            folder,
            config,
            builder=builder,
            runner=runner,
            database=database,
            cost_model=_common_model(policies),
            measure_callbacks=[*MeasureCallback.create("default"), *options.callbacks()],
            task_scheduler=scheduler,
            progress=None if options.verbose else Progress(),
        ) as run,
    ):
        run.tune(options.on_interrupt)


def _common_model(policies: Sequence[SearchPolicy]) -> CostModel:
    """Return the model of the policies, of which those that know nothing count as one."""
    models = {id(policy.cost_model): policy.cost_model for policy in policies}
    first, *others = models.values()
    if others and any(model.trained for model in models.values()):
        raise TuningError(
            f"the policies of one search share a cost model, these have {len(models)}; pass the "
            "same program_cost_model to each"
        )
    return first
