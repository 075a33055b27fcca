"""Teaching the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search.errors import blamed_on
from search.measure_callback.measure_callback import MeasureCallback
from search.measuring.measure_candidate import described

if TYPE_CHECKING:
    from search.builder import BuilderResult
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult
    from search.task_scheduler.task_scheduler import TaskScheduler


class UpdateCostModel(MeasureCallback):
    """Shows the cost model what was tried, also what could not be built or did not run."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Update the model with a batch."""
        model = task_scheduler.cost_model
        if model is None:
            return
        with blamed_on(model, lambda: described(measure_candidates)):
            model.update(task_scheduler.tasks[task_id].ctx, measure_candidates, runner_results)
