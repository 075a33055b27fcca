"""Constants that are stored before they are used."""

from __future__ import annotations

from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.block_kind import output_buffer
from search.schedule_rule.schedule_rule import ScheduleRule


class InlineConstantScalars(ScheduleRule):
    """Inlines a block that reads nothing and writes one value of no dimension."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Inline the block if it is a constant scalar."""
        node = sch.get(block)
        if node.reads or len(node.writes) != 1 or node.writes[0].buffer.shape:
            return [sch]
        if output_buffer(sch.state, sch.get_sref(block)) is None:
            try_inline(sch, block)
        return [sch]


def try_inline(sch: Schedule, block: BlockRV) -> bool:
    """Inline a block into its consumers if that is legal."""
    try:
        sch.compute_inline(block)
    except ScheduleError:
        return False
    return True
