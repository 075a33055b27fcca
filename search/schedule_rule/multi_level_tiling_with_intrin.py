"""Multi-level tiling around a tensor intrinsic."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from codegen.target.machine_intrinsics import refusal_of
from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.intrin_match import Mismatch
from search.errors import refusal_reason
from search.schedule_rule.intrin_operands import intrin_loops, repack, repacked_operands
from search.schedule_rule.multi_level_tiling import (
    BlockFilter,
    MultiLevelTiling,
    ReuseType,
    TilingState,
)
from search.space_generator.annotations import AUTO_TENSORIZE
from tensorir.tensor_intrin import TensorIntrin

if TYPE_CHECKING:
    from search.task import Task


class MultiLevelTilingWithIntrin(MultiLevelTiling):
    """Tiles a block so that its innermost tile is one call of a tensor intrinsic.

    The loops of the intrinsic are split off, moved innermost, and become an inner block. The outer
    block is annotated with `intrin_name`, for `RewriteTensorize`, and tiled like in
    `MultiLevelTiling`, with the same arguments.

    An operand with another memory layout than the intrinsic's, or a narrower type, is copied first
    (`intrin_operands`). With `other_sign`, so is a factor that is signed where the intrinsic needs
    an unsigned number, or the reverse. A block is left to later rules if the intrinsic computes
    something else, if an operand cannot be copied to its layout, or if the target lacks its
    instructions. Otherwise all designs use the intrinsic. IRValueError for an unknown intrinsic.
    """

    def __init__(
        self,
        intrin_name: str,
        structure: str,
        tile_binds: Sequence[str] | None = None,
        max_innermost_factor: int | None = None,
        vector_load_lens: Sequence[int] | None = None,
        reuse_read: ReuseType | None = None,
        reuse_write: ReuseType | None = None,
        filter_fn: BlockFilter | None = None,
        other_sign: bool = False,
    ) -> None:
        super().__init__(
            structure,
            tile_binds,
            max_innermost_factor,
            vector_load_lens,
            reuse_read,
            reuse_write,
            filter_fn,
        )
        intrin = TensorIntrin.get(intrin_name)
        assert intrin is not None
        self.intrin_name = intrin_name
        self.other_sign = other_sign
        self._intrin = intrin
        self._refusal: str | None = None
        self._logger = logging.getLogger("tensorir.search")

    def _initialize_with_tune_context(self, context: Task) -> None:
        self._logger = context.logger
        if context.target is not None:
            self._refusal = refusal_of(self._intrin.impl, context.target)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the tiled designs with the intrinsic, if it fits."""
        sref = sch.get_sref(block)
        if not self.applies_to(sch, sref):
            return [sch]
        try:
            intrin_loops(sref, self._intrin.desc, other_sign=self.other_sign)
        except Mismatch as difference:
            self._log(sch, block, difference.reason)
            return [sch]
        if self._refusal is not None:
            self._log(sch, block, self._refusal)
            return [sch]
        return self.designs(sch.copy(), block) or [sch]

    def steps(self) -> list[Callable[[TilingState], list[TilingState]]]:
        """Return the steps of tiling, after the step that separates the intrinsic."""
        return [self.separate_intrin, *super().steps()]

    def separate_intrin(self, state: TilingState) -> list[TilingState]:
        """Move the loops of the intrinsic to an inner block; the outer block is tiled."""
        sch, block = state.sch, state.block
        try:
            for operand in repacked_operands(
                sch.get_sref(block), self._intrin, other_sign=self.other_sign
            ):
                repack(sch, block, operand)
            outer = sch.blockize(self._innermost(sch, block))
            sch.copy().tensorize(outer, self.intrin_name)
        except Mismatch as difference:
            self._log(sch, block, difference.reason)
            return []
        except ScheduleError as error:
            self._log(sch, block, refusal_reason(error))
            return []
        sch.annotate(outer, AUTO_TENSORIZE, self.intrin_name)
        state.block = outer
        return [state]

    def _innermost(self, sch: Schedule, block: BlockRV) -> LoopRV:
        """Split off the loops of the intrinsic and move them innermost; return the outermost."""
        loops = sch.get_loops(block)
        inner: list[LoopRV] = []
        for part in reversed(intrin_loops(sch.get_sref(block), self._intrin.desc)):
            _, tile = sch.split(loops[part.position], [None, part.extent])
            inner.insert(0, tile)
        around = sch.get_loops(block)
        taken = {sch.get_sref(loop) for loop in inner}
        first = next(k for k, loop in enumerate(around) if sch.get_sref(loop) in taken)
        between = [loop for loop in around[first:] if sch.get_sref(loop) not in taken]
        sch.reorder(*between, *inner)
        return inner[0]

    def _log(self, sch: Schedule, block: BlockRV, reason: str) -> None:
        self._logger.debug(
            "Block %s is not tiled for %s: %s", sch.get(block).name_hint, self.intrin_name, reason
        )
