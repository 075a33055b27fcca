"""The rule that tiles nests without data reuse: element-wise programs, stencils, transposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd
from operator import mul
from typing import Final

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.block_kind import is_spatial
from schedule.analysis.loops import is_plain
from schedule.sref import StmtSRef, loops_above
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import PRAGMA_AUTO_UNROLL_MAX_STEP, PRAGMA_UNROLL_EXPLICIT
from search.space_generator.tiling_needs import has_been_tiled
from tensorir.indices.accesses import loads_in, strides
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BufferStore

_SHORTEST_SIDE: Final = 4
"""The minimum side of a tile."""


class TileSpatial(ScheduleRule):
    """Tiles the only block of a function if it is spatial, and transposes within other blocks.

    A tile has up to `max_rows` rows and `max_lanes` columns, both sampled, and its rows are
    unrolled if a sampled limit allows that:

        for i_0, j_0 in T.grid(...):
            for i_1 in T.unroll(16): for j_1 in T.vectorized(16):
                Y[i, j] = X[j, i]

    Columns are those of the result. Rows are those of an operand that is read across, as above,
    else those of an outer loop. If all elements are read once and in order, one loop over all
    elements is tiled. The design without tiles comes first: LLVM unrolls it.

    If an operand is read across, there are two more designs: one with square tiles of a vector in
    both directions, where nothing is sampled, and one with exchanged loops of the tile. The design
    with square tiles is the only one for a block that is inside of another block.
    """

    def __init__(
        self,
        max_rows: int = 16,
        max_lanes: int = 64,
        unroll_max_steps: Sequence[int] = (0, 16, 64),
    ) -> None:
        self.max_rows = max_rows
        self.max_lanes = max_lanes
        self.unroll_max_steps = tuple(unroll_max_steps)

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the unchanged design, then the designs with tiles."""
        axes = _tile_axes(sch, sch.get_sref(block))
        if axes is None:
            return [sch]
        if _is_inner(sch, sch.get_sref(block)):
            squares = self._tile_squares(sch.copy(), block, axes) if axes.is_across else None
            return [squares or sch]
        designs = [self._tile_rows_and_lanes(sch.copy(), block, axes, False)]
        if axes.is_across:
            designs.insert(0, self._tile_squares(sch.copy(), block, axes))
            designs.append(self._tile_rows_and_lanes(sch.copy(), block, axes, True))
        return [sch, *(design for design in designs if design is not None)]

    def _tile_squares(self, sch: Schedule, block: BlockRV, axes: _Axes) -> Schedule | None:
        """Return the design with tiles of at most a vector's lanes in both directions."""
        loops = sch.get_loops(block)
        assert axes.row is not None
        lanes = self._task_target().vector_lanes(sch.get(block).writes[0].buffer.dtype.bits)
        sides = [gcd(_extent(sch, loops[k]), lanes) for k in (axes.row, axes.column)]
        if min(sides) < _SHORTEST_SIDE:
            return None
        parts = [
            sch.split(loops[k], [None, side])
            for k, side in zip((axes.row, axes.column), sides, strict=True)
        ]
        others = [loops[k] for k in range(len(loops)) if k not in (axes.row, axes.column)]
        try:
            sch.reorder(*others, parts[0][0], parts[1][0], parts[0][1], parts[1][1])
            sch.unroll(parts[0][1])
            sch.vectorize(parts[1][1])
        except ScheduleError:
            return None
        return sch

    def _tile_rows_and_lanes(
        self, sch: Schedule, block: BlockRV, axes: _Axes, exchanged: bool
    ) -> Schedule | None:
        loops = sch.get_loops(block)
        try:
            if axes.row is None:
                loop = sch.fuse(*loops) if len(loops) > 1 else loops[0]
                column, lane = self._parts(sch, loop, self.max_lanes)
                outer, row = self._parts(sch, column, self.max_rows)
                order = [outer]
            else:
                first, row = self._parts(sch, loops[axes.row], self.max_rows)
                column, lane = self._parts(sch, loops[axes.column], self.max_lanes)
                others = [loops[k] for k in range(len(loops)) if k not in (axes.row, axes.column)]
                order = [*others, first, column]
            inner = [lane, row] if exchanged else [row, lane]
            sch.reorder(*order, *inner)
        except ScheduleError:
            return None
        count = len(self.unroll_max_steps)
        step = sch.sample_categorical(self.unroll_max_steps, [1.0 / count] * count)
        sch.annotate(inner[0], PRAGMA_AUTO_UNROLL_MAX_STEP, step)
        sch.annotate(inner[0], PRAGMA_UNROLL_EXPLICIT, 1)
        return sch

    @staticmethod
    def _parts(sch: Schedule, loop: LoopRV, most: int) -> list[LoopRV]:
        return sch.split(loop, sch.sample_perfect_tile(loop, n=2, max_innermost_factor=most))


def _extent(sch: Schedule, loop: LoopRV) -> int:
    extent = sch.get(loop).extent
    assert isinstance(extent, IntImm)
    return extent.value


@dataclass(frozen=True)
class _Axes:
    """The indices of the loops over columns and rows of a tile."""

    column: int
    row: int | None
    """None if all loops together are one loop through memory."""
    is_across: bool
    """True if an operand is contiguous along the row loop."""


def _tile_axes(sch: Schedule, block: StmtSRef) -> _Axes | None:
    """Return the loops to tile, None if the rule does not apply."""
    if block.parent is None or has_been_tiled(block) or not is_spatial(block):
        return None
    blocks = list(sch.state.blocks(sch.state.func_name_of(block)))
    store = block.block.body
    alone = len(blocks) == 2 or _is_inner(sch, block)
    if not alone or not isinstance(store, BufferStore):
        return None
    around = loops_above(block)
    loops = [sref.loop for sref in around]
    extents = [loop.extent.value for loop in loops if isinstance(loop.extent, IntImm)]
    kinds = set(loop_iter_types(sch.state, around))
    plain = all(is_plain(loop) and is_const_int(loop.min, 0) for loop in loops)
    if not loops or len(extents) < len(loops) or not plain or kinds != {IterVar.DATA_PAR}:
        return None
    running = [k for k, extent in enumerate(extents) if extent > 1]
    loads = list(loads_in(store.value))
    accesses: list[BufferStore | BufferLoad] = [store, *loads]
    steps = [strides(block.block_realize, access.buffer, access.indices) for access in accesses]
    variables = [loop.loop_var for loop in loops]
    columns = [k for k in running if steps[0].get(variables[k]) == 1]
    if not columns:
        return None
    column = columns[-1]
    sizes = [*accumulate(reversed(extents[1:]), mul, initial=1)][::-1]
    # An operand with several loads is read again in the next row.
    once = len({load.buffer for load in loads}) == len(loads)
    if once and all(one.get(variables[k]) == sizes[k] for one in steps for k in running):
        return _Axes(column, None, False)
    across = [k for k in running if k != column and _reads_across(steps[1:], variables[k])]
    rows = across or [k for k in running if k != column]
    return _Axes(column, rows[-1], bool(across)) if rows else None


def _is_inner(sch: Schedule, block: StmtSRef) -> bool:
    """Return True for a block inside of another one than the root."""
    return sch.state.scope_root(block).parent is not None


def _reads_across(steps: Sequence[dict[Var, int | None]], row: Var) -> bool:
    """Return True if an operand is contiguous along a loop."""
    return any(one.get(row) == 1 for one in steps)
