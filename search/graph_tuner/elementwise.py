"""Kernels that map elements, which any order of loops suits: so they follow a layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from codegen.history import IS_SCHEDULED, can_be_scheduled
from schedule import LoopRV, Schedule, ScheduleError
from search.graph_tuner.layouts import fixed_shape, parameter
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import IntImm, IterVar
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

_LANES: Final = 16
"""Steps of an innermost loop at most: a line of the caches holds as many floats."""
_PARALLEL: Final = 1 << 14
"""Elements from which on several cores share the work."""


def is_elementwise(func: PrimFunc) -> bool:
    """Say whether a kernel has data-parallel blocks only."""
    return all(
        axis.iter_type == IterVar.DATA_PAR for block in _blocks(func) for axis in block.iter_vars
    )


def in_order_of(func: PrimFunc, layout: IndexMap, cores: int = 1) -> PrimFunc | None:
    """Return a kernel with loops over a layout of its result, the innermost one vectorized.

    Parameters stay as they are. None unless nobody has scheduled the kernel, and it is one block
    that maps elements, whose axes are the indices of what it writes.
    """
    if not can_be_scheduled(func) or not is_elementwise(func):
        return None
    inner = [block for block in _blocks(func) if block.iter_vars]
    if len(inner) != 1 or not _writes_at_its_axes(inner[0]):
        return None
    sch = Schedule(IRModule({"main": func}))
    block = sch.get_block(inner[0].name_hint, "main")
    try:
        sch.transform_block_layout(block, layout)
    except ScheduleError:
        return None
    *outer, last = sch.get_loops(block)
    rest, lanes = lanes_of(sch, last)
    sch.vectorize(lanes)
    return finished(sch, [*outer, rest], cores)


def lanes_of(sch: Schedule, loop: LoopRV) -> list[LoopRV]:
    """Split a loop into one over groups and one over the lanes of a group."""
    extent = sch.get(loop).extent
    assert isinstance(extent, IntImm)
    lanes = max(n for n in range(1, _LANES + 1) if extent.value % n == 0)
    return sch.split(loop, [None, lanes])


def finished(sch: Schedule, outer: Sequence[LoopRV], cores: int) -> PrimFunc:
    """Return the function of a schedule, whose first loops all cores share where that pays."""
    size = math.prod(fixed_shape(parameter(sch.mod.prim_func("main"), 0)) or ())
    if cores > 1 and size >= _PARALLEL:
        sch.parallel(sch.fuse(*outer[:2]))
    func = sch.mod.prim_func("main")
    return func.without_attr("global_symbol").with_attr(IS_SCHEDULED, True)


def _blocks(func: PrimFunc) -> list[Block]:
    return [node for node in walk(func.body) if isinstance(node, Block)]


def _writes_at_its_axes(block: Block) -> bool:
    if len(block.writes) != 1 or len(block.writes[0].region) != len(block.iter_vars):
        return False
    pairs = zip(block.writes[0].region, block.iter_vars, strict=True)
    return all(place.min is axis.var for place, axis in pairs)
