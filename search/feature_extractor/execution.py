"""How a nest runs once it is postprocessed: which of its iterations are lanes, registers, threads.

The features describe a program as the search decides on it, before postprocessing, for all programs
of a structure at once. What the postprocessors for CPUs will make of its loops follows from their
extents and strides: `RewriteParallelVectorizeUnroll` fuses the outer loops to run in parallel and
the inner ones that are contiguous to vectors, `RewriteRegisterTile` brings the tile of accumulators
into registers. Here the same choices are made with arrays. Programs that were not postprocessed by
these get a description that says what they could become, which serves to tell them apart as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from search.feature_extractor.nests import (
    FIRST_EXTENT,
    PARALLEL,
    REGISTERS,
    UNROLL,
    VECTORIZE,
    Drives,
    Numbers,
    ProgramShape,
    StoreShape,
    Term,
)
from search.postproc.register_tile import MIN_ACCUMULATORS, MIN_RUN, SHORT_RUN
from tensorir.stmt import ForKind

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def nests(program: ProgramShape, numbers: Numbers) -> list[Nest]:
    """Return the nests of all stores, with allocations shrunk to what is live."""
    found = [Nest(program, store, numbers) for store in program.stores]
    live: dict[int, Array] = {}
    for nest in found:
        for buffer, span in zip(nest.buffers, nest.spans(), strict=True):
            if not program.buffers[buffer].is_argument:
                live[buffer] = np.maximum(live.get(buffer, 1.0), span)
    for nest in found:
        nest.shapes = [live.get(b, s) for b, s in zip(nest.buffers, nest.shapes, strict=True)]
    return found


class Nest:
    """One store of all programs: arrays [loops, programs] and [dims, loops, programs]."""

    def __init__(self, program: ProgramShape, store: StoreShape, numbers: Numbers) -> None:
        self.store = store
        self.count = numbers.shape[1]
        self.extents: Array = numbers[[FIRST_EXTENT + loop for loop in store.loops]]
        self.limits = numbers[:FIRST_EXTENT]
        self.drives = [program.drives[loop] for loop in store.loops]
        self.kinds = [program.kinds[loop] for loop in store.loops]
        self.item_bytes = [program.buffers[a.buffer].item_bytes for a in store.accesses]
        self.shapes: list[Array] = []
        """For each access, the extents of its buffer; of an allocated one, of what is live."""
        self.steps: list[Array] = []
        """For each access, how a step of a loop moves each index."""
        self.strides: list[Array] = []
        """For each access, by how many elements of memory a step of a loop moves it."""
        self.direct: list[Array] = []
        """The same as far as indices are sums over loops: no quotients and remainders."""
        self.moves: list[Array] = []
        """The same, not 0 and not 1 where quotients and remainders move an access."""
        loops = len(store.loops)
        moving = self.extents > 1
        for access in store.accesses:
            first = FIRST_EXTENT + len(program.kinds)
            first += sum(b.dims for b in program.buffers[: access.buffer])
            dims = program.buffers[access.buffer].dims
            shape = numbers[first : first + dims]
            rows = dims + len(access.terms)
            steps = numbers[access.steps : access.steps + rows * loops]
            steps = steps.reshape(rows, loops, self.count) * moving
            direct = _strides(steps[:dims], shape)
            divided = np.zeros((loops, self.count), bool)
            for term, inside in zip(access.terms, steps[dims:], strict=True):
                steps[term.dim] += term.factor * _divided(inside, self.extents, term)
                divided |= inside != 0
            steps = steps[:dims]
            self.shapes.append(shape)
            self.steps.append(np.abs(steps))
            self.strides.append(_strides(steps, shape))
            self.direct.append(direct)
            self.moves.append(np.where(divided, np.maximum(direct, _SOMEHOW), direct))

        self.buffers = [access.buffer for access in store.accesses]
        same = [s for s in program.stores if s.loops[:1] == store.loops[:1] and s.updates]
        self.unroll: Array = np.maximum(self.limits[UNROLL] if same else 0.0, np.zeros(self.count))
        """How many statements loops may be written out to; the pragma is for reductions."""

    def spans(self) -> list[Array]:
        """Return for each access the extents of what it touches in all iterations."""
        reach = self.extents - 1
        return [
            np.minimum(1 + (steps * reach).sum(1), shape)
            for steps, shape in zip(self.steps, self.shapes, strict=True)
        ]

    @property
    def loops(self) -> range:
        """The places of the loops."""
        return range(len(self.store.loops))


_SOMEHOW: Final = 1.5


def _strides(steps: Array, shape: Array) -> Array:
    size = np.ones(steps.shape[-1])
    total = np.zeros(steps.shape[1:])
    for dim in reversed(range(len(steps))):
        total += steps[dim] * size
        size = size * shape[dim]
    return np.abs(total)


def _divided(steps: Array, extents: Array, term: Term) -> Array:
    """Return how far steps of loops move a quotient or remainder, on average.

    A loop that stays within one quotient does not move it.
    """
    steps = np.abs(steps)
    if term.is_quotient:
        return np.where(steps * extents <= term.divisor, 0, steps / term.divisor)
    return np.where(steps % term.divisor == 0, 0, steps)


@dataclass(slots=True)
class Execution:
    """How the iterations of each loop are spent; arrays [loops, programs] whose product is all.

    From outside: `outer` iterations, the `run` of reduction steps during which a tile stays in
    registers, the `inner` iterations of that tile, which are written out, and `lanes` of vectors.
    """

    outer: Array
    run: Array
    inner: Array
    lanes: Array
    parallel: Array
    """The iterations of the parallel loop [programs]."""
    fused: Array
    """Of how many loops of several iterations the parallel one is made [programs]."""
    register: int
    """How many elements of the widest accessed type a vector register holds."""

    def of_loops(self, places: Sequence[int]) -> Execution:
        """Return how the iterations of some of the loops are spent."""
        at = list(places)
        return Execution(
            self.outer[at],
            self.run[at],
            self.inner[at],
            self.lanes[at],
            self.parallel,
            self.fused,
            self.register,
        )

    @property
    def vector(self) -> Array:
        """The lanes of a vector [programs]."""
        return np.asarray(self.lanes.prod(0))

    @property
    def pieces(self) -> Array:
        """How many registers a vector fills [programs]."""
        return np.ceil(self.vector / self.register)

    @property
    def tile(self) -> Array:
        """The vectors of a tile [programs]."""
        return np.asarray(self.inner.prod(0))


def execution(nest: Nest, vector_bits: int, vector_registers: int) -> Execution:
    """Return how a nest runs on a CPU with such vector registers."""
    widest = max(nest.item_bytes, default=4)
    register = max(1, vector_bits // (8 * widest))
    is_parallel, lanes = _parallel_and_lanes(nest)
    inner = np.ones_like(nest.extents)
    for place in nest.loops:
        if nest.kinds[place] is ForKind.UNROLLED:
            inner[place] = nest.extents[place]
    run = np.ones_like(nest.extents)
    parallel = np.where(is_parallel, nest.extents, 1)
    fused = (is_parallel & (nest.extents > 1)).sum(0)
    result = Execution(nest.extents, run, inner, lanes, parallel.prod(0), fused, register)
    if nest.store.updates and nest.store.intrinsic_from == len(nest.loops):
        _tile(nest, result, is_parallel, vector_registers)
    _vectorize_innermost(nest, result)
    result.outer = nest.extents / (result.run * result.inner * result.lanes)
    return result


def _vectorize_innermost(nest: Nest, result: Execution) -> None:
    """Make vectors of innermost loops, as the compiler does where nobody asked for them."""
    open_ = (result.vector == 1) & (result.tile == 1)
    for place in reversed(nest.loops):
        if not nest.store.single[place] or nest.kinds[place] is not ForKind.SERIAL:
            break
        extent, target = nest.extents[place], nest.strides[0][place]
        short = (extent % 4 == 0) & (extent <= _LONGEST) & (target == 1)
        able = target == 1 if not nest.store.is_reordered else target <= 1
        # The compiler's own vectors are of loops that no pragma has written out.
        left = able & (extent > nest.unroll)
        able = open_ & (extent > 1) & (short | left)
        for strides in nest.strides[1:]:
            able &= strides[place] <= 1
        lanes = np.where(short, extent, np.minimum(extent, result.register))
        result.lanes[place] = np.where(able, lanes, result.lanes[place])
        result.run[place] = np.where(able, 1, result.run[place])
        open_ = open_ & (extent == 1)
        if not open_.any():
            break


_LONGEST = 64


def _parallel_and_lanes(nest: Nest) -> tuple[Mask, Array]:
    """Return which loops become the parallel one, and the lanes that each loop gives."""
    extents, single = nest.extents, nest.store.single
    is_parallel = np.zeros(extents.shape, bool)
    limit = nest.limits[PARALLEL]
    alive = limit >= 0
    product = np.ones(nest.count)
    for place in nest.loops:
        if nest.kinds[place] is ForKind.PARALLEL:
            is_parallel[place] = True
            continue
        if nest.drives[place] is not Drives.SPATIAL or nest.kinds[place] is not ForKind.SERIAL:
            break
        is_parallel[place] = alive
        product = np.where(alive, product * extents[place], product)
        alive = alive & (product <= limit)
        if not single[place] or not alive.any():
            break
    fusible = _fusible(nest)
    lanes = np.ones_like(extents)
    limit = nest.limits[VECTORIZE]
    alive = limit >= 0
    product = np.ones(nest.count)
    for place in reversed(nest.loops):
        if nest.kinds[place] is ForKind.VECTORIZED:
            lanes[place] = extents[place]
            continue
        serial = nest.kinds[place] is ForKind.SERIAL and single[place]
        if not serial or nest.drives[place] is not Drives.SPATIAL:
            break
        product = product * extents[place]
        alive = alive & fusible[place] & (product <= limit)
        if not alive.any():
            break
        lanes[place] = np.where(alive, extents[place], 1)
        is_parallel[place] &= ~alive
    return is_parallel, lanes


def _fusible(nest: Nest) -> Mask:
    """Return for each loop whether it and those inside walk through memory without a gap."""
    alive = np.ones((len(nest.strides), nest.count), bool)
    expected = np.full(alive.shape, -1.0)
    result = np.zeros(nest.extents.shape, bool)
    strides = np.array(nest.direct)
    for place in reversed(nest.loops):
        stride = strides[:, place]
        still = stride == 0
        first = (stride == 1) | (place == len(nest.store.loops) - 1)
        alive &= still | np.where(expected < 0, first, stride == expected)
        expected = np.where(still, expected, stride * nest.extents[place])
        result[place] = alive.all(0)
        if not result[place].any():
            break
    return result


# ------------------------------------------------------------------------------- tiles of registers


def _tile(nest: Nest, result: Execution, is_parallel: Mask, registers: int) -> None:
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
    """Return which loops are in the perfect nest around the store whose order may change."""
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


_SHORTEST = 4


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
    """Return for how many iterations what is inside the last reduction loop stays."""
    run = np.ones(steps.shape[1])
    met = np.zeros(steps.shape[1], bool)
    ended = np.zeros(steps.shape[1], bool)
    for place in reversed(range(len(steps))):
        ended = ended | (met & (sides[place] > 1))
        met = met | (steps[place] > 1)
        run = np.where(ended, run, run * steps[place])
    return run
