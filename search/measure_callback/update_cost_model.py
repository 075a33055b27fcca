"""Teaching the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search.errors import blamed_on
from search.measure_callback.measure_callback import MeasureCallback
from search.measure_candidate import described

if TYPE_CHECKING:
    from search.builder import BuilderResult
    from search.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult
    from search.task_scheduler.task_scheduler import TaskScheduler


class UpdateCostModel(MeasureCallback):
    """Shows the cost model what was built, whether it ran or not."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Update the model with a batch."""
        if task_scheduler.cost_model is None:
            return
        built = [k for k, result in enumerate(builder_results) if result.error_msg is None]
        candidates = [measure_candidates[k] for k in built]
        with blamed_on(task_scheduler.cost_model, lambda: described(candidates)):
            task_scheduler.cost_model.update(
                task_scheduler.tasks[task_id].ctx, candidates, [runner_results[k] for k in built]
            )
