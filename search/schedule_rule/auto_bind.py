"""The rule that binds the nests of a GPU program that other rules left unbound."""

from __future__ import annotations

from collections.abc import Sequence

from schedule import BlockRV, ExprRV, Schedule, ScheduleError
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.thread_binding import bind_nest


class AutoBind(ScheduleRule):
    """Binds the outer spatial loops of a block to thread blocks and threads.

    The number of threads is sampled from `thread_extents`, those up to the number of iterations and
    to the limit of the target. A nest that has more iterations than `max_threadblocks` blocks have
    threads runs several iterations in each thread. The rule leaves blocks in a thread block as they
    are. It applies to targets of GPUs.
    """

    def __init__(
        self,
        max_threadblocks: int = 256,
        thread_extents: Sequence[int] = (32, 64, 128, 256, 512, 1024),
    ) -> None:
        self.max_threadblocks = max_threadblocks
        self.thread_extents = list(thread_extents)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the design with bound loops."""
        gpu = self._task_target().gpu
        if gpu is None or sch.get_sref(block).parent is None:
            return [sch]
        design = sch.copy()

        def threads(limit: int) -> int | ExprRV:
            extents = [extent for extent in self.thread_extents if extent <= limit]
            if len(extents) < 2:
                return extents[0] if extents else limit
            return design.sample_categorical(extents, [1 / len(extents)] * len(extents))

        try:
            bind_nest(design, block, self.max_threadblocks, gpu.max_threads_per_block, threads)
        except ScheduleError:
            # For example, each step of the loop needs the result of the step before.
            return [sch]
        return [design]
