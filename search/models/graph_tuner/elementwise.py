"""Kernels that map elements, which any order of loops suits: they follow a layout, or change it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from codegen.history import IS_SCHEDULED, can_be_scheduled
from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from search.models.graph_tuner.layouts import Layout, fixed_shape, parameter, strides_along
from tensorir import te
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import IntImm, IterVar
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

_LANES: Final = 16
"""Steps of an innermost loop at most: a line of the caches holds as many floats."""
_PARALLEL: Final = 1 << 14
"""Elements from which on several cores share the work."""

_BLOCK: Final = "transformed"


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
    return _in_order(sch, block, cores)


def _in_order(sch: Schedule, block: BlockRV, cores: int) -> PrimFunc:
    """Return the function with the loops of a block as they are, the last one vectorized."""
    *outer, last = sch.get_loops(block)
    rest, lanes = _lanes_of(sch, last)
    sch.vectorize(lanes)
    return _finished(sch, [*outer, rest], cores)


def _lanes_of(sch: Schedule, loop: LoopRV) -> list[LoopRV]:
    """Split a loop into one over groups and one over the lanes of a group."""
    extent = sch.get(loop).extent
    assert isinstance(extent, IntImm)
    lanes = max(n for n in range(1, _LANES + 1) if extent.value % n == 0)
    return sch.split(loop, [None, lanes])


def _finished(sch: Schedule, outer: Sequence[LoopRV], cores: int) -> PrimFunc:
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


def transform_kernels(
    shape: Sequence[int], dtype: str, source: Layout, destination: Layout, cores: int = 1
) -> list[PrimFunc]:
    """Return kernels `f(in, out)` that copy a tensor from a layout into another, none private.

    They do it in different orders; which is the fastest depends on the sizes. The first one writes
    from front to back. Where that is not the order in which it reads, others go through tiles: of
    the loops that read and that write what is next in memory, and either of them is vectorized.
    """

    def copying() -> tuple[Schedule, BlockRV]:
        sch = Schedule(IRModule({"main": _copy(shape, dtype)}))
        block = sch.get_block(_BLOCK)
        if destination is not None:
            sch.transform_block_layout(block, destination)
            sch.transform_layout(block, ("write", 0), destination)
        if source is not None:
            sch.transform_layout(block, ("read", 0), source)
        return sch, block

    kernels = [_in_order(*copying(), cores)]
    steps = strides_along(destination, source, shape)
    moving = [axis for axis, step in enumerate(steps) if step > 0]
    nearest = min(moving, key=lambda axis: steps[axis], default=None)
    if nearest is not None and nearest != moving[-1]:
        tile = (nearest, moving[-1])
        kernels += [_in_tiles(*copying(), cores, tile, along) for along in (False, True)]
    return kernels


def _in_tiles(
    sch: Schedule, block: BlockRV, cores: int, tile: tuple[int, int], along_reads: bool
) -> PrimFunc:
    """Return the kernel with tiles of two loops: the nearest in the source, in the destination."""
    loops = sch.get_loops(block)
    outer = [loop for axis, loop in enumerate(loops) if axis not in tile]
    (reads, read), (writes, write) = (_lanes_of(sch, loops[axis]) for axis in tile)
    inner = [write, read] if along_reads else [read, write]
    sch.reorder(*outer, reads, writes, *inner)
    sch.vectorize(inner[-1])
    return _finished(sch, [*outer, reads, writes], cores)


def _copy(shape: Sequence[int], dtype: str) -> PrimFunc:
    tensor = te.placeholder(tuple(shape), dtype, "tensor")
    copy = te.compute(tuple(shape), lambda *indices: tensor[indices], _BLOCK)
    return te.create_prim_func([tensor, copy]).with_attr("tir.noalias", True)
