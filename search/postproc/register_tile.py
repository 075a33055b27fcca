"""The tile of accumulators that a reduction keeps in registers.

A reduction runs at the speed of the processor's multiply-add units only if its inner loop updates
enough independent accumulators to hide their latency, and few enough to keep all of them in
registers (register tiling: Jimenez, Llaberia and Fernandez, "Register Tiling in Nonrectangular
Iteration Spaces", 2002; the analytical choice: Low, Igual, Smith and Quintana-Orti, "Analytical
Modeling Is Enough for High-Performance BLIS", 2016).

The choice is made with arrays for many nests at once: postprocessing asks for one nest, features
for all candidates of a design.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from search.space_generator.moves import SHORTEST_VECTOR

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Which: TypeAlias = NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.int64]]
"""Some of the parts of a cover, for all nests, or one of them for each."""

SHORT_RUN: Final = 4
"""Iterations of the reduction below which loading and storing the accumulators dominates."""
MIN_RUN: Final = 16
"""Iterations of the reduction after which loading and storing the accumulators no longer shows."""
_AMPLE: Final = 1.25
"""How many times as many accumulators as hide the latency keep units busy although some updates
wait for their operands."""
_LOAD: Final = 0.1
"""The cost of a load beside a multiply-add, while there are no more loads than those."""
_BROADCAST: Final = 0.7
"""The cost of loading one element for all lanes beside a vector, which may lie in two lines."""
_CROWDED: Final = 0.05
"""The cost of leaving no register for anything else."""
_TAIL: Final = 0.02
"""The cost of a tail beyond the updates in it: its code."""
_MOST_OPERANDS: Final = 32
"""Loads for one update beside which no registers are left for a tile."""


def tiled_lanes(extents: Array, register: int) -> Array:
    """Return the lanes of the vectors that loops are cut into, 1 where they would be too short.

    A register holds `register` elements. Loops of fewer iterations get the next power of two; the
    last vector of a loop may stand over its end.
    """
    lanes = np.minimum(register, 2.0 ** np.ceil(np.log2(np.maximum(extents, 1))))
    return np.where(lanes * SHORTEST_VECTOR >= register, lanes, 1.0)


@dataclass(frozen=True, slots=True)
class Operand:
    """A load other than that of the accumulator; arrays are [loops, nests] and [nests]."""

    moves: Mask
    """The loops that it moves with."""
    registers: Array
    """The registers that it fills for one vector of accumulators."""
    is_vector: Mask
    """False where one element serves all lanes."""


@dataclass(frozen=True, slots=True)
class Nests:
    """Perfect nests of as many loops each, around one update; arrays are [loops, nests]."""

    spatial: Array
    """The iterations of each spatial loop, those over lanes counted in vectors; 1 for others."""
    steps: Array
    """The iterations of each reduction loop; 1 for others."""
    reduces: Mask
    """Which loops are reduction loops."""
    pieces: Array
    """The registers that a vector of accumulators fills [nests]."""
    operands: tuple[Operand, ...]

    def accumulators(self, sides: Array) -> Array:
        """Return how many registers the accumulators of tiles fill [nests]."""
        return np.asarray(sides.prod(0) * self.pieces)

    def fits(self, sides: Array, registers: Array) -> Mask:
        """Say whether accumulators and what has to be loaded beside them fit [nests]."""
        needed = _needed(self.accumulators(sides), self.loads(sides), self.operands)
        return np.asarray(needed <= registers)

    def loads(self, sides: Array) -> list[Array]:
        """Return the registers that each operand fills for all of a tile [nests]."""
        return [np.where(o.moves, sides, 1).prod(0) * o.registers for o in self.operands]


@dataclass(frozen=True, slots=True)
class Tiles:
    """The register tile of each nest, and the reduction that runs while the registers hold it."""

    found: Mask
    """Which nests have one [nests]."""
    sides: Array
    """The iterations of each loop that lie in the tile, in vectors; 1 for reduction loops."""
    run: Mask
    """The reduction loops that come to stand right around the tile."""
    stays: Mask
    """Nests whose loops keep their order [nests]: the tile lies inside of their reduction."""
    waste: Array
    """By how much the tails of the tiles lengthen each loop; 1 for none."""


def choose_tiles(nests: Nests, registers: Array, in_flight: int) -> Tiles:
    """Return the tiles for as many registers [nests]; none where no loop is to tile or none fits.

    With `in_flight` accumulators no update waits for another one. A tile that the order of the
    loops has already stays: what the loops inside some reduction loop span, if it fits the
    registers, has so many accumulators at least and keeps them for sixteen iterations, or for all;
    the outermost such reduction loop counts. Otherwise it is the cheapest
    of all that fit. A tile costs what its multiply-adds and loads take, more the fewer accumulators
    there are; where it does not divide the loops, their last iterations are a tile of their own,
    which costs as much as the accumulators it lacks would.

    With fewer accumulators updates wait for one another, and a processor finds others to do
    meanwhile only if the reduction is soon over. So an order that keeps accumulators for four
    iterations stays, and the tile is what the loops inside the last reduction loop span.
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


