"""The tiles of accumulators that reductions get, for all programs of a structure at once.

These are the choices of `search.postproc.register_tile` made with arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from search.feature_extractor.nest_arrays import Array, Mask, Nest
from search.feature_extractor.nests import REGISTERS, Drives
from search.postproc.register_tile import MIN_ACCUMULATORS, MIN_RUN, SHORT_RUN
from tensorir.stmt import ForKind

if TYPE_CHECKING:
    from search.feature_extractor.execution import Execution

_SHORTEST: Final = 4
"""Vectors that fill less than this part of a register are not made."""


def tile_reduction(nest: Nest, result: Execution, is_parallel: Mask, registers: int) -> None:
    """Choose the vector and the tile of a reduction, as `register_tile.choose_tile` does."""
    extents, count = nest.extents, nest.count
    room = np.where(nest.limits[REGISTERS] >= 0, nest.limits[REGISTERS], registers)
    inside = _perfect(nest, is_parallel)
    reduces = np.array([drives is Drives.REDUCTION for drives in nest.drives])
    target = nest.moves[0]
    repeats = inside & ~reduces[:, None] & (target == 0) & (extents > 1)
    tiled = (room > 0) & (inside & reduces[:, None]).any(0) & ~repeats.any(0)
    operands = nest.moves[1:]
    lanes, marked = result.lanes, result.vector > 1
    chosen = _unmarked_vector(nest, inside, operands, result.register)
    lanes = np.where(marked, lanes, chosen)
    vector = lanes.prod(0)
    pieces = np.ceil(vector / result.register)
    sides = np.where(inside & ~reduces[:, None], extents / lanes, 1)
    steps = np.where(inside & reduces[:, None], extents, 1)
    total = steps.prod(0)
    weights = [np.where(((s > 0) & (lanes > 1)).any(0), pieces, 1.0) for s in operands]

    def held(tile: Array) -> list[Array]:
        return [
            np.where(s > 0, tile, 1).prod(0) * w for s, w in zip(operands, weights, strict=True)
        ]

    def fits(tile: Array) -> Mask:
        least = np.minimum.reduce(held(tile)) if operands else np.zeros(count)
        return np.asarray(tile.prod(0) * pieces + least + (len(operands) > 1) <= room)

    # What the order of the loops keeps in registers already.
    tile, run = np.ones_like(extents), np.ones_like(extents)
    open_ = tiled.copy()
    for place in nest.loops:
        if not reduces[place] or not open_.any():
            continue
        later = np.arange(len(nest.loops))[:, None] >= place
        own, own_run = np.where(later, sides, 1), np.where(later, steps, 1)
        good = open_ & inside[place] & (own.prod(0) * pieces >= MIN_ACCUMULATORS)
        good &= (own_run.prod(0) >= np.minimum(MIN_RUN, total)) & fits(own)
        tile, run = np.where(good, own, tile), np.where(good, own_run, run)
        open_ &= ~good
    if open_.any():
        best = _best_tile(sides, operands, weights, pieces, room)
        found = open_ & (best[0] > 0)
        few = found & (best.prod(0) * pieces < MIN_ACCUMULATORS)
        last = np.where(steps > 1, np.arange(len(nest.loops))[:, None], -1).max(0)
        after = np.arange(len(nest.loops))[:, None] > last
        near = np.where(after, sides, 1)
        stays = few & (_short_run(steps, sides) >= SHORT_RUN) & fits(near)
        tile = np.where(found, np.where(stays, near, best), tile)
        # An order that stays is described as a run of its innermost reduction loops, too.
        run = np.where(found, _innermost_run(steps), run)
        open_ &= ~found | (stays & ~marked)
    done = tiled & ~open_
    result.lanes = np.where(done, lanes, result.lanes)
    result.inner = np.where(done, tile, result.inner)
    result.run = np.where(done, run, result.run)


def _perfect(nest: Nest, is_parallel: Mask) -> Mask:
    """Return a mask of the loops in the perfect nest around the store whose order may change."""
    inside = np.zeros(nest.extents.shape, bool)
    alive = np.ones(nest.count, bool)
    for place in reversed(nest.loops):
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
        extent = nest.extents[place]
        able = free & inside[place] & (nest.moves[0][place] == 1)
        for strides in operands:
            able &= strides[place] <= 1
        if not able.any():
            continue
        divisor = np.ones(nest.count)
        for width in range(2, register + 1):
            divisor = np.where(extent % width == 0, float(width), divisor)
        able &= (divisor > 1) & (divisor * _SHORTEST >= register)
        lanes[place] = np.where(able, divisor, 1)
        free &= ~able
    return lanes


def _best_tile(
    sides: Array, operands: Sequence[Array], weights: Sequence[Array], pieces: Array, room: Array
) -> Array:
    """Return the tile with the fewest loads for each update; zeros where none fits.

    Loops that move the same operands count together: any divisor of a product of extents is a
    product of divisors of them.
    """
    kinds = np.zeros(sides.shape, np.int64)
    for k, strides in enumerate(operands):
        kinds += np.where(strides > 0, 1 << k, 0)
    kinds[sides <= 1] = -1
    present = [int(k) for k in np.unique(kinds) if k >= 0] or [0]
    spans = [np.where(kinds == k, sides, 1).prod(0) for k in present]
    most = int(room.max())
    choices = np.array(_products(len(present), most), np.float64).reshape(-1, len(present))
    volume = choices.prod(1)[:, None] * pieces
    good = volume <= room
    for k, span in enumerate(spans):
        good &= span % choices[:, k : k + 1] == 0
    loads = []
    for k, weight in enumerate(weights):
        moved = np.ones(len(choices))
        for place, kind in enumerate(present):
            if kind >> k & 1:
                moved = moved * choices[:, place]
        loads.append(moved[:, None] * weight)
    if loads:
        good &= volume + np.minimum.reduce(loads) + (len(loads) > 1) <= room
    cost = sum(loads, np.zeros_like(volume)) / volume
    cost = cost + np.maximum(0, MIN_ACCUMULATORS - volume) - volume * 1e-6
    best = np.where(good, cost, np.inf).argmin(0)
    tile = np.ones_like(sides)
    for k, kind in enumerate(present):
        rest = choices[best, k]
        for place in reversed(range(len(sides))):
            part = np.where(
                kinds[place] == kind, np.gcd(rest.astype(int), sides[place].astype(int)), 1
            )
            tile[place] *= part
            rest = rest / part
    return np.where(good.any(0), tile, 0.0)


@cache
def _products(kinds: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Return all choices of a number for each kind whose product is at most `most`."""

    def grow(left: int, room: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
            return
        for side in range(1, room + 1):
            for rest in grow(left - 1, room // side):
                yield (side, *rest)

    return tuple(grow(kinds, most))


def _innermost_run(steps: Array) -> Array:
    run = np.ones_like(steps)
    product = np.ones(steps.shape[1])
    for place in reversed(range(len(steps))):
        run[place] = np.where(product < MIN_RUN, steps[place], 1)
        product = product * run[place]
    return run


def _short_run(steps: Array, sides: Array) -> Array:
    """Return the iterations of the reduction during which the innermost tile stays."""
    run = np.ones(steps.shape[1])
    met = np.zeros(steps.shape[1], bool)
    ended = np.zeros(steps.shape[1], bool)
    for place in reversed(range(len(steps))):
        ended = ended | (met & (sides[place] > 1))
        met = met | (steps[place] > 1)
        run = np.where(ended, run, run * steps[place])
    return run
