"""The rule that tiles convolutions with channels in the lanes of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from math import gcd
from typing import Final

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.sref import StmtSRef
from search.postproc.rewrite_layout import layout_free_buffers
from search.schedule_rule.multi_level_tiling import (
    MultiLevelTiling,
    TilingState,
    computed_at,
    elementwise_consumer,
    mixes_axes,
)
from search.space_generator.annotations import KEPT_ROLLED, OPERANDS_PACKED, TILING_STRUCTURE
from search.space_generator.tiling_needs import needs_multi_level_tiling
from tensorir.arith.coefficients import coefficients
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.dtype import INT32
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import collect_vars, uses_var

_COPIED_AT: Final = 2
"""The tile level at which X is copied: inside the loops that share no channels."""


class TileChannels(MultiLevelTiling):
    """Tiles a convolution whose result is contiguous along a row with vectors of channels.

    Before: for n, o, y, x, c, r, s: Y[n, o, y, x] += X[n, c, y + r, x + s] * W[o, c, r, s]
    After:  for n, o0, y, x, o1, c, r, s:
                Z[n, o0, y, x, o1] += X[n, c, y + r, x + s] * W[o0 * 16 + o1, c, r, s]
            for n, o0, y, x, o1: Y[n, o0 * 16 + o1, y, x] = Z[n, o0, y, x, o1]

    and the tiles of `MultiLevelTiling`. Rows are rarely a multiple of a vector, and a stride leaves
    gaps between the elements that it reads; channels are 16, 32, 64, ... An element of X is
    broadcast to all lanes, and the copy of a tile to Y, with its element-wise consumer, transposes.

    Groups of channels have an axis g (`SeparateGroups`). If the number of channels of a group is
    not a multiple of the lanes of a vector, the lanes are channels of several groups:

        for n, g0, y, x, c, r, s, o, g1:
            Z[n, g0, y, x, o, g1] += X[n, g0, c, y + r, x + s, g1] * W[o, g0, g1, c, r, s]

    for groups of 8 channels, vectors of 16 lanes and loops of 8 and 2 steps over `o` and `g1`. Two
    contiguous elements of X are broadcast to all lanes. X gets this layout where it is padded, or
    else in a copy.

    The rule applies to a reduction with a written dimension on which only one operand, W, depends,
    if the elements of that dimension, or those of several groups, fill whole vectors. W must be a
    parameter with a free layout (`layout_free_buffers`), so that its channels become contiguous.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the designs with channels in vectors, after the unchanged design if that may pay.

        It may pay if the last dimension is read in whole vectors without gaps, or if X is copied.
        """
        channels = _channels(sch, sch.get_sref(block), self._task_target().vector_lanes)
        if channels is None:
            return [sch]
        blocked = sch.copy()
        try:
            copy_out = _split_into_blocks(blocked, block, channels)
            copy_in = _interleave_input(blocked, block, channels)
        except ScheduleError:
            # For example, a consumer of the result cannot be split into blocks of channels.
            return [sch]
        designs = self._tile_designs(blocked, block, channels, copy_out, copy_in)
        return [sch, *designs] if channels.keeps_others or not designs else designs

    def _tile_designs(
        self,
        sch: Schedule,
        block: BlockRV,
        channels: _Channels,
        copy_out: BlockRV,
        copy_in: BlockRV | None,
    ) -> list[Schedule]:
        sch.annotate(block, TILING_STRUCTURE, self.structure)
        # Unrolled steps of a window share elements of X. Kept as broadcasts for all steps, they
        # would need the registers of the accumulators.
        sch.annotate(block, KEPT_ROLLED, True)
        sch.annotate(block, OPERANDS_PACKED, True)
        lanes = sch.get_loops(block)[-1 if channels.group is None else -2 :]
        over = {sch.get(loop).loop_var for loop in lanes}
        (state,) = self.tile(_Lanes(sch, block, [], over))
        designs = computed_at(state, copy_out, list(self.reuse_write.levels))
        if channels.interleaved is not None:
            for design in designs:
                for nest in (block, copy_out):
                    design.sch.fuse(*design.sch.get_loops(nest)[-2:])
        if copy_in is not None:
            for design in designs:
                design.sch.compute_at(copy_in, design.at(_COPIED_AT), preserve_unit_loops=True)
        return [design.sch for design in designs]

    def split(self, state: TilingState, loop: LoopRV, parts: int, most: int | None) -> list[LoopRV]:
        """Split a loop by sampled factors; a loop over lanes is innermost as a whole."""
        if isinstance(state, _Lanes) and state.sch.get(loop).loop_var in state.lanes:
            return state.sch.split(loop, [*[1] * (parts - 1), None])
        return super().split(state, loop, parts, most)


@dataclass(eq=False)
class _Lanes(TilingState):
    """An unfinished design, with the loops over the lanes of vectors."""

    lanes: Set[Var]


@dataclass(frozen=True)
class _Channels:
    """The dimensions of the result that are in the lanes of vectors."""

    dimension: int
    """The dimension of the channels."""
    lanes: int
    """The number of its elements in a vector."""
    group: int | None
    """The dimension of the groups, if a vector has several groups."""
    groups: int
    """The number of groups in a vector."""
    source: BufferRegion
    """The operand that does not depend on the channels."""
    interleaved: IndexMap | None
    """The layout of the source that makes the groups of a vector contiguous, if several."""
    keeps_others: bool
    """True if a design with other lanes may be as good."""


def _channels(sch: Schedule, block: StmtSRef, lanes_of: Callable[[int], int]) -> _Channels | None:
    """Return the channels of a block, None if the rule does not apply."""
    axes = _written_axes(block.block) if needs_multi_level_tiling(block) else None
    if axes is None or len(sch.mod.functions) != 1:
        return None
    (name,) = sch.mod.functions
    free = layout_free_buffers(sch, name)
    written = block.block.writes[0].buffer
    reads = [read for read in block.block.reads if read.buffer is not written]
    lanes = lanes_of(written.dtype.bits)
    for dimension, axis in enumerate(axes):
        moved = [read for read in reads if _uses(read, axis.var)]
        if len(reads) != 2 or len(moved) != 1 or moved[0].buffer not in free or lanes == 1:
            continue
        (source,) = [read for read in reads if read is not moved[0]]
        last = axes[-1]
        own = gcd(_extent(axis), lanes)
        if own == lanes:
            if axis is not last and not _uses(moved[0], last.var):
                rows = _has_rows(reads, last, lanes)
                return _Channels(dimension, lanes, None, 1, source, None, rows)
            continue
        for group, other in enumerate(axes):
            count = lanes // own
            if other is axis or _extent(other) % count or not _uses(moved[0], other.var):
                continue
            layout = _interleaving_map(source, other.var, count)
            if layout is not None:
                return _Channels(dimension, own, group, count, source, layout, True)
    return None


def _extent(axis: IterVar) -> int:
    """Return the extent of an axis; 1 if it is not constant."""
    extent = None if axis.dom is None else axis.dom.extent
    return extent.value if isinstance(extent, IntImm) else 1


def _interleaving_map(source: BufferRegion, group: Var, count: int) -> IndexMap | None:
    """Return an index map that interleaves `count` consecutive groups of an operand.

    Elements at the same position of these groups become contiguous, as a new innermost dimension.
    None unless the index of exactly one dimension depends on the group, with a constant stride that
    divides the extent of that dimension.
    """
    places = [k for k, dim in enumerate(source.region) if uses_var(dim.min, group)]
    if len(places) != 1:
        return None
    (place,) = places
    step = coefficients(source.region[place].min).step(group)
    extent = source.buffer.shape[place]
    if step is None or step < 1 or not isinstance(extent, IntImm) or extent.value % step:
        return None
    indices = [Var(f"i{k}", INT32) for k in range(len(source.region))]
    index = indices[place]
    parts: list[PrimExpr] = [index // (step * count), index % step]
    return IndexMap(
        indices, [*indices[:place], *parts, *indices[place + 1 :], index // step % count]
    )


def _has_rows(reads: Sequence[BufferRegion], last: IterVar, lanes: int) -> bool:
    """Return True if the last axis is read in whole vectors without gaps."""
    steps = {
        coefficients(dim.min).step(last.var)
        for read in reads
        for dim in read.region
        if uses_var(dim.min, last.var)
    }
    return _extent(last) % lanes == 0 and steps == {1}


def _split_into_blocks(sch: Schedule, block: BlockRV, channels: _Channels) -> BlockRV:
    """Split a block and the reader of its result into blocks of channels; return the reader.

    Raises ScheduleError if that is impossible.
    """
    copy_out = elementwise_consumer(sch, block)
    written = _written_axes(sch.get(block))
    assert written is not None
    if copy_out is None:
        mixes = mixes_axes(sch.get(block).writes[0])
        copy_out = (
            sch.reindex(block, ("write", 0)) if mixes else sch.cache_write(block, 0, "global")
        )
    in_blocks = _lanes_last(len(written), channels)
    places = {axis.var: k for k, axis in enumerate(sch.get(block).iter_vars)}
    order = [places[axis.var] for axis in written]
    sch.transform_layout(block, ("write", 0), in_blocks)
    others = [k for k in range(len(places)) if k not in order]
    axes = [Var(f"i{k}", INT32) for k in range(len(places))]
    mapped = in_blocks.map_indices([axes[k] for k in order])
    outer, lanes = mapped[: len(order)], mapped[len(order) :]
    # The loops of the vectors are last, also after axes of one step, which count as spatial.
    sch.transform_block_layout(block, IndexMap(axes, [*outer, *(axes[k] for k in others), *lanes]))
    sch.transform_block_layout(copy_out, in_blocks)
    return copy_out


def _interleave_input(sch: Schedule, block: BlockRV, channels: _Channels) -> BlockRV | None:
    """Make the elements of X for a vector contiguous; return the copy, if one is needed.

    If a block pads X for this reader only, it writes X in this layout.
    """
    if channels.interleaved is None:
        return None
    source = channels.source.buffer
    read = [region.buffer for region in sch.get(block).reads].index(source)
    writers = [b for b in sch.get_producers(block) if sch.get(b).writes[0].buffer is source]
    copy = None
    if not writers or len(sch.get_consumers(writers[0])) > 1:
        copy = sch.cache_read(block, read, "global")
    sch.transform_layout(block, ("read", read), channels.interleaved)
    return copy


def _lanes_last(rank: int, channels: _Channels) -> IndexMap:
    """Return the map to a layout with the lanes of vectors last, channels before groups."""
    indices = [Var(f"i{k}", INT32) for k in range(rank)]
    outer: list[PrimExpr] = [*indices]
    channel = indices[channels.dimension]
    outer[channels.dimension] = channel // channels.lanes
    lanes: list[PrimExpr] = [channel % channels.lanes]
    if channels.group is not None:
        group = indices[channels.group]
        outer[channels.group] = group // channels.groups
        lanes.append(group % channels.groups)
    return IndexMap(indices, [*outer, *lanes])


def _written_axes(node: Block) -> list[IterVar] | None:
    """Return the axes of the dimensions that a block writes, or would write to a cache.

    None if the block has other spatial axes of several steps.
    """
    axes = {axis.var: axis for axis in node.iter_vars if axis.iter_type == IterVar.DATA_PAR}
    if len(axes) < 3:
        return None
    region = node.writes[0]
    if mixes_axes(region):
        used = {var for dim in region.region for var in collect_vars(dim.min)}
        return list(axes.values()) if used == set(axes) else None
    indices = [dim.min for dim in region.region]
    # The index of an axis of one step is the constant 0.
    unseen = [axis for var, axis in axes.items() if var not in indices and _extent(axis) == 1]
    if sum(is_const_int(index, 0) for index in indices) > len(unseen):
        return None
    found = [
        unseen.pop(0) if is_const_int(index, 0) else axes.get(index)  # type: ignore[call-overload]
        for index in indices
    ]
    known = [axis for axis in found if axis is not None]
    others = set(axes.values()) - set(known)
    is_whole = len(set(known)) == len(indices) and all(_extent(axis) == 1 for axis in others)
    return known if is_whole else None


def _uses(region: BufferRegion, var: Var) -> bool:
    return any(uses_var(dim.min, var) for dim in region.region)
