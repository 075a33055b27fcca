"""The rule that factors reductions for parallel loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_type
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import RANDOM_COMPUTE_PRODUCER
from search.space_generator.tiling_needs import needs_rfactor
from tensorir.nodes.expr import IterVar

if TYPE_CHECKING:
    from search.task import Task


class AddRFactor(ScheduleRule):
    """Factors a reduction that has too little spatial parallelism.

    The reduction loops are fused and split in two by a sampled tile. There are three designs: with
    the outer part factored out, with the inner part factored out, and unchanged. Spatial
    parallelism is sufficient above `max_jobs_per_core` iterations per core (-1: never), and if the
    spatial loops have at least as many iterations as the reduction.

    A block without data reuse, such as the sum of a row or a pooling window, is always factored, as
    in MetaSchedule. With `only_above_cores` it is factored only if its reduction has more
    iterations than there are cores, as in Ansor.
    """

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_innermost_factor: int | None = None,
        *,
        only_above_cores: bool = False,
    ) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_innermost_factor = max_innermost_factor
        self.only_above_cores = only_above_cores
        self._max_parallel_extent: int | None = None
        self._shortest_untiled = 2

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        jobs = self.max_jobs_per_core
        self._max_parallel_extent = None if jobs == -1 else self._task_cores() * jobs
        if self.only_above_cores:
            self._shortest_untiled = self._task_cores() + 1

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the factored designs and the unchanged one."""
        sref = sch.get_sref(block)
        if sref.parent is None or not needs_rfactor(
            sch.state, sref, self._max_parallel_extent, self._shortest_untiled
        ):
            return [sch]
        plain = sch.copy()
        outer_and_inner, n_spatial = self._split_reduction(sch, block)
        factored = []
        for loop in outer_and_inner:
            twin = sch.copy()
            try:
                new_block = twin.rfactor(loop, n_spatial)
            except ScheduleError:
                continue
            twin.get_loops(new_block)
            twin.annotate(block, RANDOM_COMPUTE_PRODUCER, 1)
            factored.append(twin)
        return [*factored, plain]

    def _split_reduction(self, sch: Schedule, block: BlockRV) -> tuple[list[LoopRV], int]:
        """Fuse and split the reduction loops; return both parts and the number of other loops."""
        loops = sch.get_loops(block)
        kinds = [loop_iter_type(sch.state, sch.get_sref(loop)) for loop in loops]
        pairs = list(zip(loops, kinds, strict=True))
        spatial = [loop for loop, kind in pairs if kind == IterVar.DATA_PAR]
        reduce = [loop for loop, kind in pairs if kind != IterVar.DATA_PAR]
        if spatial + reduce != loops:
            sch.reorder(*spatial, *reduce)
        fused = sch.fuse(*reduce) if len(reduce) > 1 else reduce[0]
        limit = -1 if self.max_innermost_factor is None else self.max_innermost_factor
        factors = sch.sample_perfect_tile(fused, n=2, max_innermost_factor=limit)
        return sch.split(fused, factors), len(spatial)
