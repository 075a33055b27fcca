"""Kernels that bring a tensor from one layout into another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schedule import BlockRV, Schedule
from search.graph_tuner.elementwise import finished, lanes_of
from search.graph_tuner.layouts import Layout, strides_along
from tensorir import te
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes.expr import ExprLike

_BLOCK: Final = "transformed"


def transform_kernels(
    shape: Sequence[int], dtype: str, source: Layout, destination: Layout, cores: int = 1
) -> list[PrimFunc]:
    """Return kernels `f(in, out)` that copy a tensor from a layout into another, none private.

    They do it in different orders; which is the fastest depends on the sizes. The first one writes
    from front to back. Where that is not the order in which it reads, others go through tiles: of
    the loops that read and that write what is next in memory, and either of them is vectorized.
    """
    kernels = [_in_order(shape, dtype, source, destination, cores)]
    steps = strides_along(destination, source, shape)
    moving = [axis for axis, step in enumerate(steps) if step > 0]
    nearest = min(moving, key=lambda axis: steps[axis], default=None)
    if nearest is not None and nearest != moving[-1]:
        for along_reads in (False, True):
            tile = (nearest, moving[-1])
            kernels.append(_in_tiles(shape, dtype, source, destination, cores, tile, along_reads))
    return kernels


def _in_order(
    shape: Sequence[int], dtype: str, source: Layout, destination: Layout, cores: int
) -> PrimFunc:
    sch, block = _copying(shape, dtype, source, destination)
    *outer, inner = sch.get_loops(block)
    rest, lanes = lanes_of(sch, inner)
    sch.vectorize(lanes)
    return finished(sch, [*outer, rest], cores)


def _in_tiles(
    shape: Sequence[int],
    dtype: str,
    source: Layout,
    destination: Layout,
    cores: int,
    tile: tuple[int, int],
    along_reads: bool,
) -> PrimFunc:
    """Return the kernel with tiles of two loops: the nearest in the source, in the destination."""
    sch, block = _copying(shape, dtype, source, destination)
    loops = sch.get_loops(block)
    outer = [loop for axis, loop in enumerate(loops) if axis not in tile]
    (reads, read), (writes, write) = (lanes_of(sch, loops[axis]) for axis in tile)
    inner = [write, read] if along_reads else [read, write]
    sch.reorder(*outer, reads, writes, *inner)
    sch.vectorize(inner[-1])
    return finished(sch, [*outer, reads, writes], cores)


def _copying(
    shape: Sequence[int], dtype: str, source: Layout, destination: Layout
) -> tuple[Schedule, BlockRV]:
    """Return the copy from layout to layout with loops over the destination."""
    sch = Schedule(IRModule({"main": _copy(shape, dtype)}))
    block = sch.get_block(_BLOCK)
    if destination is not None:
        sch.transform_block_layout(block, destination)
        sch.transform_layout(block, ("write", 0), destination)
    if source is not None:
        sch.transform_layout(block, ("read", 0), source)
    return sch, block


def _copy(shape: Sequence[int], dtype: str) -> PrimFunc:
    tensor = te.placeholder(tuple(shape), dtype, "tensor")

    def element(*indices: ExprLike) -> ExprLike:
        return tensor[indices]

    copy = te.compute(tuple(shape), element, _BLOCK)
    return te.create_prim_func([tensor, copy]).with_attr("tir.noalias", True)
