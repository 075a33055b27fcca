"""A library of schedules: what an expert does to products, rows and chains of blocks, by name.

Each function is a composite over the primitives: one step of the trace, that leaves the schedule
unchanged if it does not apply. They take the sizes of caches and vectors as arguments, since
schedules know no machine; `lanes` is the number of elements in a vector register, such as
`Target("llvm").vector_lanes(32)` for float32.

    @composite
    def matmul(sch, block):
        stage_operands(sch, block, panel=64)
        tile_for_cache(sch, block, [128, 64, 256])
        microkernel(sch, block, rows=6, columns=64, lanes=16)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile

from schedule.composites import attempt, composite, repeat
from schedule.errors import Problem, fail
from schedule.handles import BlockRV, LoopRV
from schedule.queries import (
    Contraction,
    contraction,
    innermost_blocks,
    is_elementwise,
    loop_kinds,
)
from schedule.schedule import Schedule
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import IntImm
from tensorir.rewriting.visit import collect_vars

_NOT_A_PRODUCT = Problem(
    "NotAProductError",
    "{0} does not sum products of elements of two buffers",
    "schedule.queries.contraction says which blocks do; use stream_rows for other blocks",
)
_NO_LOOP = Problem(
    "NoLoopError",
    "{0} has no loop of its {what}",
    "apply the step before the loops are fused, to a block whose axes are bound to loops",
)


def _product(sch: Schedule, block: BlockRV) -> Contraction:
    found = contraction(sch, block)
    if found is None:
        fail(_NOT_A_PRODUCT, sch.get_sref(block))
    return found


def innermost_loop(sch: Schedule, block: BlockRV, axes: Sequence[int], what: str) -> LoopRV:
    """Return the innermost loop that moves one of some axes of a block.

    `axes` are numbers among the axes of the block; `what` names them in the ScheduleError
    (NoLoopError) that is raised if no loop moves them.
    """
    values = sch.get_sref(block).block_realize.iter_values
    wanted = {var for axis in axes for var in collect_vars(values[axis])}
    for loop in reversed(sch.get_loops(block)):
        if sch.get(loop).loop_var in wanted:
            return loop
    fail(_NO_LOOP, sch.get_sref(block), what=what)


def _is_longer(sch: Schedule, loop: LoopRV, size: int) -> bool:
    extent = sch.get(loop).extent
    return not isinstance(extent, IntImm) or extent.value > size


@composite
def tile_for_cache(
    sch: Schedule, block: BlockRV, sizes: Sequence[int | None]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Divide the innermost loops of a block into tiles: loops over tiles, then loops in a tile.

    `sizes` has an extent for each of the last loops around the block; None leaves a loop among
    those in the tile. A size need not divide the extent. Returns the loops over tiles and the loops
    in a tile, both in the order of the loops.
    """
    loops = sch.get_loops(block)
    outer: list[LoopRV] = []
    inner: list[LoopRV] = []
    for loop, size in zip(loops[len(loops) - len(sizes) :], sizes, strict=True):
        if size is None or not _is_longer(sch, loop, size):
            inner.append(loop)
            continue
        over, within = sch.split(loop, [None, size])
        outer.append(over)
        inner.append(within)
    sch.reorder(*outer, *inner)
    return outer, inner


