"""Tasks in turn."""

from __future__ import annotations

from search.task_scheduler.task_scheduler import TaskScheduler


@TaskScheduler.kinds.register("round-robin")
class RoundRobin(TaskScheduler):
    """Works on the tasks one after another, a batch each."""

    def next_task_id(self) -> int:
        """Return the first of the tasks that had fewest batches, -1 when none is left."""
        alive = [index for index, task in enumerate(self.tasks) if not task.is_terminated]
        index = min(alive, key=lambda index: self.tasks[index].batches, default=-1)
        if index >= 0 and self.tasks[index].batch is not None:
            self.join_running_task(index)
        return index
