"""Measure callbacks: the base class, and the default callbacks of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from search.builder import BuilderResult
from search.database.records import FAILED, TuningRecord
from search.errors import blamed_on
from search.kinds import Named, Registry, instances
from search.runner import RunnerResult
from search.runner.measure_candidate import MeasureCandidate, describe_candidates

if TYPE_CHECKING:
    from search.run import Run


class MeasureCallback(Named):
    """A part that is called after each trial, and after each batch."""

    kinds: ClassVar[Registry[list[MeasureCallback]]] = Registry("preset of measure callbacks")

    @staticmethod
    def create(
        kind: str | MeasureCallback | Sequence[MeasureCallback] = "default",
    ) -> list[MeasureCallback]:
        """Return callbacks: those of `"default"`, or the ones given."""
        if isinstance(kind, MeasureCallback):
            return [kind]
        if isinstance(kind, str):
            return MeasureCallback.kinds.make(kind)
        return instances(MeasureCallback, "measure_callbacks", kind)

    def apply_to_trial(
        self,
        run: Run,
        task_id: int,
        candidate: MeasureCandidate,
        builder_result: BuilderResult,
        runner_result: RunnerResult,
    ) -> None:
        """Process one trial, before the next one starts."""

    def apply(
        self,
        run: Run,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Process a batch; after an interruption, only its measured part."""

    def apply_to_confirmed(self, run: Run, task_id: int, record: TuningRecord) -> None:
        """Process a candidate that was measured again at the end; the winner comes last.

        Its record is in the database already.
        """


PyMeasureCallback = MeasureCallback
"""The base class under the name that it has for user classes in TVM."""


class AddToDatabase(MeasureCallback):
    """Commits a record of each trial at its end; a failure has the time 1e10.

    A trial that was stopped early has only a lower bound of its time. It gets the times
    `[bound, 1e10]`, so it never ranks best, here or for other readers of the file.
    """

    def apply_to_trial(
        self,
        run: Run,
        task_id: int,
        candidate: MeasureCandidate,
        builder_result: BuilderResult,
        runner_result: RunnerResult,
    ) -> None:
        """Commit one trial."""
        database = run.database
        task = run.tasks[task_id]
        record = TuningRecord(
            candidate.sch.trace,
            database.commit_workload(task.ctx.program),
            _seconds(runner_result),
            task.ctx.target,
            candidate.args_info,
            builder_result.error_msg or runner_result.error_msg,
        )
        database.commit_tuning_record(record)


def _seconds(result: RunnerResult) -> tuple[float, ...]:
    if result.run_secs is None:
        return (FAILED,)
    return (min(result.run_secs), FAILED) if result.stopped else result.run_secs


class RemoveBuildArtifact(MeasureCallback):
    """Deletes the artifacts of each batch."""

    def apply(
        self,
        run: Run,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Delete the artifacts of a batch."""
        for result in builder_results:
            if result.artifact_path is not None:
                run.builder.remove_artifact(result.artifact_path)


class UpdateCostModel(MeasureCallback):
    """Updates the cost model with each batch, including candidates that failed."""

    def apply(
        self,
        run: Run,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Update the model with a batch."""
        model = run.cost_model
        if model is None:
            return
        context = run.tasks[task_id].ctx
        judged = [context.objective.judged(result) for result in runner_results]
        with blamed_on(model, lambda: describe_candidates(measure_candidates)):
            model.update(context, measure_candidates, judged)


@MeasureCallback.kinds.register("default")
def _default() -> list[MeasureCallback]:
    return [AddToDatabase(), RemoveBuildArtifact(), UpdateCostModel()]
