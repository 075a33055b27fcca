"""The task that promises most."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from schedule.random_state import RandomState
from search.task_scheduler.task_record import TaskRecord
from search.task_scheduler.task_scheduler import TaskScheduler

if TYPE_CHECKING:
    from search.tuning_run import TuningRun

_UNKNOWN: Final = -1e9


@TaskScheduler.kinds.register("gradient")
class GradientBased(TaskScheduler):
    """Works on the task whose weighted latency is expected to fall most in its next batch.

    The expectation mixes, by `alpha`, how much the best latency fell over the last `window_size`
    batches and how much it would fall if it went on as on average since the start (Zheng et al.,
    Ansor, OSDI 2020). Each task gets one batch first. One of which no trial succeeded has no
    gradient: it gets as many batches as the others on average. Ties are broken at random by `seed`;
    -1 takes one from the first task.
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
        self.seed = seed
        self._rng = RandomState(seed)

    def tune(self, run: TuningRun) -> None:
        """Search all tasks of a run until its trials are used up or the tasks are exhausted."""
        self._rng = RandomState(run.tasks[0].fork_seed() if self.seed == -1 else self.seed)
        super().tune(run)

    def next_task_id(self) -> int:
        """Return the task with the steepest gradient, -1 when none is left."""
        count = len(self.tasks)
        for index, task in enumerate(self.tasks):
            if task.batches == 0 and not task.is_terminated:
                return index
        for index, task in enumerate(self.tasks):
            if task.batch is not None:
                self.join_running_task(index)
        alive = [index for index in range(count) if not self.tasks[index].is_terminated]
        if not alive:
            return -1
        behind = self._behind(alive)
        if behind is not None:
            return behind
        gradients = [self._gradient(self.tasks[index]) for index in alive]
        steepest = max(gradients)
        if min(gradients) == steepest:
            return alive[self._rng.uniform_int(0, len(alive))]
        return alive[gradients.index(steepest)]

    def _behind(self, alive: Sequence[int]) -> int | None:
        """Return the task without a gradient that had fewest batches, if that is below average."""
        batches = {index: self.tasks[index].batches for index in alive}
        unknown = [index for index in alive if self.tasks[index].best_ms is None]
        least = min(unknown, key=batches.__getitem__, default=None)
        if least is None or batches[least] * len(alive) > sum(batches.values()):
            return None
        return least

    def _gradient(self, task: TaskRecord) -> float:
        if task.best_ms is None:
            return _UNKNOWN
        history = task.best_history_ms
        n, best, window = len(history), history[-1], self.window_size
        backward = (history[n - 1 - window] - best) / window if n > window else 0.0
        forward = best / n
        return (self.alpha * backward + (1 - self.alpha) * forward) * task.task_weight