def _needed(accumulators: Array, loads: Sequence[Array], operands: Sequence[Operand]) -> Array:
    """Return the registers that a tile needs: one operand stays while others are loaded.

    What is loaded is a whole vector, of several registers where one does not hold its lanes: of
    one code for AVX2, 3 rows of 32 lanes (17 registers) ran at 70 GFLOPS, 2 (13) at 123, and 6 of
    16 (15) at 136.
    """
    if not loads:
        return accumulators
    held = []
    for stays, load in enumerate(loads):
        others = [operand.registers for k, operand in enumerate(operands) if k != stays]
        held.append(load + (np.maximum.reduce(others) if others else 0))
    return np.asarray(accumulators + np.minimum.reduce(held))


def _cheapest(nests: Nests, registers: Array, ample: float) -> tuple[Array, Array]:
    """Return the sides of the cheapest tile that fits, zeros where none does, and its waste.

    With `ample` accumulators all units are busy. Loops that move the same operands count together.
    """
    kinds = np.zeros(nests.spatial.shape, np.int64)
    for k, operand in enumerate(nests.operands):
        kinds += np.where(operand.moves, 1 << k, 0)
    kinds[nests.spatial <= 1] = -1
    present = [int(k) for k in np.unique(kinds) if k >= 0] or [0]
    most = int(max(1, (registers / nests.pieces).max()))
    choices = np.array(_products(len(present), most), np.int64).reshape(-1, len(present))
    covers = [_Cover.of(np.where(kinds == k, nests.spatial, 1), most) for k in present]
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
    needed = _needed(accumulators, loads, nests.operands)
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
    """The ways to cut loops that count together into parts of 1, 2, ... iterations."""

    sides: Array
    """The iterations of each loop in a part [loops, parts, nests]."""
    longest: NDArray[np.int64]
    """The loop that may be cut with a tail [nests]."""
    possible: Mask
    whole: Array
    """The parts of the longest loop that are whole, [parts, nests] like all that follows."""
    tail: Array
    """The share of a part that is left of it at the end."""
    parts: Array
    """The parts of the longest loop, with the fraction at the end."""

    @staticmethod
    def of(extents: Array, most: int) -> _Cover:
        """Divide the loops from the inside; what does not divide is left to the longest."""
        rest = np.broadcast_to(np.arange(1, most + 1)[:, None], (most, extents.shape[1])).copy()
        sides = np.ones((len(extents), *rest.shape))
        longest = extents.argmax(0)
        whole_extents = extents.astype(np.int64)
        for place in reversed(range(len(extents))):
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
        """Return by how much the tails of these parts lengthen the loops.

        A tail takes the share `floor` of the time of a whole part at least.
        """
        whole, tail, parts = (x[which] for x in (self.whole, self.tail, self.parts))
        return np.asarray((whole + np.where(tail > 0, np.maximum(tail, floor), 0)) / parts)


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


def _innermost_run(nests: Nests) -> Mask:
    """Return the innermost reduction loops that have enough iterations together.

    Loops of one iteration around them count as theirs.
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
    """Return the iterations of the reduction during which the innermost tile stays [nests]."""
    run = np.ones(nests.steps.shape[1])
    met = np.zeros(nests.steps.shape[1], bool)
    ended = np.zeros(nests.steps.shape[1], bool)
    for place in reversed(range(len(nests.steps))):
        ended = ended | (met & (nests.spatial[place] > 1))
        met = met | (nests.steps[place] > 1)
        run = np.where(ended, run, run * nests.steps[place])
    return run
