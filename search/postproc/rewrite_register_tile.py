"""The postprocessor that gives each reduction a tile of accumulators in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from codegen import Target
from schedule import LoopRV, Schedule
from schedule.analysis.bindings import is_affine_binding, loop_iter_types
from schedule.sref import StmtSRef, loops_above
from search.postproc.postproc import Postproc, functions_with_blocks
from search.postproc.register_tile import Nests, Operand, Tiles, choose_tiles, tiled_lanes
from search.space_generator.annotations import AUTO_TENSORIZE, REGISTER_TILE
from search.space_generator.vector_lanes import update_stores
from tensorir.indices.accesses import loads_in, strides
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.expr import IntImm, IterVar, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import For, ForKind, SeqStmt


class RewriteRegisterTile(Postproc):
    """Gives each reduction a register tile, whose loops become the innermost ones, unrolled.

    Before: for k, i, j_0 in T.grid(128, 32, 2): for j_1 in T.vectorized(16): C[..] += A[..] * B[..]
    After:  for i_0 in range(4): for k in range(128):
                for i_1 in T.unroll(8): for j_0 in T.unroll(2): for j_1 in T.vectorized(16): ...

    `choose_tiles` chooses the tile for the vector registers of the target, or for the number of
    registers that `SampleRegisterTile` annotated on the root block, where 0 means no tile. The
    postprocessor must run after loops are vectorised and before reductions are decomposed, so that
    the init is vectorised and unrolled in the same way. If no loop is vectorised, a loop along
    which accumulators are contiguous and each operand has the stride 0 or 1 becomes the vector. The
    order of the updates of each element does not change.

    The nest is the perfect nest of constant extents around a block with an `init` that stores one
    element, or one element of each buffer of a tuple, or that is annotated with an intrinsic, whose
    call then counts as one update. It never rejects.
    """

    def apply(self, sch: Schedule) -> bool:
        """Tile the reductions of every function."""
        target = self._task_target()
        for name in functions_with_blocks(sch):
            root = sch.state.root(name).block
            registers = target.vector_registers
            if REGISTER_TILE in root.annotations:
                registers = int(root.annotations[REGISTER_TILE])
                sch.unannotate(sch.get_block(root.name_hint, name), REGISTER_TILE)
            for sref in list(sch.state.blocks(name)) if registers > 0 else ():
                update = _read_update(sch, sref, target)
                if update is not None:
                    _rewrite(sch, name, update, registers, target.updates_in_flight)
        return True


_Strides = dict[Var, int | None]


@dataclass(frozen=True)
class _Accesses:
    """The accesses of an update."""

    accumulator: _Strides
    """The stride along each loop."""
    operands: tuple[_Strides, ...]
    register: int
    """The number of elements of a vector register of the target."""
    fills: tuple[int, ...] = ()
    """The numbers of registers of the result and the operands of an intrinsic, else empty."""
    results: int = 1
    """The number of values that one update stores."""


@dataclass(frozen=True)
class _Update:
    """A reduction in a perfect nest."""

    block: StmtSRef
    start: int
    """The number of loops around the nest."""
    loops: tuple[For, ...]
    reduces: tuple[bool, ...]
    accesses: _Accesses


def _read_update(sch: Schedule, block: StmtSRef, target: Target) -> _Update | None:
    """Return a reduction that can be tiled, None for any other block."""
    node = block.block
    if node.init is None or not is_affine_binding(sch.state, block):
        return None
    accesses = _accesses(block, target)
    if accesses is None:
        return None
    around = loops_above(block)
    kinds = loop_iter_types(sch.state, around)
    start = len(around)
    while start > 0 and _is_tileable(around, kinds, start - 1):
        start -= 1
    if IterVar.COMM_REDUCE not in kinds[start:]:
        return None
    loops = tuple(sref.loop for sref in around[start:])
    reduces = tuple(kind == IterVar.COMM_REDUCE for kind in kinds[start:])
    for loop, reducing in zip(loops, reduces, strict=True):
        if not reducing and loop.loop_var not in accesses.accumulator and _extent(loop) > 1:
            return None  # the loop repeats the reduction
    return _Update(block, start, loops, reduces, accesses)


def _accesses(block: StmtSRef, target: Target) -> _Accesses | None:
    """Return the accesses of a block; None unless it updates elements or has an intrinsic."""
    node = block.block
    if node.annotations.get(AUTO_TENSORIZE) and len(node.writes) == 1:
        (written,) = node.writes
        loaded = {load.buffer for load in loads_in(node.body)}
        reads = [r for r in node.reads if r.buffer in loaded and r.buffer is not written.buffer]
        first, *others = (
            strides(block.block_realize, region.buffer, [dim.min for dim in region.region])
            for region in (written, *reads)
        )
        fills = [_registers(region, target) for region in (written, *reads)]
        return _Accesses(first, tuple(others), 1, tuple(fills))
    stores = update_stores(node.body)
    if not stores:
        return None
    store, stored = stores[0], {other.buffer for other in stores}
    # All values of a tuple use the same operands.
    loads = list(loads_in(store.value))
    operands = [
        strides(block.block_realize, a.buffer, a.indices) for a in loads if a.buffer not in stored
    ]
    register = target.vector_lanes(max(load.dtype.bits for load in loads))
    accumulator = strides(block.block_realize, store.buffer, store.indices)
    return _Accesses(accumulator, tuple(operands), register, results=len(stores))


def _registers(region: BufferRegion, target: Target) -> int:
    """Return the number of vector registers that a region of constant extents fills."""
    extents = [r.extent.value if isinstance(r.extent, IntImm) else 1 for r in region.region]
    return -(-math.prod(extents) * region.buffer.dtype.bits // target.vector_bits)


def _is_tileable(around: Sequence[StmtSRef], kinds: Sequence[int], place: int) -> bool:
    """Return True if a loop may be reordered."""
    loop = around[place].loop
    is_vector = loop.kind is ForKind.VECTORIZED and place == len(around) - 1
    return (
        (is_vector or loop.kind is ForKind.SERIAL or loop.kind is ForKind.UNROLLED)
        and kinds[place] in (IterVar.DATA_PAR, IterVar.COMM_REDUCE)
        and isinstance(loop.extent, IntImm)
        and is_const_int(loop.min, 0)
        and not isinstance(loop.body, SeqStmt)
        and not loop.annotations
    )


@dataclass(frozen=True)
class _VectorLoop:
    """The vectorised loop of a nest, and the number of lanes of its vectors."""

    place: int
    lanes: int
    is_marked: bool
    """True if the whole loop is already vectorised."""


def _vector_loop(update: _Update) -> _VectorLoop | None:
    """Return the vectorised loop, else the innermost loop that can be vectorised, else None."""
    last, accesses = update.loops[-1], update.accesses
    if accesses.fills:
        return None
    if last.kind is ForKind.VECTORIZED:
        return _VectorLoop(len(update.loops) - 1, _extent(last), is_marked=True)
    for place in reversed(range(len(update.loops))):
        loop = update.loops[place]
        var = loop.loop_var
        steps = [operand.get(var, 0) for operand in accesses.operands]
        if accesses.accumulator.get(var) == 1 and all(step in (0, 1) for step in steps):
            extent = _extent(loop)
            lanes = int(tiled_lanes(np.array([float(extent)]), accesses.register)[0])
            if lanes > 1:
                return _VectorLoop(place, lanes, is_marked=False)
    return None


def _extent(loop: For) -> int:
    assert isinstance(loop.extent, IntImm)
    return loop.extent.value


def _nest(update: _Update, vector: _VectorLoop | None) -> Nests:
    """Return the nest of an update as the input of `choose_tiles`."""
    extents, accesses = [_extent(loop) for loop in update.loops], update.accesses
    pieces = accesses.fills[0] if accesses.fills else 1
    lane_var = None
    if vector is not None:
        extents[vector.place] = -(-extents[vector.place] // vector.lanes)
        pieces = -(-vector.lanes // accesses.register)
        lane_var = update.loops[vector.place].loop_var
    operands = []
    for k, steps in enumerate(accesses.operands):
        moves = np.array([[loop.loop_var in steps] for loop in update.loops])
        is_vector, registers = lane_var in steps, pieces if lane_var in steps else 1
        if accesses.fills:
            registers = accesses.fills[1 + k]
            is_vector = registers * 2 > pieces
        operands.append(Operand(moves, np.array([float(registers)]), np.array([is_vector])))
    counts, reduces = np.array(extents, float)[:, None], np.array(update.reduces)[:, None]
    spatial, reduction = np.where(reduces, 1, counts), np.where(reduces, counts, 1)
    accumulators = np.array([float(pieces * accesses.results)])
    return Nests(spatial, reduction, reduces, accumulators, tuple(operands))


def _moves_held_operand(nest: Nests, tile: Tiles) -> list[bool]:
    """Return for each loop True if it moves the operand that stays while others are loaded."""
    loads = nest.loads(tile.sides)
    if not loads:
        return [False] * len(tile.sides)
    held = min(range(len(loads)), key=lambda k: float(loads[k][0]))
    return [bool(moves) for moves in nest.operands[held].moves[:, 0]]


def _rewrite(sch: Schedule, name: str, update: _Update, registers: int, in_flight: int) -> None:
    """Reorder the loops: outer loops, the run, the loops over the tile, and the vector.

    In the tile, the loops that move the operand in registers are innermost.
    """
    vector = _vector_loop(update)
    nest = _nest(update, vector)
    tile = choose_tiles(nest, np.array([float(registers)]), in_flight)
    if not tile.found[0] or (vector is not None and not vector.is_marked and tile.stays[0]):
        return
    block = sch.get_block(update.block.block.name_hint, name)
    before: list[LoopRV] = []
    outer: list[LoopRV] = []
    run: list[LoopRV] = []
    inner: list[LoopRV] = []
    innermost: list[LoopRV] = []
    lanes: list[LoopRV] = []
    held = _moves_held_operand(nest, tile)
    for place, handle in enumerate(sch.get_loops(block)[update.start :]):
        side = int(tile.sides[place, 0])
        width = vector.lanes if vector is not None and vector.place == place else 1
        parts = [handle]
        if width > 1 and vector is not None and vector.is_marked:
            lanes = parts
        elif tile.run[place, 0] and not tile.stays[0]:
            run += parts
        else:
            sizes = _part_sizes(_extent(update.loops[place]), side, width)
            if len(sizes) > 1:
                parts = sch.split(handle, list(sizes.values()))
            in_tile = innermost if held[place] else inner
            for part, target in zip(parts, sizes, strict=True):
                (outer, in_tile, lanes)[target].append(part)
        before += parts
    if (order := [*outer, *run, *inner, *innermost, *lanes]) != before:
        sch.reorder(*order)
    for handle in (*inner, *innermost):
        sch.unroll(handle)
    if vector is not None and not vector.is_marked:
        sch.vectorize(lanes[0])


def _part_sizes(extent: int, side: int, lanes: int) -> dict[int, int | None]:
    """Return the extents of the parts of a loop: 0 the outer loop, 1 the tile, 2 the lanes.

    A tile has `side` vectors. Parts of one iteration are left out, except for a single part. If the
    last tile or vector is partly filled, the first extent is None.
    """
    sizes = {0: -(-extent // (side * lanes)), 1: side, 2: lanes}
    has_tail = math.prod(sizes.values()) > extent
    kept: dict[int, int | None] = {
        k: size for k, size in sizes.items() if size > 1 or (k == 0 and has_tail)
    }
    if has_tail:
        kept[0] = None
    return kept or {0: extent}
