"""The rules that factor reductions: for parallel loops, and for the lanes of vectors."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_type
from schedule.sref import loops_above
from search.schedule_rule.multi_level_tiling import move_consumer
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import RANDOM_COMPUTE_PRODUCER, TILING_STRUCTURE
from search.space_generator.tiling_needs import is_reduction_to_design, needs_rfactor
from search.space_generator.vector_lanes import Lanes, ReductionNest, reduction_nest, vector_lanes
from tensorir.nodes.expr import IterVar

if TYPE_CHECKING:
    from search.task import Task


class AddRFactor(ScheduleRule):
    """Factors a reduction that has too little spatial parallelism.

    The reduction loops are fused and split in two by a sampled tile. There are three designs: with
    the outer part factored out, with the inner part factored out, and unchanged. Spatial
    parallelism is sufficient above `max_jobs_per_core` iterations per core (-1: never), and if the
    spatial loops have at least as many iterations as the reduction.

    A block without data reuse, such as the sum of a row or a pooling window, is always factored.
    """

    def __init__(
        self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = None
    ) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_innermost_factor = max_innermost_factor
        self._max_parallel_extent: int | None = None

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        jobs = self.max_jobs_per_core
        self._max_parallel_extent = None if jobs == -1 else self._task_cores() * jobs

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the factored designs and the unchanged one."""
        sref = sch.get_sref(block)
        if sref.parent is None or not needs_rfactor(sch.state, sref, self._max_parallel_extent):
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
        fused, n_spatial = reduction_innermost(sch, block)
        limit = -1 if self.max_innermost_factor is None else self.max_innermost_factor
        factors = sch.sample_perfect_tile(fused, n=2, max_innermost_factor=limit)
        return sch.split(fused, factors), n_spatial


def reduction_innermost(sch: Schedule, block: BlockRV) -> tuple[LoopRV, int]:
    """Move the reduction loops of a block inside and fuse them.

    Return the fused loop, and the number of loops around it.
    """
    loops = sch.get_loops(block)
    kinds = [loop_iter_type(sch.state, sch.get_sref(loop)) for loop in loops]
    pairs = list(zip(loops, kinds, strict=True))
    spatial = [loop for loop, kind in pairs if kind == IterVar.DATA_PAR]
    reduce = [loop for loop, kind in pairs if kind != IterVar.DATA_PAR]
    if spatial + reduce != loops:
        sch.reorder(*spatial, *reduce)
    fused = sch.fuse(*reduce) if len(reduce) > 1 else reduce[0]
    return fused, len(spatial)


_STRUCTURE: Final = "SSRS"
"""Two levels of spatial loops, the reduction, and the tile of sums in registers."""


