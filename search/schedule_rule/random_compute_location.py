"""The random places of blocks that no other rule has placed."""

from __future__ import annotations

from schedule import BlockRV, Schedule
from schedule.analysis.dependency import DepKind, dependencies
from schedule.sref import StmtSRef, loops_above
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import RANDOM_COMPUTE_PRODUCER
from search.space_generator.tiling_needs import has_been_tiled


class RandomComputeLocation(ScheduleRule):
    """Samples the loop at which a block is computed, among inlining it and leaving it alone."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Move the block, and its producer where the block asks for it."""
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
    """Say whether a block has a loop nest at the root of its own, and a consumer."""
    if block.parent is None or has_been_tiled(block):
        return False
    root = sch.state.scope_root(block)
    loops = loops_above(block)
    if root.parent is not None or not loops or len(sch.state.child_blocks(loops[0])) != 1:
        return False
    edges = dependencies(sch.state, root).out_of(block)
    return any(d.kind in (DepKind.RAW, DepKind.WAW) for d in edges)
