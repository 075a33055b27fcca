"""The task that promises most."""

from __future__ import annotations

import logging
from typing import Final

from schedule.random_state import RandomState
from search.task_scheduler.task_record import FAILED_MS, TaskRecord
from search.task_scheduler.task_scheduler import TaskScheduler

_UNKNOWN: Final = -1e9


@TaskScheduler.kinds.register("gradient")
class GradientBased(TaskScheduler):
    """Works on the task whose weighted latency is expected to fall most in its next batch.

    The expectation mixes, by `alpha`, how much the best latency fell over the last `window_size`
    batches and how much it would fall if it went on as on average since the start (Zheng et al.,
    Ansor, OSDI 2020). Each task gets one batch first. Ties are broken at random by `seed`.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.2,
        window_size: int = 3,
        seed: int = -1,
        logger: logging.Logger | None = None,
    ) -> None:
        super().__init__(logger)
        self.alpha = alpha
        self.window_size = window_size
        self._rng = RandomState(seed)
        self._first_round = 0

    def next_task_id(self) -> int:
        """Return the task with the steepest gradient, -1 when none is left."""
        count = len(self.tasks)
        while self._first_round < count:
            index = self._first_round
            self._first_round += 1
            if not self.tasks[index].is_terminated:
                return index
        for index, task in enumerate(self.tasks):
            if task.measure_candidates is not None:
                self.join_running_task(index)
        alive = [index for index in range(count) if not self.tasks[index].is_terminated]
        if not alive:
            return -1
        gradients = [self._gradient(self.tasks[index]) for index in alive]
        steepest = max(gradients)
        if min(gradients) == steepest:
            return alive[self._rng.uniform_int(0, len(alive))]
        return alive[gradients.index(steepest)]

    def _gradient(self, task: TaskRecord) -> float:
        history = task.best_history_ms
        if not history or history[-1] >= FAILED_MS:
            return _UNKNOWN
        n, best, window = len(history), history[-1], self.window_size
        backward = (history[n - 1 - window] - best) / window if n > window else 0.0
        forward = best / n
        return (self.alpha * backward + (1 - self.alpha) * forward) * task.task_weight
