"""Kernels that bring a tensor from one layout into another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from codegen.history import IS_SCHEDULED
from schedule import BlockRV, Schedule
from search.graph_tuner.layouts import Layout, strides_along
from tensorir import te
from tensorir.expr import ExprLike, IntImm
from tensorir.function import IRModule, PrimFunc

_LANES: Final = 16
"""The innermost loop is vectorized in as many steps at most."""
_PARALLEL: Final = 1 << 14
"""Elements from which on several cores share the work."""
_BLOCK: Final = "transformed"


def transform_kernels(
    shape: Sequence[int], dtype: str, source: Layout, destination: Layout, cores: int = 1
) -> list[PrimFunc]:
    """Return kernels `f(in, out)` that copy a tensor from a layout into another, none private.

    They compute the same in different orders: as the result lies in memory, so with the loop that
    reads what is next in memory brought next to the innermost one, and as the source lies. Which is
    the fastest depends on the sizes.
    """
    kernels = [_scheduled(shape, dtype, source, destination, destination, cores, near=False)]
    steps = strides_along(destination, source, shape)
    nearest = _nearest(steps)
    if nearest is not None and nearest < len(steps) - 2:
        kernels.append(_scheduled(shape, dtype, source, destination, destination, cores, near=True))
    kernels.append(_scheduled(shape, dtype, source, destination, source, cores, near=False))
    return kernels


def _nearest(steps: Sequence[int] | np.ndarray) -> int | None:
    """Return the dimension with the shortest steps, None if nothing has steps."""
    real = [k for k, step in enumerate(steps) if step > 0]
    return min(real, key=lambda k: steps[k]) if real else None


def _scheduled(
    shape: Sequence[int],
    dtype: str,
    source: Layout,
    destination: Layout,
    order: Layout,
    cores: int,
    *,
    near: bool,
) -> PrimFunc:
    """Return the kernel with loops over a layout; `near` moves the loop with the nearest reads."""
    sch = Schedule(IRModule({"main": _copy(shape, dtype)}))
    block = sch.get_block(_BLOCK)
    if order is not None:
        sch.transform_block_layout(block, order)
    if source is not None:
        sch.transform_layout(block, ("read", 0), source)
    if destination is not None:
        sch.transform_layout(block, ("write", 0), destination)
    if near:
        loops = sch.get_loops(block)
        nearest = _nearest(strides_along(order, source, shape))
        assert nearest is not None
        others = [loop for k, loop in enumerate(loops) if k != nearest]
        sch.reorder(*others[:-1], loops[nearest], others[-1])
    _use_lanes_and_cores(sch, block, cores if np.prod(shape) >= _PARALLEL else 1)
    return sch.mod.prim_func("main").without_attr("global_symbol").with_attr(IS_SCHEDULED, True)


def _copy(shape: Sequence[int], dtype: str) -> PrimFunc:
    tensor = te.placeholder(tuple(shape), dtype, "tensor")

    def element(*indices: ExprLike) -> ExprLike:
        return tensor[indices]

    copy = te.compute(tuple(shape), element, _BLOCK)
    return te.create_prim_func([tensor, copy]).with_attr("tir.noalias", True)


def _use_lanes_and_cores(sch: Schedule, block: BlockRV, cores: int) -> None:
    *outer, inner = sch.get_loops(block)
    extent = sch.get(inner).extent
    assert isinstance(extent, IntImm)
    lanes = max(n for n in range(1, _LANES + 1) if extent.value % n == 0)
    if lanes > 1:
        rest, inner = sch.split(inner, [None, lanes])
        sch.vectorize(inner)
        outer.append(rest)
    if cores > 1 and outer:
        sch.parallel(sch.fuse(*outer[:2]))
