"""The rule that copies operands of tiled reductions into panels."""

from __future__ import annotations

import itertools
import logging
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_types
from schedule.sref import StmtSRef, loops_above
from search.feature_extractor.machine import Machine
from search.postproc.rewrite_layout import layout_free_buffers
from search.schedule_rule.schedule_rule import ScheduleRule
from search.space_generator.annotations import AUTO_TENSORIZE, OPERANDS_PACKED, PACKED
from search.space_generator.tiling_needs import has_been_tiled
from tensorir.arith.coefficients import coefficients
from tensorir.indices.accesses import loads_in
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, Var
from tensorir.nodes.stmt import Block, BufferStore
from tensorir.rewriting.visit import collect_vars, uses_var

if TYPE_CHECKING:
    from search.task import Task

_LOGGER: Final = logging.getLogger("tensorir.search")
_READ_AGAIN: Final = 8
"""The minimum number of reads of an element for which a copy pays."""


class PackOperands(ScheduleRule):
    """Copies an operand of a tiled reduction into panels that its tiles read in memory order.

    Rows of a large matrix are a page or more apart, and rows that are a power of two apart share
    few cache sets. For each operand that is loaded in vectors and read repeatedly, there are three
    designs: without a copy, with a copy of the whole operand at the root, and with a copy in each
    step of the outer reduction loops of the part that the inner loops read. If the operand is not
    contiguous along the last axis of the result, as a transposed matrix, the copy is.
    `RewritePanels` lays out the copies once the tile is known.

    An operand of fewer than `min_bytes` (by default the size of the target's first cache) is not
    packed, nor one whose copy needs more than `max_bytes` (by default half of this machine's
    memory), with a warning. Parameters with a free layout are not packed either, because
    `RewriteLayout` does it once when a model is built. Blocks with a write cache are skipped.

    Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
    """

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        min_bytes: int | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.min_bytes = min_bytes
        self.max_bytes = _memory() // 2 if max_bytes is None else max_bytes
        self._jobs = 1
        self._first_cache = 0

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        cores, jobs = self._task_cores(), self.max_jobs_per_core
        self._jobs = 1 if cores == 1 or jobs == -1 else cores * jobs
        self._first_cache = Machine.of(self._task_target()).caches[0]

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the unchanged design, then the designs with a packed operand."""
        sref = sch.get_sref(block)
        if sref.parent is None or not has_been_tiled(sref) or _is_collected(sch, block):
            return [sch]
        if {AUTO_TENSORIZE, OPERANDS_PACKED} & sref.block.annotations.keys():
            return [sch]
        designs = [sch]
        free = layout_free_buffers(sch, sch.state.func_name_of(sref))
        least = self._first_cache if self.min_bytes is None else self.min_bytes
        for operand in _packable_operands(sref, least):
            if sref.block.reads[operand.read].buffer in free:
                continue
            if operand.nbytes > self.max_bytes:
                _LOGGER.warning(
                    "The operand %s of block %r is not packed: its panels need %s bytes, and "
                    "PackOperands(max_bytes=...) allows %s",
                    sref.block.reads[operand.read].buffer.name,
                    sref.block.name_hint,
                    f"{operand.nbytes:,}",
                    f"{self.max_bytes:,}",
                )
                continue
            for place in (None, _inner_place(sch, sref)):
                designs += self._pack(sch.copy(), block, operand, place)
        return designs

    def _pack(
        self, sch: Schedule, block: BlockRV, operand: _Packable, place: int | None
    ) -> list[Schedule]:
        """Return the design with a copy at the loop with index `place`, or at the root."""
        try:
            if operand.axes is None:
                copy = sch.cache_read(block, operand.read, "global")
            else:
                copy = sch.reindex_cache_read(block, operand.read, "global", operand.axes)
            if place is not None:
                sch.compute_at(copy, sch.get_loops(block)[place], preserve_unit_loops=True)
            elif operand.axes is not None:
                _join_loops(sch, copy)
            if operand.apart is not None:
                apart = _strided_layout(sch, block, operand.read, *operand.apart)
                sch.transform_layout(
                    block, ("read", operand.read), apart, assume_injective_transform=True
                )
        except ScheduleError:
            # For example, a block in between writes the operand.
            return []
        sch.annotate(copy, PACKED, self._jobs if place is None else 1)
        return [sch]


def _strided_layout(sch: Schedule, block: BlockRV, read: int, dim: int, step: int) -> IndexMap:
    """Return the layout that makes elements adjacent that are `step` apart in a dimension."""
    indices = [Var(f"i{k}", n.dtype) for k, n in enumerate(sch.get(block).reads[read].buffer.shape)]
    others = [index for k, index in enumerate(indices) if k != dim]
    return IndexMap(indices, [*others, indices[dim] % step, indices[dim] // step])


def _join_loops(sch: Schedule, copy: BlockRV) -> None:
    """Fuse the loops of a copy, which are tiled like the reader's, to one loop per dimension."""
    sref = sch.get_sref(copy)
    loops = dict(
        zip((x.loop.loop_var for x in loops_above(sref)), sch.get_loops(copy), strict=True)
    )
    values = sref.block_realize.iter_values
    groups = [[loops[var] for var in loops if uses_var(value, var)] for value in values]
    sch.reorder(*itertools.chain.from_iterable(groups))
    for group in groups:
        if len(group) > 1:
            sch.fuse(*group)


