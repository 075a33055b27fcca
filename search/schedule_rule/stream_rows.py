"""The rule for reductions over the rows of a matrix that is read only once."""

from __future__ import annotations

from math import prod
from typing import Final

from schedule import BlockRV, Schedule
from schedule.analysis.block_kind import is_spatial
from schedule.decisions.tiles import divisors
from search.feature_extractor.machine import Machine
from search.schedule_rule.multi_level_tiling import move_consumer
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import REGISTER_TILE, TILING_STRUCTURE
from search.space_generator.tiling_needs import is_reduction_to_design
from search.space_generator.vector_lanes import reduction_nest, vector_lanes
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import BufferStore

_STRUCTURE: Final = "SRSRS"
_FEWEST_ROWS: Final = 4
_FEWEST_VECTORS: Final = 2


class StreamRows(ScheduleRule):
    """Adds a few rows of a matrix at a time, for reductions that read the matrix once.

    The time of a vector-matrix product, or of column sums, is the time of reading the matrix. With
    a tile of accumulators in registers for all rows, the nest would read a piece of every row
    before the next piece of a row, which is slow. So there is another design for the only reduction
    of a function:

        for j_0, k_0, j_1 in T.grid(...):
            for k_1 in T.unroll(8): for j_2 in T.unroll(4): for j_3 in T.vectorized(16):
                y[j] += x[k] * A[k, j]

    It reads a few rows at the same time from start to end, and the sums stay in the first cache.
    Nothing is sampled. The number of rows is the largest divisor of the reduction up to `max_rows`,
    the number of streams that prefetchers follow, and the number of vectors the largest one up to
    `max_vectors`; there must be at least four rows and two vectors. Rows are split into parts
    (`j_0`) only for the cores, or if the sums fill more than half of the first cache, because each
    part of a row is in other pages. The loops are in their final order, so no register tile is
    chosen in such a function.
    """

    def __init__(self, max_rows: int = 8, max_vectors: int = 8) -> None:
        self.max_rows = max_rows
        self.max_vectors = max_vectors

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the design that streams rows, if there is one, and the unchanged one."""
        sref = sch.get_sref(block)
        if not is_reduction_to_design(sch.state, sref):
            return [sch]
        others = sch.state.blocks(sch.state.func_name_of(sref))
        if not all(other is sref or is_spatial(other) for other in others):
            return [sch]
        plain = self._streamed(sch, block)
        return [sch] if plain is None else [sch, plain]

    def _streamed(self, sch: Schedule, block: BlockRV) -> Schedule | None:
        """Stream the rows of an operand of which a reduction reads each element once.

        The column loop is contiguous in the accumulators, and each operand has the stride 0 or 1
        there. The row loop is the longest reduction loop. Return a copy of the schedule before, or
        None for other blocks.
        """
        sref = sch.get_sref(block)
        target = self._task_target()
        nest = reduction_nest(sch.state, sref, target)
        if nest is None or not isinstance(sref.block.body, BufferStore):
            return None
        lengths = nest.extents
        running = [loop for loop, extent in zip(nest.loops, lengths, strict=True) if extent > 1]
        if not any(
            _size(buffer) == prod(lengths) and all(moved.get(loop) for loop in running)
            for buffer, moved in nest.operands
        ):
            return None
        column, lanes = None, 1
        for place in nest.spatial:
            loop = nest.loops[place]
            is_along = all(moved.get(loop, 0) in (0, 1) for _, moved in nest.operands)
            if nest.result_moves.get(loop) == 1 and is_along:
                column = place
                lanes = vector_lanes(lengths[place], nest.register, may_pad=False).count
        if column is None or lanes == 1 or not nest.reduction:
            return None
        row = max(nest.reduction, key=lambda place: lengths[place])
        side_by_side = _largest_divisor(lengths[row], self.max_rows)
        unrolled = _largest_divisor(lengths[column] // lanes, self.max_vectors)
        if side_by_side < _FEWEST_ROWS or unrolled < _FEWEST_VECTORS:
            return None
        steps = lengths[column] // lanes // unrolled
        held = lengths[column] * nest.result.dtype.bits // 8
        room = Machine.of(target).caches[0] // 2
        least = max(-(-held // room), target.num_cores or 1)
        parts = min((n for n in divisors(steps) if n >= least), default=steps)
        plain = sch.copy()
        sch.annotate(block, TILING_STRUCTURE, _STRUCTURE)
        loops = sch.get_loops(block)
        vectors, vector, lane = sch.split(loops[column], [None, unrolled, lanes])
        part, step = sch.split(vectors, [parts, None])
        group, inner = sch.split(loops[row], [None, side_by_side])
        spatial = [loops[k] for k in nest.spatial if k != column]
        reduction = [loops[k] for k in nest.reduction if k != row]
        sch.reorder(*spatial, part, *reduction, group, step, inner, vector, lane)
        sch.unroll(inner)
        sch.unroll(vector)
        sch.vectorize(lane)
        move_consumer(sch, block, part)
        name = sch.state.func_name_of(sch.get_sref(block))
        root = sch.get_block(sch.state.root(name).block.name_hint, name)
        sch.annotate(root, REGISTER_TILE, 0)
        return plain


def _largest_divisor(extent: int, limit: int) -> int:
    return max(n for n in divisors(extent) if n <= limit)


def _size(buffer: Buffer) -> int | None:
    """Return the number of elements of a buffer, None for a symbolic shape."""
    extents = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
    return prod(extents) if len(extents) == len(buffer.shape) else None
