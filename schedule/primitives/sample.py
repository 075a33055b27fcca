"""Sampling: numbers that the search may choose differently."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.errors import ArgumentError
from schedule.instruction import LoopArg, Number, Numbers, Sampled, primitive
from schedule.random_state import RandomState
from schedule.sampling import perfect_tile, repair_tile
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
    Raises ValueError unless there are as many probabilities as candidates, at least one, and the
    decision is an index of them.
    """
    if len(candidates) != len(probs) or not candidates:
        reason = f"has {len(candidates)} candidates but there are {len(probs)} probabilities"
        raise ArgumentError("sample_categorical", "candidates", reason)
    index = rng.categorical(probs) if decision is None else int(decision)
    if not 0 <= index < len(candidates):
        reason = f"is {index}, no index of {len(candidates)} candidates"
        raise ArgumentError("sample_categorical", "decision", reason)
    return Sampled(int(candidates[index]), index)


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
    Raises ValueError for fewer than 1 part, or a limit with 1 part.
    """
    extent = loop.loop.extent
    count = n if decision is None else len(decision)
    if count < 1:
        raise ArgumentError("sample_perfect_tile", "n", f"is {count}: a tile has at least 1 part")
    if not isinstance(extent, IntImm):
        return Sampled([None] + [1] * (count - 1), [-1] + [1] * (count - 1))
    if decision is None:
        tile = perfect_tile(rng, extent.value, n, max_innermost_factor)
    else:
        tile = repair_tile(extent.value, decision)
    return Sampled(tile, tuple(tile))
