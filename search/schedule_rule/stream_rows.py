"""The rule for reductions over the rows of a matrix that is read once."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from schedule import BlockRV, Schedule
from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.block_kind import is_spatial
from schedule.decisions.tiles import divisors
from schedule.sref import StmtSRef, loops_above
from search.feature_extractor.machine import Machine
from search.schedule_rule.multi_level_tiling import move_consumer
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import REGISTER_TILE, TILING_STRUCTURE
from search.space_generator.tiling_needs import is_reduction_to_design
from search.space_generator.vector_lanes import vector_lanes
from tensorir.indices.accesses import loads_in, strides
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm, IterVar
from tensorir.nodes.ops import is_const_int
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
        rows = self._read_rows(sch, sref)
        others = sch.state.blocks(sch.state.func_name_of(sref))
        if rows is None or not all(other is sref or is_spatial(other) for other in others):
            return [sch]
        plain = sch.copy()
        self._stream(sch, block, rows)
        return [sch, plain]

    def _read_rows(self, sch: Schedule, block: StmtSRef) -> _Rows | None:
        """Return the loops of a reduction that reads each element of an operand once.

        The column loop is contiguous in the accumulators, and each operand has the stride 0 or 1
        there. The row loop is the longest reduction loop. None for other blocks.
        """
        store = block.block.body
        if block.block.init is None or not isinstance(store, BufferStore):
            return None
        around = loops_above(block)
        kinds = loop_iter_types(sch.state, around)
        extents = [loop.loop.extent for loop in around]
        lengths = [extent.value for extent in extents if isinstance(extent, IntImm)]
        loads = list(loads_in(store.value))
        operands = [load for load in loads if load.buffer is not store.buffer]
        result = strides(block.block_realize, store.buffer, store.indices)
        moved = [strides(block.block_realize, load.buffer, load.indices) for load in operands]
        running = [loop.loop.loop_var for loop in around if not is_const_int(loop.loop.extent, 1)]
        if len(lengths) < len(extents) or not any(
            _size(load.buffer) == prod(lengths) and all(steps.get(var) for var in running)
            for load, steps in zip(operands, moved, strict=True)
        ):
            return None
        target = self._task_target()
        register = target.vector_lanes(max(load.dtype.bits for load in loads))
        column, lanes = None, 1
        spatial, reduction = [], []
        for place, (loop, kind) in enumerate(zip(around, kinds, strict=True)):
            var = loop.loop.loop_var
            if kind == IterVar.COMM_REDUCE:
                reduction.append(place)
                continue
            if kind != IterVar.DATA_PAR:
                return None
            spatial.append(place)
            if result.get(var) == 1 and all(steps.get(var, 0) in (0, 1) for steps in moved):
                column, lanes = place, vector_lanes(lengths[place], register, may_pad=False).count
        if column is None or lanes == 1 or not reduction:
            return None
        row = max(reduction, key=lambda place: lengths[place])
        rows = _largest_divisor(lengths[row], self.max_rows)
        vectors = _largest_divisor(lengths[column] // lanes, self.max_vectors)
        if rows < _FEWEST_ROWS or vectors < _FEWEST_VECTORS:
            return None
        steps = lengths[column] // lanes // vectors
        held = lengths[column] * store.buffer.dtype.bits // 8
        room = Machine.of(target).caches[0] // 2
        least = max(-(-held // room), target.num_cores or 1)
        parts = min((n for n in divisors(steps) if n >= least), default=steps)
        return _Rows(
            column,
            row,
            tuple(place for place in spatial if place != column),
            tuple(place for place in reduction if place != row),
            parts,
            rows,
            vectors,
            lanes,
        )

    def _stream(self, sch: Schedule, block: BlockRV, rows: _Rows) -> None:
        sch.annotate(block, TILING_STRUCTURE, _STRUCTURE)
        loops = sch.get_loops(block)
        vectors, vector, lane = sch.split(loops[rows.column], [None, rows.vectors, rows.lanes])
        part, step = sch.split(vectors, [rows.parts, None])
        group, row = sch.split(loops[rows.row], [None, rows.rows])
        spatial = [loops[k] for k in rows.spatial]
        reduction = [loops[k] for k in rows.reduction]
        sch.reorder(*spatial, part, *reduction, group, step, row, vector, lane)
        sch.unroll(row)
        sch.unroll(vector)
        sch.vectorize(lane)
        move_consumer(sch, block, part)
        name = sch.state.func_name_of(sch.get_sref(block))
        root = sch.get_block(sch.state.root(name).block.name_hint, name)
        sch.annotate(root, REGISTER_TILE, 0)


@dataclass(frozen=True)
class _Rows:
    """The indices of the loops over a matrix, and the sizes of their parts."""

    column: int
    """The loop along a row."""
    row: int
    """The loop over rows."""
    spatial: tuple[int, ...]
    """The other spatial loops."""
    reduction: tuple[int, ...]
    """The other reduction loops."""
    parts: int
    rows: int
    """The number of rows that are read at the same time."""
    vectors: int
    """The number of unrolled vectors of a row."""
    lanes: int


def _largest_divisor(extent: int, limit: int) -> int:
    return max(n for n in divisors(extent) if n <= limit)


def _size(buffer: Buffer) -> int | None:
    """Return the number of elements of a buffer, None for a symbolic shape."""
    extents = [extent.value for extent in buffer.shape if isinstance(extent, IntImm)]
    return prod(extents) if len(extents) == len(buffer.shape) else None
