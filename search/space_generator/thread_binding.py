"""The binding of loops to the thread axes of a GPU, for rules and postprocessors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from schedule import BlockRV, ExprRV, Schedule
from schedule.analysis.bindings import loop_iter_types
from schedule.sref import StmtSRef, loops_above, path_up
from tensorir.nodes.expr import IntImm, IterVar
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import ForKind, SeqStmt
from tensorir.rewriting.visit import collect_vars

BLOCK_AXIS: Final = "blockIdx.x"
THREAD_AXIS: Final = "threadIdx.x"


def is_below(block: StmtSRef, axis: str) -> bool:
    """Return True if a loop around a block is bound to an axis `"blockIdx"` or `"threadIdx"`."""
    return any(
        not outer.is_block and outer.loop.thread_tag.startswith(axis) for outer in path_up(block)
    )


def bind_nest(
    sch: Schedule,
    block: BlockRV,
    max_threadblocks: int,
    max_threads: int,
    threads: Callable[[int], int | ExprRV],
) -> None:
    """Bind the outer spatial loops of a block to the blocks and threads of a GPU.

    The loops are fused, and split into thread blocks and their threads; `threads(limit)` returns
    the number of threads. With more iterations than `max_threadblocks * max_threads`, each thread
    runs several of them in a serial loop. A nest with bound threads only gets thread blocks around
    them. A block in a thread block stays unchanged. Raises ScheduleError for loops that cannot be
    fused or bound, and then leaves the schedule partly changed.
    """
    sref = sch.get_sref(block)
    if is_below(sref, "blockIdx"):
        return
    loops = sch.get_loops(block)
    count = sum(1 for _ in _outer_loops(sch, loops_above(sref)))
    if count == 0:
        loops = [sch.add_unit_loop(loops[0] if loops else block)]
        count = 1
    fused = sch.fuse(*loops[:count])
    if is_below(sref, "threadIdx"):
        sch.bind(fused, BLOCK_AXIS)
        return
    extent = sch.get(fused).extent
    iterations = extent.value if isinstance(extent, IntImm) else max_threads
    if iterations <= max_threadblocks * max_threads:
        outer, inner = sch.split(fused, [None, threads(min(iterations, max_threads))])
    else:
        serial, outer, inner = sch.split(fused, [None, max_threadblocks, max_threads])
        sch.reorder(outer, inner, serial)
    sch.bind(outer, BLOCK_AXIS)
    sch.bind(inner, THREAD_AXIS)


def _outer_loops(sch: Schedule, nest: list[StmtSRef]) -> Iterator[StmtSRef]:
    """Yield the outer loops of a nest that can be fused: spatial, serial, directly nested."""
    kinds = loop_iter_types(sch.state, nest)
    variables = {sref.loop.loop_var for sref in nest}
    for sref, kind in zip(nest, kinds, strict=True):
        loop = sref.loop
        is_free = loop.kind is ForKind.SERIAL and is_const_int(loop.min, 0)
        is_fixed = variables.isdisjoint(collect_vars(loop.extent))
        if kind != IterVar.DATA_PAR or not (is_free and is_fixed):
            return
        yield sref
        if isinstance(loop.body, SeqStmt):
            return
