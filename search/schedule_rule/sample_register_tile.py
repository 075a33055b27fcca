"""Leaving the size of register tiles to the search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.target import as_target
from schedule import BlockRV, Schedule
from schedule.analysis.block_kind import is_spatial
from search.annotations import REGISTER_TILE
from search.schedule_rule.schedule_rule import ScheduleRule

if TYPE_CHECKING:
    from codegen import Target
    from search.context import TuneContext


class SampleRegisterTile(ScheduleRule):
    """Annotates the root block with how many vector registers `RewriteRegisterTile` may fill.

    Sampled from none (loops keep their order), a quarter, a half, three quarters and all of the
    registers of the target, unless all blocks are spatial. Without this rule, which no preset has,
    it may fill all of them. `MutateRegisterTile` changes the decision.
    """

    def __init__(self) -> None:
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._target = context.target

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Annotate the block if it is the root."""
        sref = sch.get_sref(block)
        blocks = sch.state.blocks(sch.state.func_name_of(sref))
        if sref.parent is None and not all(is_spatial(other) for other in blocks):
            quarter = as_target(self._target).vector_registers // 4
            limit = sch.sample_categorical([quarter * k for k in range(5)], [0.2] * 5)
            sch.annotate(block, REGISTER_TILE, limit)
        return [sch]
