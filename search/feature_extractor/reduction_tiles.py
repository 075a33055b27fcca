"""The tiles of accumulators that reductions get, for all programs of a structure at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from search.feature_extractor.nest_arrays import Array, Mask, Nest
from search.feature_extractor.nests import REGISTERS, Drives
from search.postproc.register_tile import Nests, Operand, choose_tiles, tiled_lanes
from tensorir.nodes.stmt import ForKind

if TYPE_CHECKING:
    from search.feature_extractor.execution import Execution


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
    # The lanes that have accumulators of their own: those of an intrinsic's sums.
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
    # An order that stays is described as a run of its innermost reduction loops, too.
    result.run = np.where(done & choice.run, extents, result.run)
    padded = np.ceil(extents / lanes) * lanes * choice.waste
    result.padded = np.where(done, padded, result.padded)


def _operand(strides: Array, lanes: Array, pieces: Array) -> Operand:
    is_vector = np.asarray(((strides > 0) & (lanes > 1)).any(0))
    return Operand(strides > 0, np.where(is_vector, pieces, 1.0), is_vector)


def _perfect(nest: Nest, is_parallel: Mask) -> Mask:
    """Return a mask of the loops in the perfect nest around the store whose order may change."""
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
    """Return the lanes of the innermost loop that can become a vector, wherever it is."""
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
