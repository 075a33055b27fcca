"""The rule that samples the compute locations of blocks that no other rule has moved."""

from __future__ import annotations

from schedule import BlockRV, Schedule
from schedule.analysis.dependency import DepKind, dependencies
from schedule.sref import StmtSRef, loops_above
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import RANDOM_COMPUTE_PRODUCER
from search.space_generator.tiling_needs import has_been_tiled


class RandomComputeLocation(ScheduleRule):
    """Samples the compute location of a block: inlined, at a loop of its consumer, or unchanged."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Move the block, and its producer if the block has `RANDOM_COMPUTE_PRODUCER`."""
        if not _is_free(sch, sch.get_sref(block)):
            return [sch]
        producer: BlockRV | None = None
        if RANDOM_COMPUTE_PRODUCER in sch.get(block).annotations:
            (producer,) = sch.get_producers(block)
            sch.unannotate(block, RANDOM_COMPUTE_PRODUCER)
        _move(sch, block)
        if producer is not None:
            _move(sch, producer)
        return [sch]


def _move(sch: Schedule, block: BlockRV) -> None:
    location = sch.sample_compute_location(block)
    sch.compute_at(block, location, preserve_unit_loops=True)


def _is_free(sch: Schedule, block: StmtSRef) -> bool:
    """Return True if a block below the root has a consumer and shares its loops with no block."""
    if block.parent is None or has_been_tiled(block):
        return False
    root = sch.state.scope_root(block)
    loops = loops_above(block)
    if root.parent is not None or not loops or len(sch.state.child_blocks(loops[0])) != 1:
        return False
    edges = dependencies(sch.state, root).out_of(block)
    return any(d.kind in (DepKind.RAW, DepKind.WAW) for d in edges)
