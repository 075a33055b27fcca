"""Groups of tasks that compute similar things, and what one may hope for from the others."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Final

from search.task_scheduler.task_state import TaskState
from tensorir.function import IRModule
from tensorir.nodes.expr import StringImm
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

TAG: Final = "auto_scheduler_task_scheduler_tag"
"""The annotation of a block that names what it computes, such as a convolution."""
_GOLDEN: Final = 1.618
_PATIENCE: Final = 5


def tagged_group(task: TaskState) -> Hashable | None:
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

    def reachable_ms(self, index: int, tasks: Sequence[TaskState]) -> float | None:
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