class RFactorOverLanes(ScheduleRule):
    """Sums contiguous operands in the lanes of vectors.

    It applies to reductions whose operands are contiguous along a reduction axis and along no
    spatial axis: a matrix-vector product, a product with a transposed matrix, the row sums of a
    matrix. The additional design is:

    - Every lane has its own partial sum, in a sampled number of vectors: the reduction loop is
      factored over vectors and lanes.
    - The partial sums are added in a tree, where each level factors out half of the lanes.
    - The spatial loops are split in three by sampled tiles. The partial sums of a tile are computed
      together, so that operands are read once for several rows and columns. The tree, and an
      element-wise consumer, are computed at the innermost spatial loop.

    `max_innermost_factor` bounds the sides of the tile and the number of vectors.

    Designs of several blocks multiply: each of the two reductions of a softmax has two designs of
    `AddRFactor`, one of this rule, and the unchanged one, which gives 16 designs, compared with 9
    in MetaSchedule and Ansor.

    Several values may be reduced together, such as index and value of an argmax. A row whose length
    no suitable vector divides is padded by `pad_einsum`, and the padding is inlined: the additional
    steps combine the neutral element.
    """

    def __init__(self, max_innermost_factor: int = 16) -> None:
        self.max_innermost_factor = max_innermost_factor

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the design in lanes and the unchanged one."""
        sref = sch.get_sref(block)
        if not is_reduction_to_design(sch.state, sref):
            return [sch]
        nest = reduction_nest(sch.state, sref, self._task_target())
        for may_pad in (True, False):
            found = None if nest is None else _reduction_along_memory(nest, may_pad)
            if nest is not None and found is not None and (may_pad or found[1].multiple == 1):
                twin = sch.copy()
                # Some updates cannot be split up, and some loops cannot be padded.
                with contextlib.suppress(ScheduleError):
                    self._factor(twin, block, nest, *found)
                    return [twin, sch]
        return [sch]

    def _factor(
        self, sch: Schedule, block: BlockRV, nest: ReductionNest, last: int, vector_of: Lanes
    ) -> None:
        if vector_of.multiple > 1:
            _lengthen(sch, block, last, vector_of.multiple)
        sch.annotate(block, TILING_STRUCTURE, _STRUCTURE)
        loops = sch.get_loops(block)
        spatial = [loops[k] for k in nest.spatial]
        reduction = [*(loops[k] for k in nest.reduction if k != last), loops[last]]
        if [*spatial, *reduction] != loops:
            sch.reorder(*spatial, *reduction)
        ndim, lanes = len(nest.result.shape), vector_of.count

        steps, lane = sch.split(reduction[-1], [None, lanes])
        factors = sch.sample_perfect_tile(steps, 2, self.max_innermost_factor)
        steps, vector = sch.split(steps, factors)
        partial = sch.rfactor(sch.fuse(vector, lane), ndim)
        tree = _add_up(sch, block, lanes, ndim)

        middle, inner = self._tile(sch, block, len(spatial))
        move_consumer(sch, block, inner)
        for level in reversed(tree):
            sch.compute_at(level, inner)
            half, pair = sch.get_loops(level)[-2:]
            sch.reorder(pair, half)
            sch.unroll(pair)
            sch.vectorize(half)
        sch.unroll(sch.get_loops(block)[-1])

        sch.compute_at(partial, middle, preserve_unit_loops=True)
        inside = sch.get_loops(partial)[2 * len(spatial) :]
        elements, tile, run = inside[0], inside[1 : len(spatial) + 1], inside[len(spatial) + 1 :]
        vector, lane = sch.split(elements, [factors[1], lanes])
        sch.reorder(*run, vector, *tile, lane)
        sch.vectorize(lane)

    def _tile(self, sch: Schedule, block: BlockRV, n_spatial: int) -> tuple[LoopRV, LoopRV]:
        """Split the spatial loops; return the last loop outside the tile and the last in it."""
        levels: list[list[LoopRV]] = [[], [], []]
        for loop in sch.get_loops(block)[:n_spatial]:
            factors = sch.sample_perfect_tile(loop, 3, self.max_innermost_factor)
            for level, part in zip(levels, sch.split(loop, factors), strict=True):
                level.append(part)
        outer, middle, inner = levels
        sch.reorder(*outer, *middle, *inner)
        return middle[-1], inner[-1]


def _lengthen(sch: Schedule, block: BlockRV, place: int, multiple: int) -> None:
    """Pad the loop along memory to whole vectors, with neutral elements."""
    sref = sch.get_sref(block)
    loop = loops_above(sref)[place].loop
    padding = [
        multiple if value is loop.loop_var else 1 for value in sref.block_realize.iter_values
    ]
    before = {sch.get_sref(producer).block for producer in sch.get_producers(block)}
    sch.pad_einsum(block, padding)
    for producer in sch.get_producers(block):
        if sch.get_sref(producer).block not in before:
            sch.compute_inline(producer)


def _add_up(sch: Schedule, block: BlockRV, lanes: int, ndim: int) -> list[BlockRV]:
    """Turn the sum of the partial sums into a tree; return its levels without the last.

    The first level also adds all vectors. An odd number of lanes is not halved.
    """
    levels = []
    while lanes % 2 == 0 and lanes > 2:
        lanes //= 2
        _, half = sch.split(sch.get_loops(block)[-1], [None, lanes])
        levels.append(sch.rfactor(half, ndim))
    return levels


def _reduction_along_memory(nest: ReductionNest, may_pad: bool) -> tuple[int, Lanes] | None:
    """Return a reduction loop along which each operand has the stride 0 or 1, and its lanes.

    None without such a loop, or if a spatial loop is contiguous in operands and result, since
    vectors along that loop need no final sum.
    """
    along: list[tuple[int, int, Lanes]] = []
    for place, (loop, extent) in enumerate(zip(nest.loops, nest.extents, strict=True)):
        if {moved.get(loop, 0) for _, moved in nest.operands} in ({1}, {0, 1}):
            lanes = vector_lanes(extent, nest.register, may_pad)
            if lanes.count > 1 and place in nest.reduction:
                along.append((lanes.count, place, lanes))
            elif lanes.count > 1 and nest.result_moves.get(loop) == 1:
                return None
    if not along or not nest.spatial:
        return None
    return max(along, key=lambda found: found[:2])[1:]
