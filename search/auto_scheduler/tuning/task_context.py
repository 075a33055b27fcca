"""A `SearchTask` as the search takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search.context import TuneContext
from search.errors import TuningError

if TYPE_CHECKING:
    from search.auto_scheduler.search_task import SearchTask
    from search.search_strategy import SearchStrategy
    from search.space_generator import SpaceGenerator


class TaskContext(TuneContext):
    """A task of the search that knows which `SearchTask` it is."""

    def __init__(
        self, task: SearchTask, space: SpaceGenerator, strategy: SearchStrategy, seed: int
    ) -> None:
        self.search_task = task
        super().__init__(
            task.mod,
            target=task.target,
            space_generator=space,
            search_strategy=strategy,
            task_name=str(task),
            rand_state=seed,
        )


def search_task_of(asking: object, context: TuneContext) -> SearchTask:
    """Return the task that a search is of; TuningError, who is asking, where there is none."""
    if not isinstance(context, TaskContext):
        raise TuningError(
            f"{type(asking).__name__} writes the SearchTask of each measurement, and the task "
            f'"{context.task_name}" was not made of one; use SearchTask.tune or a TaskScheduler of '
            "auto_scheduler, or keep a database"
        )
    return context.search_task
