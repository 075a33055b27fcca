"""Sampling: numbers that the search may choose differently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from schedule.errors import ArgumentError
from schedule.instruction import LoopArg, Number, Numbers, Sampled, primitive
from schedule.random_state import RandomState
from schedule.sampling import perfect_tile, repair_tile
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.expr import IntImm


@primitive("SampleCategorical", pure=True)
def sample_categorical(
    state: ScheduleState,
    candidates: Sequence[int],
    probs: Sequence[float],
    *,
    rng: RandomState,
    decision: int | None = None,
) -> Number:
    """Choose one of `candidates`, each with its probability.

    The decision is the index of the chosen candidate.
    Raises ArgumentError unless there are as many probabilities as candidates, at least one, the
    candidates are of int32, the probabilities are finite, not negative and not all 0 (their sum may
    be another than 1), and the decision is an index of the candidates.
    """
    if len(candidates) != len(probs) or not candidates:
        reason = f"has {len(candidates)} candidates but there are {len(probs)} probabilities"
        raise ArgumentError("sample_categorical", "candidates", reason)
    for position, candidate in enumerate(candidates):
        if not -(1 << 31) <= candidate < 1 << 31:
            reason = "is beyond int32, the type of a sampled number"
            raise ArgumentError("sample_categorical", f"candidates[{position}]", reason)
    for position, weight in enumerate(probs):
        if not 0 <= weight < math.inf:
            reason = f"is {weight}; give a finite number of at least 0"
            raise ArgumentError("sample_categorical", f"probs[{position}]", reason)
    if not 0 < sum(probs) < math.inf:
        reason = f"has the sum {sum(probs)}; give at least one candidate a chance"
        raise ArgumentError("sample_categorical", "probs", reason)
    index = rng.categorical(probs) if decision is None else decision
    if not 0 <= index < len(candidates):
        reason = f"is {index}, no index of {len(candidates)} candidates"
        raise ArgumentError("sample_categorical", "decision", reason)
    return Sampled(candidates[index], index)


@primitive("SamplePerfectTile", pure=True)
def sample_perfect_tile(
    state: ScheduleState,
    loop: LoopArg,
    n: int,
    max_innermost_factor: int = 16,
    *,
    rng: RandomState,
    decision: Sequence[int] | None = None,
) -> Numbers:
    """Choose `n` factors whose product is the extent of `loop`.

    The last factor is at most `max_innermost_factor` (-1: no limit). The decision is the list of
    factors; one that does not fit the extent is repaired, innermost factor first. For an extent
    that is not constant the first factor is None, meaning "infer", and the others are 1.
    Raises ArgumentError unless there are 1 to 64 parts (those of the decision, if there is one) and
    the limit is -1, or at least 1 with several parts; also for a loop without iterations.
    """
    method = "sample_perfect_tile"
    count = checked_parts(method, loop, n, decision)
    if max_innermost_factor != -1 and max_innermost_factor < 1:
        reason = f"is {max_innermost_factor}; it is at least 1, or -1 for no limit"
        raise ArgumentError(method, "max_innermost_factor", reason)
    extent = loop.loop.extent
    if not isinstance(extent, IntImm):
        return Sampled([None] + [1] * (count - 1), [-1] + [1] * (count - 1))
    if decision is None and n == 1 and max_innermost_factor != -1 and extent.value > 1:
        reason = "needs at least 2 parts; pass -1 for no limit"
        raise ArgumentError(method, "max_innermost_factor", reason)
    if decision is None:
        tile = perfect_tile(rng, extent.value, n, max_innermost_factor)
    else:
        tile = repair_tile(extent.value, decision)
    return Sampled(tile, tuple(tile))


MOST_PARTS: Final = 64
"""No extent of int64 has more factors above 1."""


def checked_parts(method: str, loop: StmtSRef, n: int, decision: Sequence[int] | None) -> int:
    """Return how many parts a tile has: those of the decision if there is one, else `n`.

    Raises ArgumentError where there can be no such tile.
    """
    count = n if decision is None else len(decision)
    if not 1 <= count <= MOST_PARTS:
        name = "n" if decision is None else "decision"
        reason = f"gives {count} parts: a tile has at least 1 part and at most {MOST_PARTS}"
        raise ArgumentError(method, name, reason)
    extent = loop.loop.extent
    if isinstance(extent, IntImm) and extent.value < 1:
        raise ArgumentError(method, "loop", f"has extent {extent.value}, which has no factors")
    return count
