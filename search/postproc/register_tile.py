"""The choice of the tile of accumulators that a reduction keeps in registers.

A reduction reaches the peak of the multiply-add units only if its inner loop updates enough
independent accumulators to hide their latency, and few enough to keep all of them in registers
(register tiling: Jimenez, Llaberia and Fernandez, "Register Tiling in Nonrectangular Iteration
Spaces", 2002; the analytical choice: Low, Igual, Smith and Quintana-Orti, "Analytical Modeling Is
Enough for High-Performance BLIS", 2016).

It works on arrays of many nests: a postprocessor passes one nest, a feature extractor the nests of
all candidates of a design space.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.space_generator.vector_lanes import SHORTEST_VECTOR

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Which: TypeAlias = NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.int64]]
"""Indices of parts of a cover: the same parts for all nests, or one part for each nest."""

SHORT_RUN: Final = 4
"""The number of reduction iterations below which loading and storing the accumulators dominates."""
MIN_RUN: Final = 16
"""The number of reduction iterations above which loading and storing the accumulators is
negligible.
"""
_AMPLE: Final = 1.25
"""The factor by which accumulators should exceed the number that hides the latency, since some
updates wait for their operands."""
_LOAD: Final = 0.1
"""The cost of a load relative to a multiply-add, with at most as many loads as multiply-adds."""
_BROADCAST: Final = 0.7
"""The cost of a broadcast relative to the load of a vector, which may cross a cache line."""
_CROWDED: Final = 0.05
"""The cost of a tile that leaves no register free."""
_TAIL: Final = 0.02
"""The cost of the code of a tail, in addition to its updates."""
_MOST_OPERANDS: Final = 32
"""The maximum number of loads for an update; with more, no registers are left for a tile."""


def tiled_lanes(extents: Array, register: int) -> Array:
    """Return the number of lanes of the vectors for loops, 1 if vectors would be too short.

    A register holds `register` elements. A loop with fewer iterations gets the next power of two.
    The last vector of a loop may be partly filled.
    """
    lanes = np.minimum(register, 2.0 ** np.ceil(np.log2(np.maximum(extents, 1))))
    return np.where(lanes * SHORTEST_VECTOR >= register, lanes, 1.0)


@dataclass(frozen=True, slots=True)
class Operand:
    """A load of an update, without the load of the accumulator."""

    moves: Mask
    """The loops along which the load moves [loops, nests]."""
    registers: Array
    """The number of registers that it fills for one vector of accumulators [nests]."""
    is_vector: Mask
    """False if one element is broadcast to all lanes [nests]."""


@dataclass(frozen=True, slots=True)
class Nests:
    """Perfect nests around one update, all with the same number of loops."""

    spatial: Array
    """The iterations of each spatial loop, in vectors along the lanes; 1 for others [loops, nests].
    """
    steps: Array
    """The iterations of each reduction loop; 1 for others [loops, nests]."""
    reduces: Mask
    """True for reduction loops [loops, nests]."""
    pieces: Array
    """The number of registers that a vector of accumulators fills [nests]."""
    operands: tuple[Operand, ...]

    def accumulators(self, sides: Array) -> Array:
        """Return the number of registers that the accumulators of tiles fill [nests]."""
        return np.asarray(sides.prod(0) * self.pieces)

    def fits(self, sides: Array, registers: Array) -> Mask:
        """Return True if the accumulators and operands of a tile fit the registers [nests]."""
        needed = _needed_registers(self.accumulators(sides), self.loads(sides), self.operands)
        return np.asarray(needed <= registers)

    def loads(self, sides: Array) -> list[Array]:
        """Return the number of registers that each operand of a tile fills [nests]."""
        return [np.where(o.moves, sides, 1).prod(0) * o.registers for o in self.operands]


@dataclass(frozen=True, slots=True)
class Tiles:
    """The register tile of each nest, and the run: reduction loops directly around the tile."""

    found: Mask
    """True for nests with a tile [nests]."""
    sides: Array
    """The iterations of each loop in the tile, in vectors; 1 for reduction loops [loops, nests]."""
    run: Mask
    """True for the loops of the run [loops, nests]."""
    stays: Mask
    """True for nests whose loops keep their order: the tile is inside their reduction [nests]."""
    waste: Array
    """The factor by which tails of the tiles lengthen each loop [loops, nests]."""


def choose_tiles(nests: Nests, registers: Array, in_flight: int) -> Tiles:
    """Return the tiles for numbers of registers [nests]; none where no tile is possible.

    With `in_flight` accumulators no update waits for another one. If the loops inside a reduction
    loop already are a good tile, it is taken: it fits the registers, has at least `in_flight`
    accumulators, and keeps them for 16 iterations or the whole reduction. The outermost such
    reduction loop decides. Otherwise the cheapest fitting tile is taken. The cost of a tile is the
    time of its multiply-adds and loads, which grows if there are few accumulators. If a tile does
    not divide a loop, the tail is a smaller tile, whose cost is higher for want of accumulators.

    If even the cheapest tile has fewer than `in_flight` accumulators, updates wait for each other,
    and the processor overlaps them only with those after a short reduction. So an order that keeps
    accumulators for four iterations is kept, with the loops inside the last reduction loop as tile.
    """
    places = np.arange(len(nests.spatial))[:, None]
    total = nests.steps.prod(0)
    sides, run = np.ones_like(nests.spatial), np.zeros(nests.spatial.shape, bool)
    open_ = np.ones(nests.spatial.shape[1], bool)
    for place in np.flatnonzero(nests.reduces.any(1)):
        own = np.where(places >= place, nests.spatial, 1)
        own_run = (places >= place) & nests.reduces
        good = open_ & nests.reduces[place] & nests.fits(own, registers)
        good &= nests.accumulators(own) >= in_flight
        good &= np.where(own_run, nests.steps, 1).prod(0) >= np.minimum(MIN_RUN, total)
        sides, run = np.where(good, own, sides), np.where(good, own_run, run)
        open_ = open_ & ~good
    waste = np.ones_like(sides)
    stays = np.zeros_like(open_)
    found = ~open_
    if open_.any() and len(nests.operands) <= _MOST_OPERANDS:
        best, lengthened = _cheapest(nests, registers, _AMPLE * in_flight)
        some = open_ & (best[0] > 0)
        few = some & (nests.accumulators(best) < in_flight)
        last = np.where(nests.steps > 1, places, -1).max(0)
        near = np.where(places > last, nests.spatial, 1)
        stays = few & (_short_run(nests) >= SHORT_RUN) & nests.fits(near, registers)
        sides = np.where(some, np.where(stays, near, best), sides)
        waste = np.where(some & ~stays, lengthened, waste)
        run = np.where(some, _innermost_run(nests), run)
        found = found | (some & ~(stays & (near.prod(0) == 1)))
    return Tiles(found, sides, run, stays, waste)


def _needed_registers(
    accumulators: Array, loads: Sequence[Array], operands: Sequence[Operand]
) -> Array:
    """Return the number of registers of a tile: one operand stays while others are loaded.

    Loads are whole vectors, which fill several registers if they have more lanes than a register.
    Measured with AVX2: 3 rows of 32 lanes (17 registers) ran at 70 GFLOPS, 2 rows (13 registers) at
    123, and 6 rows of 16 lanes (15 registers) at 136.
    """
    if not loads:
        return accumulators
    held = []
    for stays, load in enumerate(loads):
        others = [operand.registers for k, operand in enumerate(operands) if k != stays]
        held.append(load + (np.maximum.reduce(others) if others else 0))
    return np.asarray(accumulators + np.minimum.reduce(held))


def _cheapest(nests: Nests, registers: Array, ample: float) -> tuple[Array, Array]:
    """Return the sides of the cheapest fitting tile, or zeros, and its waste.

    With `ample` accumulators all units are busy. Loops that move the same operands are treated as
    one loop.
    """
    kinds = np.zeros(nests.spatial.shape, np.int64)
    for k, operand in enumerate(nests.operands):
        kinds += np.where(operand.moves, 1 << k, 0)
    kinds[nests.spatial <= 1] = -1
    present = [int(k) for k in np.unique(kinds) if k >= 0] or [0]
    max_tile = int(max(1, (registers / nests.pieces).max()))
    choices = np.array(_products(len(present), max_tile), np.int64).reshape(-1, len(present))
    covers = [_Cover.of(np.where(kinds == k, nests.spatial, 1), max_tile) for k in present]
    accumulators = choices.prod(1)[:, None] * nests.pieces
    loads = []
    shares = np.zeros_like(accumulators)
    for k, operand in enumerate(nests.operands):
        moved = np.ones(len(choices))
        for place, kind in enumerate(present):
            if kind >> k & 1:
                moved = moved * choices[:, place]
        loads.append(moved[:, None] * operand.registers)
        shares = shares + loads[-1] * np.where(operand.is_vector, 1, _BROADCAST)
    needed = _needed_registers(accumulators, loads, nests.operands)
    good = needed <= registers
    relative = shares / accumulators
    cost = np.maximum(np.maximum(1, ample / accumulators), relative) + _LOAD * relative
    cost = cost + _CROWDED * (needed == registers)
    floor = np.minimum(1, ample / accumulators)
    for place, cover in enumerate(covers):
        which = choices[:, place] - 1
        good &= cover.possible[which]
        lengthened = cover.lengthened(which, floor)
        cost = cost * lengthened + _TAIL * (cover.tail[which] > 0)
    cost = cost - accumulators * 1e-6
    best = np.where(good, cost, np.inf).argmin(0)
    at = np.arange(len(best))
    sides, waste = np.ones_like(nests.spatial), np.ones_like(nests.spatial)
    for place, cover in enumerate(covers):
        which = choices[best, place] - 1
        sides *= cover.sides[:, which, at]
        lengthened = cover.lengthened((which, at), floor[best, at])
        waste[cover.longest, at] *= lengthened
    return np.where(good.any(0), sides, 0.0), waste


@dataclass(frozen=True, slots=True)
class _Cover:
    """The ways to split loops, treated as one loop, into parts of 1, 2, ... iterations."""

    sides: Array
    """The iterations of each loop in a part [loops, parts, nests]."""
    longest: NDArray[np.int64]
    """The loop that may be split with a tail [nests]."""
    possible: Mask
    """False if a part is longer than the longest loop [parts, nests]."""
    whole: Array
    """The number of whole parts of the longest loop [parts, nests]."""
    tail: Array
    """The length of the tail of the longest loop, as a fraction of a part [parts, nests]."""
    parts: Array
    """The number of parts of the longest loop, with the fraction of the tail [parts, nests]."""

    @staticmethod
    def of(extents: Array, most: int) -> _Cover:
        """Divide the loops from the inside; the longest loop takes the remaining factor."""
        rest = np.broadcast_to(np.arange(1, most + 1)[:, None], (most, extents.shape[1])).copy()
        sides = np.ones((len(extents), *rest.shape))
        longest = extents.argmax(0)
        whole_extents = extents.astype(np.int64)
        for place in np.flatnonzero((extents > 1).any(1))[::-1]:
            part = np.gcd(rest, whole_extents[place])
            sides[place] = part
            rest //= part
        at = np.arange(extents.shape[1])
        sides[longest, :, at] *= rest.T
        side, extent = sides[longest, :, at].T, extents[longest, at]
        whole = extent // side
        return _Cover(
            sides, longest, side <= extent, whole, (extent - whole * side) / side, extent / side
        )

    def lengthened(self, which: Which, floor: Array) -> Array:
        """Return the factor by which the tails of these parts lengthen the loops.

        A tail takes at least the fraction `floor` of the time of a whole part.
        """
        whole, tail, parts = (x[which] for x in (self.whole, self.tail, self.parts))
        return np.asarray((whole + np.where(tail > 0, np.maximum(tail, floor), 0)) / parts)


@cache
def _products(kinds: int, most: int) -> tuple[tuple[int, ...], ...]:
    """Return all tuples of `kinds` positive numbers whose product is at most `most`."""

    def grow(left: int, room: int) -> Iterator[tuple[int, ...]]:
        if left == 0:
            yield ()
            return
        for side in range(1, room + 1):
            for rest in grow(left - 1, room // side):
                yield (side, *rest)

    return tuple(grow(kinds, most))


def _innermost_run(nests: Nests) -> Mask:
    """Return the innermost reduction loops that have `MIN_RUN` iterations together.

    Loops of one iteration around them are included.
    """
    run = np.zeros(nests.steps.shape, bool)
    product = np.ones(nests.steps.shape[1])
    open_ = np.ones(nests.steps.shape[1], bool)
    for place in reversed(np.flatnonzero(nests.reduces.any(1))):
        here = nests.reduces[place]
        open_ = open_ & (~here | (product < MIN_RUN) | (nests.steps[place] <= 1))
        run[place] = open_ & here
        product = np.where(run[place], product * nests.steps[place], product)
    return run


def _short_run(nests: Nests) -> Array:
    """Return the number of reduction steps during which the innermost tile stays [nests]."""
    run = np.ones(nests.steps.shape[1])
    met = np.zeros(nests.steps.shape[1], bool)
    ended = np.zeros(nests.steps.shape[1], bool)
    for place in reversed(range(len(nests.steps))):
        ended = ended | (met & (nests.spatial[place] > 1))
        met = met | (nests.steps[place] > 1)
        run = np.where(ended, run, run * nests.steps[place])
    return run
