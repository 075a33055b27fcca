"""Giving each reduction a tile of accumulators that the registers can hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codegen.target import as_target
from schedule import BlockRV, LoopRV, Schedule
from schedule.analysis.bindings import is_affine_binding, loop_iter_types
from schedule.sref import StmtSRef, loops_above
from search.auto_tensorize import AUTO_TENSORIZE
from search.postproc.postproc import Postproc, functions_with_blocks
from search.postproc.register_tile import Loop, Nest, Tile, choose_tile
from tensorir.expr import BufferLoad, IntImm, IterVar, Var
from tensorir.stmt import BufferStore, ForKind, SeqStmt
from tensorir.visit import collect_vars, walk

if TYPE_CHECKING:
    from codegen import Target
    from search.context import TuneContext


class RewriteRegisterTile(Postproc):
    """Gives each reduction a register tile: the loops over it become the innermost, unrolled.

    Before: for k, i, j_0 in T.grid(128, 32, 2): for j_1 in T.vectorized(32): C[..] += A[..] * B[..]
    After:  for i_0 in range(4): for k in range(128):
                for i_1, j_0 in (T.unroll(8), T.unroll(2)): for j_1 in T.vectorized(32): ...

    `choose_tile` chooses the tile for the number and width of the target's vector registers. It
    runs after the loops to vectorise are marked and before reductions are decomposed, so that the
    init is vectorised and unrolled in the same way. Every element gets its updates in the order it
    had before.

    Looked at are vectorised nests around a block with an `init` that stores one element, from the
    outermost reduction loop on: perfect, with constant extents. Others stay as they are, and so do
    blocks that are to become intrinsics. It never rejects.
    """

    def __init__(self) -> None:
        self._target: Target | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._target = context.target

    def apply(self, sch: Schedule) -> bool:
        """Tile the reductions of every function."""
        target = as_target(self._target)
        for name in functions_with_blocks(sch):
            for sref in list(sch.state.blocks(name)):
                update = _read_update(sch, sref, target)
                tile = None if update is None else choose_tile(update.nest, target.vector_registers)
                if update is not None and tile is not None:
                    block = sch.get_block(sref.block.name_hint, name)
                    _give_tile(sch, block, update, tile)
        return True


@dataclass(frozen=True)
class _Update:
    """A vectorised reduction in a perfect nest."""

    first: int
    """The place of the outermost reduction loop among the loops around the block."""
    nest: Nest


def _read_update(sch: Schedule, block: StmtSRef, target: Target) -> _Update | None:
    """Return a reduction that can be tiled, None for any other block."""
    node = block.block
    store = node.body
    if node.init is None or AUTO_TENSORIZE in node.annotations:
        return None
    if not isinstance(store, BufferStore) or not is_affine_binding(sch.state, block):
        return None
    around = loops_above(block)
    kinds = loop_iter_types(sch.state, around)
    first = next((k for k, kind in enumerate(kinds) if kind == IterVar.COMM_REDUCE), len(kinds))
    srefs, kinds = around[first:], kinds[first:]
    if not srefs or srefs[-1].loop.kind is not ForKind.VECTORIZED:
        return None
    for place, (sref, kind) in enumerate(zip(srefs, kinds, strict=True)):
        loop = sref.loop
        if kind not in (IterVar.DATA_PAR, IterVar.COMM_REDUCE) or not isinstance(
            loop.extent, IntImm
        ):
            return None
        if isinstance(loop.body, SeqStmt) or (place > 0 and loop.annotations):
            return None
        if sref is not srefs[-1] and loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            return None
    reduces = [kind == IterVar.COMM_REDUCE for kind in kinds]
    return _Update(first, _nest(block, store, srefs, reduces, target))


def _nest(
    block: StmtSRef,
    store: BufferStore,
    srefs: Sequence[StmtSRef],
    reduces: Sequence[bool],
    target: Target,
) -> Nest:
    realize = block.block_realize
    moves_with: dict[Var, list[Var]] = {
        axis.var: collect_vars(value)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    *loops, lanes = (sref.loop for sref in srefs)
    loads = [part for part in walk(store.value) if isinstance(part, BufferLoad)]
    widest = max(part.dtype.bits for part in loads)
    pieces = -(-int(lanes.extent) // target.vector_lanes(widest))
    operands = []
    for load in loads:
        if load.buffer is store.buffer:
            continue
        axes = (axis for index in load.indices for axis in collect_vars(index))
        variables = {var for axis in axes for var in moves_with.get(axis, ())}
        places = frozenset(k for k, loop in enumerate(loops) if loop.loop_var in variables)
        operands.append((places, pieces if lanes.loop_var in variables else 1))
    shape = tuple(
        Loop(int(loop.extent), reducing) for loop, reducing in zip(loops, reduces, strict=False)
    )
    return Nest(shape, pieces, tuple(operands))


def _give_tile(sch: Schedule, block: BlockRV, update: _Update, tile: Tile) -> None:
    """Bring the loops around an update into the order of its tile, and unroll those over it."""
    *loops, lanes = sch.get_loops(block)[update.first :]
    before = list(loops)
    outer: list[LoopRV] = []
    run: list[LoopRV] = []
    inner: list[LoopRV] = []
    for place, (handle, side) in enumerate(zip(loops, tile.sides, strict=True)):
        extent = update.nest.loops[place].extent
        if place in tile.run:
            run.append(handle)
        elif side == 1:
            outer.append(handle)
        elif side == extent:
            inner.append(handle)
        else:
            rest, part = sch.split(handle, [extent // side, side])
            before[before.index(handle) : before.index(handle) + 1] = [rest, part]
            outer.append(rest)
            inner.append(part)
    after = [*outer, *run, *inner]
    if after != before:
        sch.reorder(*after, lanes)
    for handle in inner:
        sch.unroll(handle)
