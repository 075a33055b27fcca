"""The postprocessor that binds the nests of a GPU program that no rule has bound."""

from __future__ import annotations

from schedule import Schedule, ScheduleError
from search.postproc.postproc import Postproc, functions_with_blocks
from search.space_generator.thread_binding import bind_nest, is_below


class RewriteUnboundBlock(Postproc):
    """Binds each block at the top of a function to thread blocks and threads.

    Nests get as many threads as possible, and at most `max_threadblocks` thread blocks. A schedule
    is rejected if a block has no spatial loops that can be bound.
    """

    def __init__(self, max_threadblocks: int = 256) -> None:
        self.max_threadblocks = max_threadblocks
        self._refusal = ""

    def apply(self, sch: Schedule) -> bool:
        """Bind all unbound blocks; False if one cannot be bound."""
        gpu = self._task_target().gpu
        if gpu is None:
            return True
        for name in functions_with_blocks(sch):
            for sref in sch.state.child_blocks(sch.state.root(name)):
                if is_below(sref, "blockIdx") and is_below(sref, "threadIdx"):
                    continue
                block = sch.get_block(sref.block.name_hint, name)
                most = gpu.max_threads_per_block
                try:
                    bind_nest(sch, block, self.max_threadblocks, most, lambda limit: limit)
                except ScheduleError as error:
                    self._refusal = (
                        f"the loops of block {sref.block.name_hint!r} cannot be bound to threads: "
                        f"{error.message}"
                    )
                    return False
        return True

    def reason(self, sch: Schedule) -> str:
        """Return the block that cannot be bound, and the reason."""
        return self._refusal
