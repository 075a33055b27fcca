"""The execution of a nest after postprocessing: which iterations are lanes, registers, threads.

Features are computed from programs before postprocessing, for all programs of a structure at once.
The effect of the postprocessors for CPUs follows from extents and strides:
`RewriteParallelVectorizeUnroll` fuses outer loops to parallel loops and contiguous inner loops to
vectors, and `RewriteRegisterTile` moves a tile of accumulators to registers. This module makes the
same choices with arrays. It does so for spaces without these postprocessors, too, where the result
still distinguishes programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from search.feature_extractor.nests import PARALLEL, REGISTERS, VECTORIZE, Array, Drives, Mask, Nest
from search.postproc.loop_marks import fusible_loops, parallel_loops, vector_loops
from search.postproc.register_tile import Nests, Operand, choose_tiles, tiled_lanes
from tensorir.nodes.stmt import ForKind

_LONGEST: Final = 64
"""The maximum number of iterations of a loop that LLVM turns into one vector."""


@dataclass(slots=True)
class Execution:
    """The factors of the iterations of each loop [loops, programs].

    From outside these are the `outer` iterations, the `run` of reduction steps during which a tile
    stays in registers, the `inner` iterations of the tile, which are unrolled, and the `lanes`.
    """

    outer: Array
    run: Array
    inner: Array
    lanes: Array
    padded: Array
    """The product of the factors: the iterations, with the cost of tails of tiles and vectors."""
    parallel: Array
    """The iterations of the parallel loop [programs]."""
    fused: Array
    """The number of loops of several iterations in the parallel loop [programs]."""
    threaded: Mask
    """True for each loop [loops, programs] in the parallel loop."""
    register: int
    """The number of elements of the widest accessed type in a vector register; for an intrinsic,
    of the narrowest type."""

    def of_loops(self, places: Sequence[int]) -> Execution:
        """Return the execution of a nest of some of the loops."""
        at = list(places)
        names = ("outer", "run", "inner", "lanes", "padded", "threaded")
        return replace(self, **{name: getattr(self, name)[at] for name in names})

    @property
    def vector(self) -> Array:
        """The lanes of a vector [programs]."""
        return np.asarray(self.lanes.prod(0))

    @property
    def pieces(self) -> Array:
        """The number of registers that a vector fills [programs]."""
        return np.ceil(self.vector / self.register)

    @property
    def tile(self) -> Array:
        """The vectors of a tile [programs]."""
        return np.asarray(self.inner.prod(0))


def execution(
    nest: Nest, vector_bits: int, vector_registers: int, updates_in_flight: int
) -> Execution:
    """Return the execution of a nest on a CPU with these registers and multiply-add units."""
    is_parallel, lanes = _parallel_and_lanes(nest)
    within = nest.store.intrinsic_from
    is_intrinsic = within < len(nest.loops)
    item_bytes = (min if is_intrinsic else max)(nest.item_bytes, default=4)
    register = max(1, vector_bits // (8 * item_bytes))
    if is_intrinsic:
        # A call of the intrinsic is one vector of the narrow numbers that it multiplies.
        lanes[:within], lanes[within:] = 1, nest.extents[within:]
    if nest.packed[0]:
        _fill_panels(nest, is_parallel, lanes, register)
    inner, run = np.ones_like(nest.extents), np.ones_like(nest.extents)
    for place in nest.loops:
        if nest.kinds[place] is ForKind.UNROLLED:
            reduces = nest.drives[place] is Drives.REDUCTION
            (run if reduces else inner)[place] = nest.extents[place]
    parallel = np.where(is_parallel, nest.extents, 1).prod(0)
    fused = (is_parallel & (nest.extents > 1)).sum(0)
    result = Execution(
        nest.extents, run, inner, lanes, nest.extents, parallel, fused, is_parallel, register
    )
    if nest.store.updates:
        tile_reduction(nest, result, is_parallel, vector_registers, updates_in_flight)
    _vectorize_innermost(nest, result)
    result.outer = result.padded / (result.run * result.inner * result.lanes)
    return result


def _fill_panels(nest: Nest, is_parallel: Mask, lanes: Array, register: int) -> None:
    """Vectorise and parallelise a copy to panels, as `RewritePanels` does.

    Vectors are along the last loop over the copy. Threads share its first loop if the copy is not
    in other loops.
    """
    lanes[:] = 1
    lanes[-1] = np.minimum(nest.extents[-1], register)
    is_parallel[len(nest.loops) - len(nest.shapes[0]) :] = False
    if len(nest.loops) == len(nest.shapes[0]):
        is_parallel[0] = nest.limits[PARALLEL] > 1


def _vectorize_innermost(nest: Nest, result: Execution) -> None:
    """Vectorise innermost loops as LLVM does in nests without another vector."""
    open_ = (result.vector == 1) & (result.tile == 1)
    for place in reversed(nest.loops):
        if not nest.store.single[place] or nest.kinds[place] is not ForKind.SERIAL:
            break
        extent, target = nest.extents[place], nest.averages[0][place]
        short = (extent % 4 == 0) & (extent <= _LONGEST) & (target == 1)
        able = target == 1 if not nest.store.is_reordered else target <= 1
        # LLVM vectorises loops that no pragma unrolls.
        left = able & (extent > nest.unroll)
        able = open_ & (extent > 1) & (short | left)
        for strides in nest.averages[1:]:
            able &= strides[place] <= 1
        lanes = np.where(short, extent, np.minimum(extent, result.register))
        result.lanes[place] = np.where(able, lanes, result.lanes[place])
        result.run[place] = np.where(able, 1, result.run[place])
        open_ = open_ & (extent == 1)
        if not open_.any():
            break


def _parallel_and_lanes(nest: Nest) -> tuple[Mask, Array]:
    """Return a mask of the loops that become the parallel loop, and the lanes of each loop."""
    extents, single, limits = nest.extents, nest.store.single, nest.limits
    spatial = [drives is Drives.SPATIAL for drives in nest.drives]
    free = [s and nest.kinds[k] is ForKind.SERIAL for k, s in enumerate(spatial)]
    alone = [f and s for f, s in zip(free, single, strict=True)]
    parallel, vector = (
        [k for k in nest.loops if nest.kinds[k] is kind]
        for kind in (ForKind.PARALLEL, ForKind.VECTORIZED)
    )
    is_parallel = parallel_loops(extents, free, single, limits[PARALLEL], parallel).chosen
    fusible = fusible_loops(np.array(nest.direct), extents)
    is_vector = vector_loops(extents, alone, fusible, limits[VECTORIZE], vector).chosen
    return is_parallel & ~is_vector, np.where(is_vector, extents, 1.0)


def tile_reduction(
    nest: Nest, result: Execution, is_parallel: Mask, registers: int, in_flight: int
) -> None:
    """Choose the vector and the tile of a reduction, as `RewriteRegisterTile` does."""
    extents = nest.extents
    room = np.where(nest.limits[REGISTERS] >= 0, nest.limits[REGISTERS], registers)
    inside = _perfect(nest, is_parallel)
    drives = np.array([drives is Drives.REDUCTION for drives in nest.drives])[:, None]
    reduces = inside & drives
    target = nest.moves[0]
    repeats = inside & ~reduces & (target == 0) & (extents > 1)
    tiled = (room > 0) & reduces.any(0) & ~repeats.any(0)
    operands = nest.moves[1:]
    marked = result.vector > 1
    chosen = _unmarked_vector(nest, inside, operands, result.register)
    lanes = np.where(marked, result.lanes, chosen)
    pieces = np.ceil(lanes.prod(0) / result.register)
    # Lanes of a reduction, in an intrinsic, share an accumulator.
    own_lanes = np.where(drives, 1, lanes)
    choice = choose_tiles(
        Nests(
            np.where(inside & ~reduces, np.ceil(extents / lanes), 1),
            np.where(reduces, extents, 1),
            reduces,
            pieces * nest.store.results,
            tuple(_operand(strides, own_lanes, pieces) for strides in operands),
        ),
        room,
        in_flight,
    )
    wanted = ~marked & (lanes.prod(0) > 1)
    done = tiled & (choice.found | choice.stays) & ~(choice.stays & wanted)
    result.lanes = np.where(done, lanes, result.lanes)
    result.inner = np.where(done, choice.sides, result.inner)
    # If the order is kept, the run consists of its innermost reduction loops, too.
    result.run = np.where(done & choice.run, extents, result.run)
    padded = np.ceil(extents / lanes) * lanes * choice.waste
    result.padded = np.where(done, padded, result.padded)


def _operand(strides: Array, lanes: Array, pieces: Array) -> Operand:
    is_vector = np.asarray(((strides > 0) & (lanes > 1)).any(0))
    return Operand(strides > 0, np.where(is_vector, pieces, 1.0), is_vector)


def _perfect(nest: Nest, is_parallel: Mask) -> Mask:
    """Return a mask of the loops in the perfect nest around the store that may be reordered."""
    inside = np.zeros(nest.extents.shape, bool)
    alive = np.ones(nest.count, bool)
    for place in reversed(range(nest.store.intrinsic_from)):
        if nest.drives[place] is Drives.OTHER or not nest.store.single[place]:
            break
        if nest.kinds[place] not in (ForKind.SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED):
            break
        alive = alive & ~is_parallel[place]
        if place == 0:
            alive = alive & (nest.unroll <= 0)
        inside[place] = alive
    return inside


def _unmarked_vector(nest: Nest, inside: Mask, operands: Sequence[Array], register: int) -> Array:
    """Return the lanes of the innermost loop that can become a vector, at any depth."""
    lanes = np.ones_like(nest.extents)
    free = np.ones(nest.count, bool)
    for place in reversed(nest.loops):
        able = free & inside[place] & (nest.moves[0][place] == 1)
        for strides in operands:
            able &= strides[place] <= 1
        if not able.any():
            continue
        width = np.where(able, tiled_lanes(nest.extents[place], register), 1)
        lanes[place] = width
        free &= width == 1
    return lanes
