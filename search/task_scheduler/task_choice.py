"""The task that is next: the one that promises most, or the one whose turn it is."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Final

from schedule.random_state import RandomState
from search.task_scheduler.task_record import TaskRecord
from search.task_scheduler.task_scheduler import Objective, TaskScheduler
from tensorir.nodes.expr import StringImm
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

if TYPE_CHECKING:
    from search.runs.tuning_run import TuningRun
    from tensorir.function import IRModule

TAG: Final = "auto_scheduler_task_scheduler_tag"
"""The annotation of a block that names what it computes, such as a convolution."""

_GOLDEN: Final = 1.618
_PATIENCE: Final = 5

_UNKNOWN: Final = -1e9
_STEP: Final = 1e-4
"""The relative decrease of a latency by which the gain of the objective is seen."""


def tagged_group(task: TaskRecord) -> Hashable | None:
    """Return the tags of a task's blocks with the magnitude of its operations, None without tags.

    Magnitudes are powers of the golden ratio: within a group operations differ by less than that.
    """
    tags = [] if task.ctx.mod is None else _tags(task.ctx.mod)
    if not tags:
        return None
    return (*tags, math.floor(math.log(task.flop + 1, _GOLDEN)))


class SimilarTasks:
    """Groups of tasks, of which each should come near to the operations per second of the best.

    `groups` has the group of each task, None for one that is in none. A task that had more than 5
    batches more than any other of its group, and is still slower than the best by more than the
    factor `beta`, turns out not to be similar, and leaves.
    """

    def __init__(self, groups: Sequence[Hashable | None], beta: float) -> None:
        self.groups = list(groups)
        self.beta = beta

    def reachable_ms(self, index: int, tasks: Sequence[TaskRecord]) -> float | None:
        """Return the latency in milliseconds that a task should reach, None if nothing is known.

        That is `beta` times what it would take at the speed of the best of its group.
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


def _tags(mod: IRModule) -> list[str]:
    found = [
        node.annotations[TAG]
        for func in mod.prim_funcs().values()
        for node in walk(func.body)
        if isinstance(node, Block) and TAG in node.annotations
    ]
    return sorted(tag.value if isinstance(tag, StringImm) else str(tag) for tag in found)


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
        logger: logging.Logger | None = None,
        objective_func: Objective | None = None,
        beta: float = 2.0,
        group_of: Callable[[TaskRecord], Hashable | None] = tagged_group,
    ) -> None:
        super().__init__(logger, objective_func)
        self.alpha = alpha
        self.window_size = window_size
        self.seed = seed
        self.beta = beta
        self.group_of = group_of
        self._rng = RandomState(seed)
        self._similar = SimilarTasks((), beta)

    def tune(self, run: TuningRun) -> None:
        """Search all tasks of a run until its trials are used up or the tasks are exhausted."""
        self._rng = RandomState(run.tasks[0].fork_seed() if self.seed == -1 else self.seed)
        self._similar = SimilarTasks((), self.beta)
        super().tune(run)

    def next_task_id(self) -> int:
        """Return the task with the steepest gradient, -1 when none is left."""
        count = len(self.tasks)
        for index, task in enumerate(self.tasks):
            if task.batches == 0 and not task.is_terminated:
                # The last batch is built meanwhile; what is before it is measured, because a run
                # over many tasks may have no time left when all of them have a batch.
                for before in range(index - 1):
                    if self.tasks[before].batch is not None:
                        self.join_running_task(before)
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
        alive = [index for index, task in enumerate(self.tasks) if not task.is_terminated]
        index = min(alive, key=lambda index: self.tasks[index].batches, default=-1)
        if index >= 0 and self.tasks[index].batch is not None:
            self.join_running_task(index)
        return index
