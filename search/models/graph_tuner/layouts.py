"""Layouts of tensors, and kernels with parameters in them.

A layout is a bijective index map from the indices of a tensor to those of the array that holds it,
or None for row-major.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

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
from tensorir.memory.layout_rewrite import LAYOUT_FREE_BUFFERS
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import BlockRealize

Layout: TypeAlias = IndexMap | None

_MAIN = "main"


class KnownLayouts:
    """One layout for each order of elements in memory, which several index maps can describe."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[int, ...], bytes], Layout] = {}

    def known(self, layout: Layout, shape: Sequence[int]) -> Layout:
        """Return the first layout with the same order of elements; None if that is row-major.

        IRValueError for a map that is not bijective on the shape.
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
    """Return the text of a layout."""
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
    """Return the layout in which a kernel reads a parameter almost from front to back.

    None, which is row-major, if no better layout is found.
    """
    sch = Schedule(IRModule({_MAIN: func}))
    read = last_read(_blocks(sch), parameter(sch.state.func(_MAIN), position))
    if read is None:
        return None
    layout = suggested_layout(*read)
    panels = panel_layout(*read) if layout is None else None
    return layout if panels is None else panels.index_map


def with_layouts(func: PrimFunc, layouts: Mapping[int, Layout]) -> PrimFunc:
    """Return a kernel with parameters in other layouts, by position, and unchanged loops.

    ScheduleError if a parameter cannot have another layout, TuningError if no block accesses it.
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
    """Yield the blocks of a kernel, which may consist of loops only."""
    if isinstance(sch.state.func(_MAIN).body, BlockRealize):
        yield from sch.state.blocks(_MAIN)


def _access(sch: Schedule, buffer: Buffer) -> tuple[str, tuple[str, int]]:
    """Return the name of the first block that accesses a buffer, and the position of the access."""
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


def free_positions(func: PrimFunc) -> set[int]:
    """Return the parameters with any layout, by `layout_free_buffers` of a kernel."""
    return {int(k) for k in func.attrs.get(LAYOUT_FREE_BUFFERS, ())}
