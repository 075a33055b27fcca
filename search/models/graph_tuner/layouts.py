"""Layouts of tensors, and kernels with parameters in them.

A layout is an index map from the indices of a tensor to those of the array that holds it, None for
the array with the indices of the tensor (row-major). Only maps that are bijective are used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from schedule import Schedule
from schedule.sref import StmtSRef
from search.errors import TuningError
from search.space_generator.suggested_layout import (
    last_read,
    panel_layout,
    read_index,
    suggested_layout,
)
from tensorir.errors import IRValueError
from tensorir.function import IRModule, PrimFunc
from tensorir.indices.index_map import IndexMap
from tensorir.memory.layout_rewrite import LAYOUT_FREE_BUFFERS, layout_rewrites
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore
from tensorir.rewriting.visit import walk

Layout: TypeAlias = IndexMap | None

_MAIN = "main"


class KnownLayouts:
    """Layouts, each order of elements in memory under one name: two maps may give the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], bytes], Layout] = {}

    def known(self, layout: Layout, shape: Sequence[int]) -> Layout:
        """Return the first layout that was asked for with the same order of elements.

        None is known from the start. IRValueError for a map that is not bijective on the shape.
        """
        if layout is None:
            return None
        row_major = np.arange(np.prod(shape, dtype=np.int64))
        order = layout.map_ndarray(row_major.reshape(shape)).ravel()
        if order.size != row_major.size:
            raise IRValueError(f"the layout {layout} has places that hold no element")
        if np.array_equal(order, row_major):
            return None
        key = hashlib.blake2b(order.tobytes()).digest()
        return self._known.setdefault((tuple(shape), key), layout)


def physical_shape(layout: Layout, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the extents of the array that holds a tensor of a shape."""
    if layout is None:
        return tuple(shape)
    extents = layout.map_shape(shape)
    return tuple(extent.value for extent in extents if isinstance(extent, IntImm))


def described(layout: Layout) -> str:
    """Return a layout as the user reads it."""
    if layout is None:
        return "row-major"
    names = ", ".join(var.name for var in layout.initial_indices)
    return f"({names}) -> ({', '.join(map(str, layout.final_indices))})"


def parameter(func: PrimFunc, position: int) -> Buffer:
    """Return the buffer of a parameter; KeyError for a scalar."""
    return func.buffer_map[func.params[position]]


def fixed_shape(buffer: Buffer) -> tuple[int, ...] | None:
    """Return the extents of a buffer, None if they are not constant or it has strides."""
    shape = tuple(extent.value for extent in buffer.shape if isinstance(extent, IntImm))
    return None if len(shape) != len(buffer.shape) or buffer.strides else shape


def wanted_layout(func: PrimFunc, position: int) -> Layout:
    """Return the layout in which a kernel would read a parameter from front to back, or nearly so.

    None, row-major, where none is found that is better.
    """
    sch = Schedule(IRModule({_MAIN: func}))
    read = last_read(_blocks(sch), parameter(sch.state.func(_MAIN), position))
    if read is None:
        return None
    layout = suggested_layout(*read)
    panels = panel_layout(*read) if layout is None else None
    return layout if panels is None else panels.index_map


def with_layouts(func: PrimFunc, layouts: Mapping[int, Layout]) -> PrimFunc:
    """Return a kernel that takes parameters, by position, in other layouts.

    Its loops stay. ScheduleError where a parameter cannot have another layout, TuningError where no
    block accesses it.
    """
    changed = {position: layout for position, layout in layouts.items() if layout is not None}
    if not changed:
        return func
    sch = Schedule(IRModule({_MAIN: func}))
    for position, layout in changed.items():
        block, place = _access(sch, parameter(sch.state.func(_MAIN), position))
        sch.transform_layout(sch.get_block(block, _MAIN), place, layout)
    return sch.mod.prim_func(_MAIN)


def _blocks(sch: Schedule) -> Iterator[StmtSRef]:
    """Yield the blocks of a kernel; one of loops alone has none."""
    if isinstance(sch.state.func(_MAIN).body, BlockRealize):
        yield from sch.state.blocks(_MAIN)


def _access(sch: Schedule, buffer: Buffer) -> tuple[str, tuple[str, int]]:
    """Return the name of the first block that accesses a buffer, and the place in its lists."""
    for sref in _blocks(sch):
        if sref.parent is None:
            continue
        read = read_index(sref, buffer)
        if read is not None:
            return sref.block.name_hint, ("read", read)
        for k, write in enumerate(sref.block.writes):
            if write.buffer is buffer:
                return sref.block.name_hint, ("write", k)
    raise TuningError(f"no block reads or writes {buffer.name}, so it keeps its layout")


def strides_along(loops: Layout, layout: Layout, shape: Sequence[int]) -> NDArray[np.int64]:
    """Return for each dimension of `loops` how far a step from the origin goes in `layout`.

    Both are layouts of a tensor of this shape; the distance is in elements, 0 for a dimension of
    extent 1.
    """
    numbers = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    visited = numbers if loops is None else loops.map_ndarray(numbers)
    held = numbers if layout is None else layout.map_ndarray(numbers)
    position = np.empty(numbers.size, np.int64)
    position[held.ravel()] = np.arange(numbers.size)
    at_origin = (0,) * visited.ndim
    steps = []
    for axis, extent in enumerate(visited.shape):
        neighbour = tuple(int(k == axis and extent > 1) for k in range(visited.ndim))
        steps.append(abs(position[visited[neighbour]] - position[visited[at_origin]]))
    return np.array(steps, np.int64)


def free_positions(func: PrimFunc) -> set[int]:
    """Return the parameters that a kernel says may have any layout."""
    return {int(k) for k in func.attrs.get(LAYOUT_FREE_BUFFERS, ())}


def with_free_layouts(func: PrimFunc, positions: Collection[int]) -> PrimFunc:
    """Return a kernel that says of parameters that they may have any layout."""
    return func.with_attr(LAYOUT_FREE_BUFFERS, sorted(free_positions(func).union(positions)))


def read_in_place(func: PrimFunc, positions: Collection[int]) -> PrimFunc:
    """Return a scheduled kernel that reads parameters itself, not a copy in another layout.

    Before: X_global[i // 8, k, i % 8] = X[i, k]  for all, once;  ... X_global[i // 8, k, i % 8] ...
    After:  ... X[i, k] ...

    The blocks that copy carry `meta_schedule.layout_rewrite_preproc`. ScheduleError if one is not
    what the postprocessor RewriteLayout makes.
    """
    sch = Schedule(IRModule({"main": func}))
    for rewrite in layout_rewrites(func):
        if rewrite.position in positions:
            (copy,) = (node for node in walk(rewrite.nest) if isinstance(node, Block))
            assert isinstance(copy.body, BufferStore)
            axes = [axis.var for axis in copy.iter_vars]
            layout = IndexMap(axes, copy.body.indices)
            block = sch.get_block(copy.name_hint, "main")
            back = layout.inverse(rewrite.weight.shape)
            sch.transform_layout(block, ("write", 0), back)
            sch.compute_inline(block)
    return sch.mod.prim_func("main")
