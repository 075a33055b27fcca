"""Leaving the size of register tiles to the search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from codegen.target import as_target
from schedule import BlockRV, Schedule
from search.errors import TuningError
from search.schedule_rule.schedule_rule import ScheduleRule
from search.spaces.annotations import REGISTER_TILE, TILING_STRUCTURE

if TYPE_CHECKING:
    from codegen import Target
    from search.context import TuneContext


class SampleRegisterTile(ScheduleRule):
    """Annotates the root block with how many vector registers `RewriteRegisterTile` may fill.

    Sampled from `shares` of the registers of the target, where 0 leaves loops in their order, with
    their probabilities (all the same by default), if some block is tiled in several levels and no
    other rule has annotated the root. Without the annotation a tile may fill all registers.
    `MutateRegisterTile` changes the decision.
    """

    def __init__(
        self,
        shares: Sequence[float] = (0, 0.25, 0.5, 0.75, 1),
        probabilities: Sequence[float] | None = None,
    ) -> None:
        self.shares = tuple(shares)
        self.probabilities = tuple(probabilities or [1 / len(shares)] * len(shares))
        if len(self.probabilities) != len(self.shares):
            raise TuningError(
                f"SampleRegisterTile needs a probability for each of {len(self.shares)} shares of "
                f"the registers, got {len(self.probabilities)}"
            )
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._target = context.target

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Annotate the block if it is the root."""
        sref = sch.get_sref(block)
        blocks = sch.state.blocks(sch.state.func_name_of(sref))
        tiled = any(TILING_STRUCTURE in other.block.annotations for other in blocks)
        if sref.parent is None and tiled and REGISTER_TILE not in sref.block.annotations:
            registers = as_target(self._target).vector_registers
            limits = [round(registers * share) for share in self.shares]
            limit = sch.sample_categorical(limits, self.probabilities)
            sch.annotate(block, REGISTER_TILE, limit)
        return [sch]
