"""The base class of measure callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from search.kinds import Kinds, Named, instances

if TYPE_CHECKING:
    from search.builder import BuilderResult
    from search.database.records import TuningRecord
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult
    from search.task_scheduler.task_scheduler import TaskScheduler


class MeasureCallback(Named):
    """Is told about measurements: each one as it ends, and the batch when it is complete."""

    kinds: ClassVar[Kinds[list[MeasureCallback]]] = Kinds("preset of measure callbacks")

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
        task_scheduler: TaskScheduler,
        task_id: int,
        candidate: MeasureCandidate,
        builder_result: BuilderResult,
        runner_result: RunnerResult,
    ) -> None:
        """Take note of one trial, before the next one starts."""

    def apply(
        self,
        task_scheduler: TaskScheduler,
        task_id: int,
        measure_candidates: Sequence[MeasureCandidate],
        builder_results: Sequence[BuilderResult],
        runner_results: Sequence[RunnerResult],
    ) -> None:
        """Take note of a batch; after an interruption, of the part of it that was measured."""

    def apply_to_confirmed(
        self, task_scheduler: TaskScheduler, task_id: int, record: TuningRecord
    ) -> None:
        """Take note of one of the best that was measured again at the end; the winner comes last.

        The database has it already.
        """


PyMeasureCallback = MeasureCallback
"""The base class under the name that it has for user classes in TVM."""
