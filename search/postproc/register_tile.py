"""Which tile of accumulators a reduction keeps in registers.

A reduction runs at the speed of the processor's multiply-add units only if its inner loop updates
enough independent accumulators to hide their latency, and few enough to keep all of them in
registers (register tiling: Jimenez, Llaberia and Fernandez, "Register Tiling in Nonrectangular
Iteration Spaces", 2002; the analytical choice: Low, Igual, Smith and Quintana-Orti, "Analytical
Modeling Is Enough for High-Performance BLIS", 2016).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MIN_ACCUMULATORS: Final = 8
"""Two multiply-add units with a latency of four cycles keep this many updates in flight."""
SHORT_RUN: Final = 4
"""Iterations of the reduction below which loading and storing the accumulators dominates."""
MIN_RUN: Final = 16
"""Iterations of the reduction after which loading and storing the accumulators no longer shows."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One of the loops around an update."""

    extent: int
    reduces: bool


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile, and the reduction that runs while the registers hold it."""

    sides: tuple[int, ...]
    """How many iterations of each loop of the nest lie in the tile; 1 for reduction loops."""
    run: tuple[int, ...]
    """The places of the reduction loops right around the tile; none if their order stays."""


@dataclass(frozen=True, slots=True)
class Nest:
    """A perfect nest around one update.

    The loop over the lanes of a vector is not one of `loops`: `pieces` says how many registers a
    vector of accumulators fills. `operands` are the loads other than that of the accumulator: for
    each, the places in `loops` of those that it moves with, and the registers that it fills.
    """

    loops: tuple[Loop, ...]
    pieces: int
    operands: tuple[tuple[frozenset[int], int], ...]

    def steps(self, run: Sequence[int]) -> int:
        """Return how many iterations some of the loops have together."""
        return math.prod(self.loops[k].extent for k in run)

    def reduction(self) -> list[int]:
        """Return the places of the reduction loops."""
        return [k for k, loop in enumerate(self.loops) if loop.reduces]

    def accumulators(self, sides: Sequence[int]) -> int:
        """Return how many registers the accumulators of a tile fill."""
        return math.prod(sides) * self.pieces

    def fits(self, sides: Sequence[int], registers: int) -> bool:
        """Say whether accumulators, the values that all of them share and one more fit."""
        held = min(self._operand_registers(sides), default=0)
        more = 1 if len(self.operands) > 1 else 0
        return self.accumulators(sides) + held + more <= registers

    def cost(self, sides: Sequence[int]) -> float:
        """Return loads for each update, and what too few accumulators lose."""
        accumulators = self.accumulators(sides)
        loads = sum(self._operand_registers(sides))
        return loads / accumulators + max(0, MIN_ACCUMULATORS - accumulators)

    def _operand_registers(self, sides: Sequence[int]) -> list[int]:
        return [math.prod(sides[k] for k in moves) * n for moves, n in self.operands]


@lru_cache(maxsize=4096)
def choose_tile(nest: Nest, registers: int) -> Tile | None:
    """Return the tile that a nest gets; None if there are no loops to tile, or no tile fits.

    A tile that the order of the loops has already stays: what the loops inside some reduction loop
    span, if it fits the registers, has at least eight accumulators and keeps them for sixteen
    iterations, or for all; the outermost such reduction loop counts. Otherwise it is the tile with
    the fewest loads for each update, of all whose sides divide the loops; among equals the largest.

    With fewer than eight accumulators updates wait for one another, and a processor finds others to
    do meanwhile only if the reduction is soon over. So an order that keeps accumulators for four
    iterations stays, and the tile is what the loops inside the last reduction loop span.
    """
    own = _own_tile(nest, registers)
    if own is not None:
        return own
    best = min(
        (s for s in _all_sides(nest.loops, registers // nest.pieces) if nest.fits(s, registers)),
        key=lambda sides: (nest.cost(sides), -math.prod(sides)),
        default=None,
    )
    if best is None:
        return None
    if nest.accumulators(best) < MIN_ACCUMULATORS:
        sides, run = _innermost(nest)
        if run >= SHORT_RUN and nest.fits(sides, registers):
            return Tile(sides, ()) if math.prod(sides) > 1 else None
    return Tile(best, _innermost_run(nest))


def _innermost(nest: Nest) -> tuple[tuple[int, ...], int]:
    """Return what the loops inside the last reduction loop span, and for how many iterations."""
    last = max((k for k in nest.reduction() if nest.loops[k].extent > 1), default=-1)
    sides = tuple(
        1 if loop.reduces or k < last else loop.extent for k, loop in enumerate(nest.loops)
    )
    run = 1
    for loop in reversed(nest.loops[: last + 1]):
        if loop.reduces:
            run *= loop.extent
        elif loop.extent > 1:
            break
    return sides, run


def _own_tile(nest: Nest, registers: int) -> Tile | None:
    """Return the tile inside the outermost reduction loop that makes it a good one."""
    reduction = nest.reduction()
    needed = min(MIN_RUN, nest.steps(reduction))
    for place in reduction:
        run = [k for k in reduction if k >= place]
        sides = tuple(
            1 if loop.reduces or k < place else loop.extent for k, loop in enumerate(nest.loops)
        )
        enough = nest.accumulators(sides) >= MIN_ACCUMULATORS and nest.steps(run) >= needed
        if enough and nest.fits(sides, registers):
            return Tile(sides, tuple(run))
    return None


def _innermost_run(nest: Nest) -> tuple[int, ...]:
    """Return the innermost reduction loops that have enough iterations together.

    Loops of one iteration around them count as theirs.
    """
    run: list[int] = []
    for place in reversed(nest.reduction()):
        if nest.steps(run) >= MIN_RUN and nest.loops[place].extent > 1:
            break
        run.insert(0, place)
    return tuple(run)


def _all_sides(loops: Sequence[Loop], room: int) -> Iterator[tuple[int, ...]]:
    """Yield the sides of all tiles of at most `room` iterations that divide the spatial loops."""
    if not loops:
        yield ()
        return
    first, rest = loops[0], loops[1:]
    for side in range(1, 2 if first.reduces else min(first.extent, room) + 1):
        if first.extent % side == 0:
            for inner in _all_sides(rest, room // side):
                yield (side, *inner)
