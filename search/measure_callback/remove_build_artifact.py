"""Removing the artifacts of builds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search.measure_callback.measure_callback import MeasureCallback

if TYPE_CHECKING:
    from search.builder import BuilderResult
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult
    from search.task_scheduler.task_scheduler import TaskScheduler


class RemoveBuildArtifact(MeasureCallback):
    """Deletes each artifact once its batch is measured."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Delete the artifacts of a batch."""
        if task_scheduler.builder is None:
            return
        for result in task_scheduler.tasks[task_id].builder_results:
            if result.artifact_path is not None:
                task_scheduler.builder.remove_artifact(result.artifact_path)