def _memory() -> int:
    """Return the size of this machine's memory in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _is_collected(sch: Schedule, block: BlockRV) -> bool:
    """Return True if the only consumer of a block is a copy, as of a write cache."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1:
        return False
    body = sch.get(consumers[0]).body
    return isinstance(body, BufferStore) and isinstance(body.value, BufferLoad)


def _inner_place(sch: Schedule, block: StmtSRef) -> int | None:
    """Return the index of the last outer reduction loop, if there are inner ones.

    Otherwise the index of the loop around the reduction, or None.
    """
    kinds = loop_iter_types(sch.state, loops_above(block))
    reduces = [kind == IterVar.COMM_REDUCE for kind in kinds]
    first = reduces.index(True)
    end = reduces.index(False, first) if False in reduces[first:] else len(reduces)
    place = end - 1 if True in reduces[end:] else first - 1
    return place if place >= 0 else None


@dataclass(frozen=True, slots=True)
class _Packable:
    """An operand of a reduction."""

    read: int
    """The index of the region of a load among the regions that the block reads."""
    axes: IndexMap | None
    """The map from the block's axes to the indices of the copy; None if the copy has the indices
    of the operand."""
    apart: tuple[int, int] | None
    """The dimension of the lanes and their distance, if that is more than one element."""
    nbytes: int
    """The size of the copy of the whole operand."""


def _packable_operands(block: StmtSRef, least_bytes: int) -> list[_Packable]:
    """Return the operands of a sum of products that are loaded in vectors and read repeatedly.

    Vectors are along the last index of the result. An operand that does not depend on this index is
    broadcast, for which any layout is good. An operand smaller than `least_bytes` fits the first
    cache. All axes and shapes must be constant.
    """
    node = block.block
    store = node.body
    if node.init is None or not isinstance(store, BufferStore) or not store.indices:
        return []
    extents = _axis_extents(node)
    lane = store.indices[-1]
    if extents is None or not isinstance(lane, Var) or extents.get(lane, 1) == 1:
        return []
    loads = list(loads_in(store.value))
    operands = {load.buffer: load for load in loads if load.buffer is not store.buffer}
    if len(operands) < 2 or len(operands) < len(loads) - 1:
        return []
    found = []
    for k, region in enumerate(node.reads):
        load = operands.get(region.buffer)
        if load is None or region.buffer.strides:
            continue
        used = set().union(*map(collect_vars, load.indices))
        again = math.prod(
            extents[axis.var]
            for axis in node.iter_vars
            if axis.var not in used and axis.iter_type == IterVar.DATA_PAR
        )
        if lane not in used or not used <= extents.keys() or again < _READ_AGAIN:
            continue
        operand = _operand(k, node, load, lane, extents)
        if operand is not None and operand.nbytes >= least_bytes:
            found.append(operand)
    return found


def _axis_extents(block: Block) -> dict[Var, int] | None:
    extents = {}
    for axis in block.iter_vars:
        if axis.dom is None or not isinstance(axis.dom.extent, IntImm):
            return None
        extents[axis.var] = axis.dom.extent.value
    return extents


def _operand(
    read: int, block: Block, load: BufferLoad, lane: Var, extents: dict[Var, int]
) -> _Packable | None:
    """Return the packed operand for a load; None if a copy gains nothing.

    If each index depends on a different axis, the copy is dense, with the axis of the vectors last.
    If windows overlap, a shared element is copied once, and the copy pays only if it makes strided
    lanes contiguous.
    """
    used = [collect_vars(index) for index in load.indices]
    axes = [axis for of_index in used for axis in of_index]
    size = load.buffer.dtype.nbytes
    if len(set(axes)) == len(axes) == len(load.indices):
        nbytes = math.prod(extents[axis] for axis in axes) * size
        if axes[-1] is lane and load.indices[-1] is lane:
            return _Packable(read, None, None, nbytes)
        order = [axis for axis in axes if axis is not lane] + [lane]
        return _Packable(
            read, IndexMap([axis.var for axis in block.iter_vars], order), None, nbytes
        )
    dims = [dim for dim, of_index in enumerate(used) if lane in of_index]
    steps = [coefficients(load.indices[dim]).step(lane) for dim in dims]
    shape = [n.value for n in load.buffer.shape if isinstance(n, IntImm)]
    if len(dims) > 1 or steps[0] is None or steps[0] < 2 or len(shape) < len(load.indices):
        return None
    return _Packable(read, None, (dims[0], steps[0]), math.prod(shape) * size)
