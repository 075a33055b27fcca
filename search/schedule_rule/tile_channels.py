"""Multi-level tiling of convolutions over rows, with channels in the lanes of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.sref import StmtSRef
from search.analysis.tiling_needs import needs_multi_level_tiling
from search.postproc.rewrite_layout import layout_free_buffers
from search.schedule_rule.multi_level_tiling import (
    MultiLevelTiling,
    TilingState,
    computed_at,
    elementwise_consumer,
)
from search.spaces.annotations import KEPT_ROLLED, TILING_STRUCTURE
from tensorir.arith.coefficients import coefficients
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.dtype import INT32
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import uses_var


class TileChannels(MultiLevelTiling):
    """Tiles a convolution whose results lie in rows with vectors of channels, in further designs.

    Before: for n, o, y, x, c, r, s: Y[n, o, y, x] += X[n, c, y + r, x + s] * W[o, c, r, s]
    After:  for n, o0, y, x, o1, c, r, s:
                Z[n, o0, y, x, o1] += X[n, c, y + r, x + s] * W[o0 * 16 + o1, c, r, s]
            for n, o0, y, x, o1: Y[n, o0 * 16 + o1, y, x] = Z[n, o0, y, x, o1]

    and the tiles of `MultiLevelTiling`. Rows are seldom a whole number of vectors long, and the
    elements that a stride leaves out lie between those that it takes; channels are 16, 32, 64, ...
    An element of X then serves all lanes, and what is copied out of a tile, with what else is done
    to it, is transposed there.

    It applies to a reduction of which one operand only, W, depends on a dimension before the last
    one that it writes, if the elements of that dimension are whole vectors. W has to be a parameter
    that may have any layout (`layout_free_buffers`), so that its channels come to lie side by side.
    """

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """Return the designs with channels in vectors, after the one as it is if that may be good.

        That is so where whole vectors of the last dimension are read without gaps.
        """
        channels = _channels(sch, sch.get_sref(block), self._task_target().vector_lanes)
        if channels is None:
            return [sch]
        blocked = sch.copy()
        try:
            copy_out = _in_blocks(blocked, block, channels)
        except ScheduleError:
            # What reads the result may do so in a way that follows no blocks.
            return [sch]
        designs = self._tiled(blocked, block, copy_out)
        return [sch, *designs] if channels.has_rows or not designs else designs

    def _tiled(self, sch: Schedule, block: BlockRV, copy_out: BlockRV) -> list[Schedule]:
        sch.annotate(block, TILING_STRUCTURE, self.structure)
        # Steps of a window that stand side by side share elements of X: broadcast and kept for all
        # of them, these take the registers of the accumulators.
        sch.annotate(block, KEPT_ROLLED, True)
        (state,) = self.tile(_Lanes(sch, block, [], sch.get_loops(block)[-1]))
        return [made.sch for made in computed_at(state, copy_out, list(self.reuse_write.levels))]

    def split(self, state: TilingState, loop: LoopRV, parts: int, most: int | None) -> list[LoopRV]:
        """Return a loop in sampled parts; that over lanes is innermost as a whole."""
        if isinstance(state, _Lanes) and state.sch.get(loop) is state.sch.get(state.lanes):
            return state.sch.split(loop, [*[1] * (parts - 1), None])
        return super().split(state, loop, parts, most)


@dataclass(eq=False)
class _Lanes(TilingState):
    """A design in the making, with the loop over the lanes of vectors."""

    lanes: LoopRV

    def copy(self) -> _Lanes:
        return _Lanes(self.sch.copy(), self.block, self.tiles, self.lanes)


@dataclass(frozen=True)
class _Channels:
    """The dimension of the result whose elements lie in vectors, of so many lanes."""

    dimension: int
    lanes: int
    has_rows: bool
    """True if vectors along the last dimension are whole, and read without gaps."""


def _channels(sch: Schedule, block: StmtSRef, lanes_of: Callable[[int], int]) -> _Channels | None:
    """Return the channels of a block to which the rule applies, None for any other."""
    axes = _written_axes(block.block) if needs_multi_level_tiling(block) else None
    if axes is None or len(sch.mod.functions) != 1:
        return None
    (name,) = sch.mod.functions
    free = layout_free_buffers(sch, name)
    written = block.block.writes[0].buffer
    reads = [read for read in block.block.reads if read.buffer is not written]
    lanes = lanes_of(written.dtype.bits)
    for dimension, axis in enumerate(axes[:-1]):
        extent = None if axis.dom is None else axis.dom.extent
        moved = [read for read in reads if _uses(read, axis.var)]
        if (
            isinstance(extent, IntImm)
            and extent.value % lanes == 0
            and len(moved) == 1
            and moved[0].buffer in free
            and not _uses(moved[0], axes[-1].var)
        ):
            return _Channels(dimension, lanes, _has_rows(reads, axes[-1], lanes))
    return None


def _has_rows(reads: Sequence[BufferRegion], last: IterVar, lanes: int) -> bool:
    """Say whether vectors along the last axis are whole, and lie without gaps in what is read."""
    extent = None if last.dom is None else last.dom.extent
    steps = {
        coefficients(dim.min).step(last.var)
        for read in reads
        for dim in read.region
        if uses_var(dim.min, last.var)
    }
    return isinstance(extent, IntImm) and extent.value % lanes == 0 and steps == {1}


def _in_blocks(sch: Schedule, block: BlockRV, channels: _Channels) -> BlockRV:
    """Bring a block and what reads its result into blocks of channels; return the reader.

    ScheduleError where that cannot be.
    """
    copy_out = elementwise_consumer(sch, block)
    if copy_out is None:
        copy_out = sch.cache_write(block, 0, "global")
    written = _written_axes(sch.get(block))
    assert written is not None
    in_blocks = _lanes_last(len(written), channels)
    places = {axis.var: k for k, axis in enumerate(sch.get(block).iter_vars)}
    order = [places[axis.var] for axis in written]
    sch.transform_layout(block, ("write", 0), in_blocks)
    others = [k for k in range(len(places)) if k not in order]
    axes = [Var(f"i{k}", INT32) for k in range(len(places))]
    *outer, lane = in_blocks.map_indices([axes[k] for k in order])
    # The last loop is that of the vectors, also behind axes of one step that count as spatial.
    sch.transform_block_layout(block, IndexMap(axes, [*outer, *(axes[k] for k in others), lane]))
    sch.transform_block_layout(copy_out, in_blocks)
    return copy_out


def _lanes_last(rank: int, channels: _Channels) -> IndexMap:
    indices = [Var(f"i{k}", INT32) for k in range(rank)]
    outer: list[PrimExpr] = [*indices]
    outer[channels.dimension] = indices[channels.dimension] // channels.lanes
    return IndexMap(indices, [*outer, indices[channels.dimension] % channels.lanes])


def _written_axes(node: Block) -> list[IterVar] | None:
    """Return the axes whose values are the indices of what a block writes, if they are."""
    axes = {axis.var: axis for axis in node.iter_vars if axis.iter_type == IterVar.DATA_PAR}
    indices = [dim.min for dim in node.writes[0].region]
    if len(indices) < 3 or not all(index in axes for index in indices):
        return None
    found = [axes[index] for index in indices if isinstance(index, Var)]
    return found if len(set(found)) == len(indices) == len(axes) else None


def _uses(region: BufferRegion, var: Var) -> bool:
    return any(uses_var(dim.min, var) for dim in region.region)
