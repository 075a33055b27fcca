"""Moving a factor from one tile level to another."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedule import Instruction, Trace
from schedule.random_state import RandomState
from search.mutator.mutator import Mutator


class MutateTileSize(Mutator):
    """Picks a sampled tile, divides one of its parts by a factor and multiplies another with it.

    The innermost part stays within the limit of the instruction.
    """

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a trace with one other tile, None if there is no tile to change."""
        tiles = [
            inst
            for inst, decision in trace.decisions.items()
            if inst.kind.name == "SamplePerfectTile" and len(decision) >= 2 and prod(decision) >= 2
        ]
        if not tiles:
            return None
        inst = tiles[rand_state.uniform_int(0, len(tiles))]
        decision = [int(part) for part in trace.decisions[inst]]
        changed = _moved(decision, _innermost_limit(inst), rand_state)
        return None if changed is None else trace.with_decision(inst, changed, remove_postproc=True)


def _moved(tile: Sequence[int], limit: int, rand_state: RandomState) -> list[int] | None:
    """Return the tile with one factor moved, None if no move is within the limit."""
    moves = [
        (source, target, factor)
        for source, part in enumerate(tile)
        for target in range(len(tile))
        if target != source
        for factor in _divisors(part)
        if target != len(tile) - 1 or limit < 0 or tile[target] * factor <= limit
    ]
    if not moves:
        return None
    # First the parts, then the factor: a part with many divisors is no likelier than one with few.
    pairs = list(dict.fromkeys((source, target) for source, target, _ in moves))
    pair = pairs[rand_state.uniform_int(0, len(pairs))]
    factors = [factor for source, target, factor in moves if (source, target) == pair]
    factor = factors[rand_state.uniform_int(0, len(factors))]
    result = list(tile)
    result[pair[0]] //= factor
    result[pair[1]] *= factor
    return result


def _divisors(number: int) -> list[int]:
    """Return the divisors above 1."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({d for s in small for d in (s, number // s)} - {1})


def _innermost_limit(inst: Instruction) -> int:
    names = [param.name for param in inst.kind.params]
    return int(inst.values[names.index("max_innermost_factor")])
