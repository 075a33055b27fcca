"""Task schedulers, which choose the next task: by expected gain, or one after the other."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from schedule.random_state import RandomState
from search.kinds import Registry
from search.task_scheduler.task_state import TaskState
from tensorir.nodes.expr import StringImm
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

Objective: TypeAlias = Callable[[Sequence[float]], float]
"""The number to minimise, from the best latency of each task in seconds, in their order."""

_UNKNOWN: Final = -1e9
_STEP: Final = 1e-4
"""The relative decrease of a latency for the numerical gradient of the objective."""


class TaskScheduler(ABC):
    """Distributes trials among tasks. Subclasses choose the next task.

    The search minimises `objective_func`, by default the weighted sum of the latencies.
    """

    kinds: ClassVar[Registry[TaskScheduler]] = Registry("task scheduler")

    def __init__(self, objective_func: Objective | None = None) -> None:
        self.objective_func = objective_func
        self.tasks: Sequence[TaskState] = []
        """The tasks of the run, from `begin` on."""

    @staticmethod
    def create(kind: str | TaskScheduler = "gradient", *args: Any, **kwargs: Any) -> TaskScheduler:
        """Return a scheduler: `"gradient"` or `"round-robin"`."""
        return TaskScheduler.kinds.part(kind, *args, **kwargs)

    def begin(self, tasks: Sequence[TaskState]) -> None:
        """Start a run with its tasks, and forget any other run."""
        self.tasks = tasks

    @abstractmethod
    def next_task_id(self) -> int:
        """Return the index of the next task, -1 when none is left.

        All earlier batches have been measured, except for the last one while some tasks have had no
        batch.
        """

    def objective(self, latencies: Sequence[float]) -> float:
        """Return the objective for a latency of each task in seconds; a run minimises it."""
        if self.objective_func is not None:
            return float(self.objective_func(latencies))
        weights = [task.task_weight for task in self.tasks]
        return sum(w * seconds for w, seconds in zip(weights, latencies, strict=True))

    def objective_now(self) -> float | None:
        """Return the objective for the best latencies so far, None while a task has none."""
        best = [task.best_ms for task in self.tasks]
        known = [ms / 1e3 for ms in best if ms is not None]
        return self.objective(known) if len(known) == len(best) else None


PyTaskScheduler = TaskScheduler
"""The base class under the name that it has for user classes in TVM."""


TAG: Final = "auto_scheduler_task_scheduler_tag"
"""The annotation of a block with the name of its computation, such as a convolution."""
_GOLDEN: Final = 1.618
_PATIENCE: Final = 5


def tagged_group(task: TaskState) -> Hashable | None:
    """Return the tags of the blocks of a task, and the magnitude of its operations.

    Magnitudes are powers of the golden ratio. None for a task without tags.
    """
    funcs = () if task.ctx.mod is None else task.ctx.mod.prim_funcs().values()
    blocks = (node for func in funcs for node in walk(func.body) if isinstance(node, Block))
    tags = [block.annotations[TAG] for block in blocks if TAG in block.annotations]
    names = sorted(tag.value if isinstance(tag, StringImm) else str(tag) for tag in tags)
    if not names:
        return None
    return (*names, math.floor(math.log(task.flop + 1, _GOLDEN)))


class SimilarTasks:
    """Groups of similar tasks, which are expected to reach similar operations per second.

    `groups` has the group of each task, or None. A task leaves its group if it is slower than the
    best of the group by more than the factor `beta`, after 5 batches more than any other task.
    """

    def __init__(self, groups: Sequence[Hashable | None], beta: float) -> None:
        self.groups = list(groups)
        self.beta = beta

    def reachable_ms(self, index: int, tasks: Sequence[TaskState]) -> float | None:
        """Return the expected latency of a task in milliseconds, None if unknown.

        That is `beta` times its latency at the speed of the best task of its group.
        """
        own, best_ms = tasks[index], tasks[index].best_ms
        peers = [task for k, task in enumerate(tasks) if k != index and self._are_similar(k, index)]
        fastest = max((task.best_gflops or 0.0 for task in (own, *peers)), default=0.0)
        if not peers or best_ms is None or fastest == 0.0:
            return None
        reachable = self.beta * own.flop / fastest / 1e6
        most = max(task.batches for task in peers)
        if best_ms > reachable and own.batches > _PATIENCE + most:
            self.groups[index] = None
            return None
        return reachable

    def _are_similar(self, a: int, b: int) -> bool:
        return self.groups[a] is not None and self.groups[a] == self.groups[b]


@TaskScheduler.kinds.register("gradient")
class GradientBased(TaskScheduler):
    """Chooses the task whose next batch is expected to lower the objective most.

    The gradient of a task is the derivative of the objective by its latency, times the expected
    decrease of the latency (Zheng et al., Ansor, OSDI 2020). The expectation is a mean, weighted by
    `alpha`, of the decrease over the last `window_size` batches and of the average decrease since
    the start. Instead of the latter it uses, if that is more, the decrease to within a factor
    `beta` of the operations per second of similar tasks. Tasks are similar if `group_of` returns
    the same value for them; None is similar to no task.

    Each task gets one batch first. A task without a working trial lacks a gradient. It gets the
    average number of batches, and counts in `objective_func` with the latency of the slowest task.
    Ties are broken at random by `seed`, by default a seed from the first task.
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
        """Start a run with its tasks."""
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
        behind = self._task_behind(alive)
        if behind is not None:
            return behind
        if len(self._similar.groups) != len(self.tasks):
            self._similar = SimilarTasks([self.group_of(task) for task in self.tasks], self.beta)
        gradients = [self._gradient(index) for index in alive]
        steepest = max(gradients)
        if min(gradients) == steepest:
            return alive[self._rng.uniform_int(0, len(alive))]
        return alive[gradients.index(steepest)]

    def _task_behind(self, alive: Sequence[int]) -> int | None:
        """Return the task without a gradient that had the fewest batches, if below average."""
        batches = {index: self.tasks[index].batches for index in alive}
        unknown = [index for index in alive if self.tasks[index].best_ms is None]
        least = min(unknown, key=batches.__getitem__, default=None)
        if least is None or batches[least] * len(alive) > sum(batches.values()):
            return None
        return least

    def _gradient(self, index: int) -> float:
        """Return the expected decrease of the objective by the next batch of a task."""
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
        """Return the derivative of the objective by the latency of a task in seconds."""
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
    """Chooses the tasks one after the other, a batch each."""

    def next_task_id(self) -> int:
        """Return the first task with the fewest batches, -1 when none is left."""
        alive = [task for task in self.tasks if not task.is_terminated]
        return min(alive, key=lambda task: task.batches).index if alive else -1