@composite
def stage_operands(sch: Schedule, block: BlockRV, panel: int, lanes: int = 16) -> BlockRV:
    """Copy the right operand of a product into panels of `panel` columns, each contiguous.

    The last axis of the operand must be that of the columns. A tile of the product then reads one
    stream of memory, whatever the row length of the operand is. Returns the block that copies.
    Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
    """
    product = _product(sch, block)
    reads = [region.buffer for region in sch.get(block).reads]
    copy = sch.cache_read(block, reads.index(product.right), "global")
    panels = IndexMap.from_func(
        lambda *at: [*at[:-2], at[-1] // panel, at[-2], at[-1] % panel],
        ndim=len(product.right.shape),
    )
    sch.transform_layout(copy, ("write", 0), panels, pad_value=0.0)
    rows, columns = sch.get_loops(copy)[-2:]
    if _is_longer(sch, columns, panel):
        over, columns = sch.split(columns, [None, panel])
        sch.reorder(over, rows, columns)
    _, lane = sch.split(columns, [None, lanes])
    sch.vectorize(lane)
    return copy


@composite
def register_tile(
    sch: Schedule, block: BlockRV, rows: int, columns: int, lanes: int = 16
) -> LoopRV:
    """Let a product keep a tile of `rows` times `columns` sums in registers.

    The innermost loops of the rows and columns are divided, those in the tile become unrolled loops
    and a vector of `lanes` columns inside of the reduction. A product without rows, or without
    columns, has a tile of the other. Returns the innermost reduction loop.
    """
    product = _product(sch, block)
    k = innermost_loop(sch, block, product.reduced, "reduction")
    tile: list[LoopRV] = []
    if product.columns:
        column = innermost_loop(sch, block, product.columns, "columns")
        if _is_longer(sch, column, columns):
            _, column = sch.split(column, [None, columns])
        tile = sch.split(column, [None, lanes])
    if product.rows:
        row = innermost_loop(sch, block, product.rows, "rows")
        if _is_longer(sch, row, rows):
            _, row = sch.split(row, [None, rows])
        tile.insert(-1, row)
    inside = {sch.get(loop) for loop in (k, *tile)}
    moved = list(dropwhile(lambda x: sch.get(x) not in inside, sch.get_loops(block)))
    sch.reorder(*[x for x in moved if sch.get(x) not in inside], k, *tile)
    for loop in tile[:-1]:
        sch.unroll(loop)
    if product.columns:
        sch.vectorize(tile[-1])
    else:
        sch.unroll(tile[-1])
    return k


@composite
def microkernel(sch: Schedule, block: BlockRV, rows: int, columns: int, lanes: int = 16) -> BlockRV:
    """Make the inner tile of a product that `register_tile` makes, with its start value outside.

    Returns the block that stores the start value, in front of the outermost reduction loop.
    """
    register_tile(sch, block, rows, columns, lanes)
    kinds = loop_kinds(sch, block)
    return sch.decompose_reduction(block, sch.get_loops(block)[kinds.index("R")])


@composite
def stream_rows(sch: Schedule, block: BlockRV, lanes: int = 16, unroll: int = 4) -> LoopRV:
    """Let a block without reduction pass over its elements row by row, in vectors.

    The outermost loops are fused and parallel, the innermost one becomes `unroll` vectors of
    `lanes` elements. Returns the parallel loop.
    """
    *outer, innermost = sch.get_loops(block)
    over, group, lane = sch.split(innermost, [None, unroll, lanes])
    sch.unroll(group)
    sch.vectorize(lane)
    outermost = sch.fuse(*outer) if outer else over
    sch.parallel(outermost)
    return outermost


def _sums_and_elements(sch: Schedule, block: BlockRV) -> tuple[LoopRV, LoopRV]:
    """Return the innermost reduction loop and the innermost data-parallel loop of a block."""
    loops, kinds = sch.get_loops(block), loop_kinds(sch, block)
    return loops[kinds.rindex("R")], loops[kinds.rindex("S")]


@composite
def split_k(
    sch: Schedule, block: BlockRV, parts: int, lanes: int = 16, rows: int = 1
) -> tuple[BlockRV, BlockRV]:
    """Divide the innermost loop of a reduction into sums that do not wait for one another.

    For each of `rows` neighbouring elements of the result there are `parts` vectors of `lanes`
    sums, in registers, which are added up at the end. Several rows share the loads of a vector that
    they are multiplied by. Returns the block of the partial sums and the block that adds them up.
    """
    *outer, k = sch.get_loops(block)
    if rows > 1:
        over, _ = sch.split(outer[-1], [None, rows])
        outer = [*outer[:-1], over]
    _, sums = sch.split(k, [None, parts * lanes])
    result = sch.get(block).writes[0].buffer
    partial = sch.rfactor(sums, factor_axis=len(result.shape))
    if outer:
        sch.reverse_compute_at(block, sch.get_loops(partial)[len(outer) - 1])
    inside = sch.get_loops(partial)[len(outer) : len(outer) + (rows > 1)]
    k, sums = _sums_and_elements(sch, partial)
    group, lane = sch.split(sums, [parts, lanes])
    sch.reorder(k, *inside, group, lane)
    for loop in (*inside, group):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.decompose_reduction(partial, k)
    if rows > 1:
        # The chains of additions of several rows are interleaved.
        sums, row = _sums_and_elements(sch, block)
        sch.reorder(sums, row)
        sch.unroll(row)
    return partial, block


@composite
def add_rows(
    sch: Schedule, block: BlockRV, rows: int, parts: int = 1, lanes: int = 16
) -> BlockRV | None:
    """Let a product of a vector and a matrix add `rows` rows of the matrix at a time to the result.

    The result stays in the cache, and the matrix is read row by row, in the order of memory, where
    its columns are the axis of the result. `parts` vectors of `lanes` columns are unrolled. Returns
    the block that stores the start value, None if the block has none.
    """
    column, k = sch.get_loops(block)[-2:]
    _, group, lane = sch.split(column, [None, parts, lanes])
    over, row = sch.split(k, [None, rows])
    sch.reorder(over, sch.get_loops(block)[-5], group, row, lane)
    sch.unroll(group)
    sch.unroll(row)
    sch.vectorize(lane)
    return sch.decompose_reduction(block, over) if sch.get(block).init is not None else None


@composite
def unroll_rows(sch: Schedule, block: BlockRV, rows: int) -> LoopRV:
    """Let a block over rows, steps and lanes take each step for `rows` rows at a time.

    These are the innermost loops of the block. What a row accumulates, and what all rows do, stays
    in registers. Returns the loop over the steps.
    """
    row, step, lane = sch.get_loops(block)[-3:]
    if _is_longer(sch, row, rows):
        _, row = sch.split(row, [None, rows])
    sch.reorder(step, row, lane)
    sch.unroll(row)
    sch.vectorize(lane)
    return step


@composite
def fuse_elementwise(sch: Schedule) -> int:
    """Inline the element-wise blocks of a function into the blocks that read their results.

    Returns the number of blocks that were inlined.
    """

    def inline_one(s: Schedule) -> bool:
        for found in innermost_blocks(s):
            block = s.get_block(found.block.name_hint)
            if is_elementwise(s, block) and attempt(s, Schedule.compute_inline, block):
                return True
        return False

    return repeat(sch, inline_one)
