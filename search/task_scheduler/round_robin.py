"""Tasks in turn."""

from __future__ import annotations

import logging

from search.task_scheduler.task_scheduler import TaskScheduler


@TaskScheduler.kinds.register("round-robin")
class RoundRobin(TaskScheduler):
    """Works on the tasks one after another, a batch each."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        super().__init__(logger)
        self._last = -1

    def next_task_id(self) -> int:
        """Return the next task that is not finished, -1 when none is left."""
        count = len(self.tasks)
        for index in range(count):
            self.touch_task(index)
        for step in range(1, count + 1):
            index = (self._last + step) % count
            task = self.tasks[index]
            if not task.is_terminated:
                if task.measure_candidates is not None:
                    self.join_running_task(index)
                self._last = index
                return index
        return -1
