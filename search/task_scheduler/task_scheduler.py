"""The task that is next: the one that promises most, or the one whose turn it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from schedule.random_state import RandomState
from search.kinds import Kinds
from search.task_scheduler.similar_tasks import SimilarTasks, tagged_group
from search.task_scheduler.task_state import TaskState

Objective: TypeAlias = Callable[[Sequence[float]], float]
"""The number to minimise, from the best latency of each task in seconds, in their order."""

_UNKNOWN: Final = -1e9
_STEP: Final = 1e-4
"""The relative decrease of a latency by which the gain of the objective is seen."""


class TaskScheduler(ABC):
    """Shares trials among tasks. Subclasses say which task is next.

    What is minimised is `objective_func`, without one the sum of latencies by the weights of the
    tasks.
    """

    kinds: ClassVar[Kinds[TaskScheduler]] = Kinds("task scheduler")

    def __init__(self, objective_func: Objective | None = None) -> None:
        self.objective_func = objective_func
        self.tasks: Sequence[TaskState] = []
        """The tasks of the run, from `begin` on."""

    @staticmethod
    def create(kind: str | TaskScheduler = "gradient", *args: Any, **kwargs: Any) -> TaskScheduler:
        """Return a scheduler: `"gradient"` or `"round-robin"`."""
        return TaskScheduler.kinds.part(kind, *args, **kwargs)

    def begin(self, tasks: Sequence[TaskState]) -> None:
        """Take the tasks of a run that begins; what is known of another run is forgotten."""
        self.tasks = tasks

    @abstractmethod
    def next_task_id(self) -> int:
        """Return the index of the task to work on, -1 when none is left.

        What was sent before is measured by then; only while some tasks had no batch yet, the last
        one that was sent is not.
        """

    def objective(self, latencies: Sequence[float]) -> float:
        """Return the objective at a latency in seconds for each task; a run makes it smaller."""
        if self.objective_func is not None:
            return float(self.objective_func(latencies))
        weights = [task.task_weight for task in self.tasks]
        return sum(w * seconds for w, seconds in zip(weights, latencies, strict=True))

    def objective_now(self) -> float | None:
        """Return the objective at the best latencies so far, None while some task has none."""
        best = [task.best_ms for task in self.tasks]
        known = [ms / 1e3 for ms in best if ms is not None]
        return self.objective(known) if len(known) == len(best) else None


PyTaskScheduler = TaskScheduler
"""The base class under the name that it has for user classes in TVM."""


@TaskScheduler.kinds.register("gradient")
class GradientBased(TaskScheduler):
    """Works on the task that is expected to lower the objective most in its next batch.

    What counts of a task is how fast the objective falls with its latency, times how much that is
    expected to fall (Zheng et al., Ansor, OSDI 2020). The expectation mixes, by `alpha`, how much
    the best latency fell over the last `window_size` batches and how much it would fall if it went
    on as on average since the start; or if it came within a factor `beta` of the operations per
    second of similar tasks, where that is more. `group_of` says which tasks are similar: those with
    the same answer, None being similar to none.

    Each task gets one batch first. One of which no trial succeeded has no gradient: it gets as many
    batches as the others on average, and for `objective_func` it is as slow as the slowest. Ties
    are broken at random by `seed`; -1 takes one from the first task.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.2,
        window_size: int = 3,
        seed: int = -1,
        objective_func: Objective | None = None,
        beta: float = 2.0,
        group_of: Callable[[TaskState], Hashable | None] = tagged_group,
    ) -> None:
        super().__init__(objective_func)
        self.alpha = alpha
        self.window_size = window_size
        self.seed = seed
        self.beta = beta
        self.group_of = group_of
        self._rng = RandomState(seed)
        self._similar = SimilarTasks((), beta)

    def begin(self, tasks: Sequence[TaskState]) -> None:
        """Take the tasks of a run that begins."""
        super().begin(tasks)
        self._rng = RandomState(tasks[0].ctx.fork_seed() if self.seed == -1 else self.seed)
        self._similar = SimilarTasks((), self.beta)

    def next_task_id(self) -> int:
        """Return the task with the steepest gradient, -1 when none is left."""
        for task in self.tasks:
            if task.batches == 0 and not task.is_terminated:
                return task.index
        alive = [task.index for task in self.tasks if not task.is_terminated]
        if not alive:
            return -1
        behind = self._behind(alive)
        if behind is not None:
            return behind
        if len(self._similar.groups) != len(self.tasks):
            self._similar = SimilarTasks([self.group_of(task) for task in self.tasks], self.beta)
        gradients = [self._gradient(index) for index in alive]
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

    def _gradient(self, index: int) -> float:
        """Return how much the objective is expected to fall with the next batch of a task."""
        task = self.tasks[index]
        if task.best_ms is None:
            return _UNKNOWN
        history = task.best_history_ms
        best, window = history[-1], self.window_size
        backward = (history[-1 - window] - best) / window if len(history) > window else 0.0
        reachable = self._similar.reachable_ms(index, self.tasks)
        forward = best / task.batches
        if reachable is not None:
            forward = max(forward, best - reachable)
        expected = self.alpha * backward + (1 - self.alpha) * forward
        return self._importance(index) * expected / 1e3

    def _importance(self, index: int) -> float:
        """Return how much the objective falls for each second that the latency of a task does."""
        if self.objective_func is None:
            return self.tasks[index].task_weight
        known = [None if task.best_ms is None else task.best_ms / 1e3 for task in self.tasks]
        slowest = max(seconds for seconds in known if seconds is not None)
        latencies = [slowest if seconds is None else seconds for seconds in known]
        step = latencies[index] * _STEP
        lower = [*latencies]
        lower[index] -= step
        return (self.objective(latencies) - self.objective(lower)) / step


@TaskScheduler.kinds.register("round-robin")
class RoundRobin(TaskScheduler):
    """Works on the tasks one after another, a batch each."""

    def next_task_id(self) -> int:
        """Return the first of the tasks that had fewest batches, -1 when none is left."""
        alive = [task for task in self.tasks if not task.is_terminated]
        return min(alive, key=lambda task: task.batches).index if alive else -1
