"""The rule that reduces along contiguous memory in the lanes of vectors."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Final

from codegen import Target
from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_types
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from search.schedule_rule.multi_level_tiling import move_consumer
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import TILING_STRUCTURE
from search.space_generator.tiling_needs import is_reduction_to_design
from search.space_generator.vector_lanes import Lanes, update_stores, vector_lanes
from tensorir.indices.accesses import strides
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar
from tensorir.rewriting.visit import walk

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
        for may_pad in (True, False):
            axis = _reduction_along_memory(sch.state, sref, self._task_target(), may_pad)
            if axis is not None and (may_pad or axis.lanes.multiple == 1):
                twin = sch.copy()
                # Some updates have no partial results, and some loops cannot be padded.
                with contextlib.suppress(ScheduleError):
                    self._factor(twin, block, axis)
                    return [twin, sch]
        return [sch]

    def _factor(self, sch: Schedule, block: BlockRV, axis: _LaneAxis) -> None:
        if axis.lanes.multiple > 1:
            _lengthen(sch, block, axis)
        sch.annotate(block, TILING_STRUCTURE, _STRUCTURE)
        loops = sch.get_loops(block)
        spatial = [loops[k] for k in axis.spatial]
        reduction = [loops[k] for k in axis.reduction]
        if [*spatial, *reduction] != loops:
            sch.reorder(*spatial, *reduction)
        ndim, lanes = axis.result_ndim, axis.lanes.count

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


def _lengthen(sch: Schedule, block: BlockRV, axis: _LaneAxis) -> None:
    """Pad the loop along memory to whole vectors, with neutral elements."""
    sref = sch.get_sref(block)
    loop = loops_above(sref)[axis.reduction[-1]].loop
    padding = [
        axis.lanes.multiple if value is loop.loop_var else 1
        for value in sref.block_realize.iter_values
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


@dataclass(frozen=True)
class _LaneAxis:
    """A reduction that can be done in the lanes of vectors."""

    spatial: tuple[int, ...]
    """The indices of the spatial loops around the block."""
    reduction: tuple[int, ...]
    """The indices of the reduction loops, with the loop along memory last."""
    lanes: Lanes
    result_ndim: int


def _reduction_along_memory(
    state: ScheduleState, block: StmtSRef, target: Target, may_pad: bool
) -> _LaneAxis | None:
    """Return the reduction with a loop along which each operand has the stride 0 or 1.

    None if there is no such loop, or if a spatial loop is contiguous in operands and result, since
    vectors along that loop need no final sum. All loops must have a constant extent, and the block
    an `init` and an update that stores one value or a tuple.
    """
    node = block.block
    stores = update_stores(node.body)
    if node.init is None or not stores:
        return None
    stored = {store.buffer for store in stores}
    loads = [p for store in stores for p in walk(store.value) if isinstance(p, BufferLoad)]
    operands = [
        strides(block.block_realize, load.buffer, load.indices)
        for load in loads
        if load.buffer not in stored
    ]
    if not operands:
        return None
    store = stores[0]
    result = strides(block.block_realize, store.buffer, store.indices)
    register = target.vector_lanes(max(load.dtype.bits for load in loads))
    around = loops_above(block)
    spatial: list[int] = []
    reduction: list[int] = []
    along: list[tuple[int, int, Lanes]] = []
    for place, (sref, kind) in enumerate(zip(around, loop_iter_types(state, around), strict=True)):
        loop = sref.loop
        if not isinstance(loop.extent, IntImm):
            return None
        steps = {operand.get(loop.loop_var, 0) for operand in operands}
        lanes = Lanes(1, 1)
        if steps in ({1}, {0, 1}):
            lanes = vector_lanes(loop.extent.value, register, may_pad)
        if kind == IterVar.DATA_PAR:
            if lanes.count > 1 and result.get(loop.loop_var) == 1:
                return None
            spatial.append(place)
        elif kind == IterVar.COMM_REDUCE:
            if lanes.count > 1:
                along.append((lanes.count, place, lanes))
            reduction.append(place)
        else:
            return None
    if not along or not spatial:
        return None
    _, last, lanes = max(along, key=lambda found: found[:2])
    others = [place for place in reduction if place != last]
    return _LaneAxis(tuple(spatial), (*others, last), lanes, len(store.buffer.shape))
