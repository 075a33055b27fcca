"""The postprocessor that lays out packed operands in the order in which loops read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from codegen import Target
from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.sref import loops_above
from search.postproc.postproc import Postproc, functions_with_blocks
from search.space_generator.annotations import PACKED
from search.space_generator.suggested_layout import Digit, last_read, panel_layout, read_index
from tensorir.indices.accesses import strides
from tensorir.nodes.expr import BufferLoad, FloorDiv, FloorMod, IntImm, Var
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import uses_var

_NEAR: Final = 4
"""The maximum stride of the lanes of a vector that is loaded without a gather."""
_WRITTEN_OUT: Final = 16
"""The maximum number of vectors of a copy that are unrolled."""


class RewritePanels(Postproc):
    """Lays out the copies of `PackOperands` in panels, and orders the loops that fill them.

    Before: B_global[k, j] = B[k, j], read by for j_0, k, j_1 in T.grid(16, 256, 16)
    After:  B_global[j // 16, k, j % 16] = B[k, j], read from front to back

    `panel_layout` chooses the layout. The loops of the copy run through the panels in order, with
    vectors along the last dimension. If the lanes of such a vector are in different rows of the
    source, the loop along those rows is split by the number of lanes, too, so that a whole tile of
    the source is transposed in registers. The postprocessor must run after the reading loops are
    ordered and before the inits of reductions are separated. It rejects if a primitive fails.
    """

    def apply(self, sch: Schedule) -> bool:
        """Rewrite all packed operands."""
        target = self._task_target()
        try:
            for name in functions_with_blocks(sch):
                for sref in list(sch.state.blocks(name)):
                    if PACKED in sref.block.annotations:
                        copy = sch.get_block(sref.block.name_hint, name)
                        _rewrite(sch, name, copy, target)
        except ScheduleError:
            return False
        return True


def _rewrite(sch: Schedule, name: str, copy: BlockRV, target: Target) -> None:
    jobs = int(sch.get(copy).annotations[PACKED])
    sch.unannotate(copy, PACKED)
    cache = sch.get(copy).writes[0].buffer
    place = last_read(sch.state.blocks(name), cache)
    layout = None if place is None else panel_layout(*place)
    filled = _filled_dimensions(sch, copy)
    if place is None or layout is None or filled is None:
        return
    reader, _ = place
    index = read_index(reader, cache)
    assert index is not None
    # The padding of the last panel is never read.
    sch.transform_layout(
        sch.get_block(reader.block.name_hint, name),
        ("read", index),
        layout.index_map,
        assume_injective_transform=True,
    )
    _fill(sch, filled, layout.digits, target.vector_lanes(cache.dtype.bits), jobs)


@dataclass(frozen=True)
class _Filled:
    """A dimension of a copy, with the loop that fills it."""

    loop: LoopRV | None
    """None if the dimension has one index only."""
    step: int
    """The number of iterations of the loop for one step of the dimension."""
    moves: int
    """The stride of the loop in the source, in elements."""


def _filled_dimensions(sch: Schedule, copy: BlockRV) -> list[_Filled] | None:
    """Return the dimensions of a copy.

    None unless each axis has its own loop, with a constant extent and no other block in it.
    """
    sref = sch.get_sref(copy)
    store = sref.block.body
    assert isinstance(store, BufferStore)
    values = sref.block_realize.iter_values
    axes = [axis.var for axis in sref.block.iter_vars]
    own = loops_above(sref)[-len(axes) :]
    if not isinstance(store.value, BufferLoad) or len(own) != len(axes):
        return None
    for loop in own:
        alone = len(sch.state.child_blocks(loop)) == 1
        if not alone or not isinstance(loop.loop.extent, IntImm):
            return None
    steps = strides(sref.block_realize, store.value.buffer, store.value.indices)
    by_axis: dict[Var, tuple[LoopRV, int]] = {}
    for handle, loop in zip(sch.get_loops(copy)[-len(own) :], own, strict=True):
        step = steps.get(loop.loop.loop_var, 0)
        of = [k for k, value in enumerate(values) if uses_var(value, loop.loop.loop_var)]
        if step is None or len(of) > 1:
            return None
        for k in of:
            by_axis[axes[k]] = handle, step
    found = []
    for index in store.indices:
        step = 1
        if isinstance(index, FloorDiv) and isinstance(index.b, IntImm):
            step = index.b.value
            index = index.a
        elif isinstance(index, FloorMod):
            index = index.a
        if isinstance(index, IntImm) or (isinstance(index, Var) and index not in by_axis):
            found.append(_Filled(None, 1, 0))
        elif isinstance(index, Var):
            found.append(_Filled(by_axis[index][0], step, by_axis[index][1]))
        else:
            return None
    return found


def _fill(
    sch: Schedule, dims: Sequence[_Filled], digits: Sequence[Digit], lanes: int, jobs: int
) -> None:
    """Split and reorder the loops of a copy so that they fill its layout in order."""
    parts: dict[LoopRV, dict[int, int]] = {}
    for place, digit in enumerate(digits):
        dim = dims[digit.dim]
        if dim.loop is not None:
            parts.setdefault(dim.loop, {})[digit.step * dim.step] = place
    loops: dict[int, LoopRV] = {}
    apart: dict[int, int] = {}
    for loop, by_step in parts.items():
        rest = loop
        moved = next(dim.moves for dim in dims if dim.loop is loop)
        *outer, (_, last) = sorted(by_step.items(), reverse=True)
        for step, place in outer:
            if step < _extent(sch, rest):
                loops[place], rest = sch.split(rest, [None, step])
                apart[place] = step * moved
        loops[last], apart[last] = rest, moved
    inside = sorted(loops)
    order = [loops[place] for place in inside]
    gap = apart[inside[-1]]
    rows = next((k for k, place in enumerate(inside) if apart[place] == 1), None)
    is_column = rows is not None and gap > _NEAR and _extent(sch, order[-1]) > 1
    if rows is not None and is_column:
        order[rows], row = sch.split(order[rows], [None, lanes])
        order.insert(-1, row)
    sch.reorder(*order)
    if 0 < gap <= _NEAR or is_column:
        _write_out(sch, order, lanes)
    if jobs > 1:
        _share(sch, order[:-1], jobs)


def _write_out(sch: Schedule, order: Sequence[LoopRV], lanes: int) -> None:
    """Vectorise the innermost loop and unroll the loops directly around it."""
    extent = _extent(sch, order[-1])
    if extent == 1:
        return
    sch.vectorize(order[-1])
    written = -(-extent // lanes)
    for loop in reversed(order[:-1]):
        written *= _extent(sch, loop)
        if written > max(_WRITTEN_OUT, lanes):
            break
        if _extent(sch, loop) > 1:
            sch.unroll(loop)


def _share(sch: Schedule, loops: Sequence[LoopRV], jobs: int) -> None:
    """Run outer loops in parallel, the fewest that have `jobs` iterations together."""
    iterations = 1
    for count, loop in enumerate(loops, 1):
        iterations *= _extent(sch, loop)
        if iterations >= jobs or count == len(loops):
            sch.parallel(sch.fuse(*loops[:count]))
            return


def _extent(sch: Schedule, loop: LoopRV) -> int:
    extent = sch.get(loop).extent
    assert isinstance(extent, IntImm)
    return extent.value
