"""The rules that annotate root blocks for the postprocessors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedule import BlockRV, Schedule
from schedule.analysis.block_kind import is_spatial
from search.errors import TuningError
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import (
    KEPT_ROLLED,
    PARALLEL,
    REGISTER_TILE,
    TILING_STRUCTURE,
    UNROLL_EXPLICIT,
    UNROLL_IMPLICIT,
    VECTORIZE,
)

if TYPE_CHECKING:
    from search.task import Task


class ParallelizeVectorizeUnroll(ScheduleRule):
    """Annotates the root block for `RewriteParallelVectorizeUnroll`.

    Parallel loops get up to `max_jobs_per_core` iterations per core, vector loops up to
    `max_vectorize_extent`; -1 means none. A target with one core gets no parallel loop, so that its
    schedules run on any machine as they were measured. The unroll limit is sampled from
    `unroll_max_steps`, unless all blocks are spatial or a rule has set `KEPT_ROLLED`. With
    `unroll_explicit` the program is unrolled, else loops are marked for LLVM.
    """

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_vectorize_extent: int = 16,
        unroll_max_steps: Sequence[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_vectorize_extent = max_vectorize_extent
        self.unroll_max_steps = list(unroll_max_steps or ())
        self.unroll_explicit = unroll_explicit
        self._max_parallel_extent = -1

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        jobs = self.max_jobs_per_core
        cores = 1 if jobs == -1 else self._task_cores()
        self._max_parallel_extent = -1 if cores == 1 else cores * jobs

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Annotate the block if it is the root."""
        sref = sch.get_sref(block)
        if sref.parent is not None:
            return [sch]
        if self._max_parallel_extent != -1:
            sch.annotate(block, PARALLEL, self._max_parallel_extent)
        if self.max_vectorize_extent != -1:
            sch.annotate(block, VECTORIZE, self.max_vectorize_extent)
        blocks = list(sch.state.blocks(sch.state.func_name_of(sref)))
        may_unroll = not any(KEPT_ROLLED in other.block.annotations for other in blocks)
        if self.unroll_max_steps and may_unroll and not all(is_spatial(b) for b in blocks):
            count = len(self.unroll_max_steps)
            step = sch.sample_categorical(self.unroll_max_steps, [1.0 / count] * count)
            key = UNROLL_EXPLICIT if self.unroll_explicit else UNROLL_IMPLICIT
            sch.annotate(block, key, step)
        return [sch]


class SampleRegisterTile(ScheduleRule):
    """Annotates the root block with the number of vector registers for `RewriteRegisterTile`.

    The number is sampled from fractions of the target's registers (`shares`) with `probabilities`,
    by default equal; 0 keeps the order of the loops. The rule applies if a block has multi-level
    tiles and no other rule has annotated the root. Without the annotation, a tile may fill all
    registers. `MutateRegisterTile` changes the decision.
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
                f"SampleRegisterTile got {len(self.probabilities)} probabilities for "
                f"{len(self.shares)} shares; pass one for each share"
            )

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Annotate the block if it is the root."""
        sref = sch.get_sref(block)
        blocks = sch.state.blocks(sch.state.func_name_of(sref))
        tiled = any(TILING_STRUCTURE in other.block.annotations for other in blocks)
        if sref.parent is None and tiled and REGISTER_TILE not in sref.block.annotations:
            registers = self._task_target().vector_registers
            limits = [round(registers * share) for share in self.shares]
            limit = sch.sample_categorical(limits, self.probabilities)
            sch.annotate(block, REGISTER_TILE, limit)
        return [sch]
