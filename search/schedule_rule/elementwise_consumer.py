"""The element-wise consumer of a block, which is computed where the block's results are."""

from __future__ import annotations

import contextlib

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from search.analysis.access_pattern import is_elementwise_consumer


def elementwise_consumer(sch: Schedule, block: BlockRV) -> BlockRV | None:
    """Return the only consumer of a block if it is element-wise, else None."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1 or not is_elementwise_consumer(sch.get_sref(consumers[0])):
        return None
    return consumers[0]


def move_consumer(sch: Schedule, block: BlockRV, loop: LoopRV) -> None:
    """Compute the element-wise consumer at a loop around the block, if it can be."""
    consumer = elementwise_consumer(sch, block)
    if consumer is not None:
        with contextlib.suppress(ScheduleError):
            sch.reverse_compute_at(consumer, loop, preserve_unit_loops=True)
