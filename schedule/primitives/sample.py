"""Sampling: numbers that the search may choose differently."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from schedule.decisions.domain import Decision, DecisionDomain, NoDecision
from schedule.decisions.tiles import (
    InferredTileDomain,
    PartitionedTileDomain,
    PerfectTileDomain,
)
from schedule.instruction import ChosenNumber, ChosenNumbers, LoopArg, primitive
from schedule.random_state import RandomState
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.expr import IntImm

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class CategoricalDomain(DecisionDomain):
    """The indices of the candidates with a positive probability."""

    candidates: tuple[int, ...]
    probs: tuple[float, ...]

    def __iter__(self) -> Iterator[Decision]:
        return (index for index, weight in enumerate(self.probs) if weight > 0)

    def sample(self, rng: RandomState) -> Decision:
        """Draw an index, each with its probability."""
        return rng.categorical(self.probs)

    def step(self, decision: Decision, rng: RandomState) -> Decision | None:
        """Draw one of the other indices by the remaining probabilities."""
        others = self.neighbours(decision)
        weights = [self.probs[k] for k in others]  # type: ignore[index]
        return others[rng.categorical(weights)] if others else None

    def repair(self, decision: Any) -> Decision:
        """Return the decision; NoDecision unless it is an index of a candidate."""
        index = int(decision)
        if not 0 <= index < len(self.candidates):
            raise NoDecision(
                "decision", f"is {index}; it must be an index in [0, {len(self.candidates)})"
            )
        return index

    def outputs(self, decision: int) -> Any:
        """Return the candidate."""
        return self.candidates[decision]

    def numbers(self, decision: int) -> tuple[float, ...]:
        """Return the candidate."""
        return (float(self.candidates[decision]),)

    def label(self, decision: int) -> str:
        """Return the candidate."""
        return str(self.candidates[decision])

    def __str__(self) -> str:
        return ", ".join(self.label(index) for index, p in enumerate(self.probs) if p > 0)


@primitive("SampleCategorical", pure=True)
def sample_categorical(
    state: ScheduleState, candidates: Sequence[int], probs: Sequence[float]
) -> ChosenNumber:
    """Choose one of `candidates`, each with its probability.

    The decision is the index of the chosen candidate.
    Raises ArgumentError unless there are as many probabilities as candidates, at least one, the
    candidates are of int32, the probabilities are finite, not negative and not all 0, and the
    decision is an index of the candidates. Probabilities with another sum than 1 are weights, as in
    TVM, whose traces have rounded ones: each is divided by the sum, and a warning is logged.
    """
    if len(candidates) != len(probs) or not candidates:
        reason = f"has {len(candidates)} candidates but there are {len(probs)} probabilities"
        raise NoDecision("candidates", reason)
    for position, candidate in enumerate(candidates):
        if not -(1 << 31) <= candidate < 1 << 31:
            reason = "is beyond int32, the type of a sampled number"
            raise NoDecision(f"candidates[{position}]", reason)
    for position, weight in enumerate(probs):
        if not 0 <= weight < math.inf:
            reason = f"is {weight}; give a finite number of at least 0"
            raise NoDecision(f"probs[{position}]", reason)
    total = sum(probs)
    if not 0 < total < math.inf:
        reason = f"has the sum {total}; give at least one candidate a positive probability"
        raise NoDecision("probs", reason)
    if abs(total - 1) > _ROUNDING:
        _warn_of_sum(tuple(probs))
    return CategoricalDomain(tuple(candidates), tuple(probs))


_ROUNDING: Final = 1e-6
"""The tolerance of the sum of probabilities, which may have been computed in float32."""


@lru_cache(256)
def _warn_of_sum(probs: tuple[float, ...]) -> None:
    """Log that probabilities are divided by their sum, once for a search that replays them."""
    total = sum(probs)
    text = "sample_categorical: probs %s has the sum %.6g, not 1; each is divided by that"
    _LOG.warning(text, list(probs), total)


@primitive("SamplePerfectTile", pure=True)
def sample_perfect_tile(
    state: ScheduleState, loop: LoopArg, n: int, max_innermost_factor: int = 16
) -> ChosenNumbers:
    """Choose `n` factors whose product is the extent of `loop`.

    The last factor is at most `max_innermost_factor` (-1: no limit). The decision is the list of
    factors; a list that does not fit the extent is repaired, innermost factor first. For an extent
    that is not constant the first factor is None, meaning "infer", and the others are 1.
    Raises ArgumentError unless there are 1 to 64 parts (those of the decision, if there is one) and
    the limit is -1, or at least 1 with several parts; also for a loop without iterations.
    """
    if max_innermost_factor != -1 and max_innermost_factor < 1:
        reason = f"is {max_innermost_factor}; it must be at least 1, or -1 for no limit"
        raise NoDecision("max_innermost_factor", reason)
    extent = _constant_extent(loop)
    if extent is None:
        return InferredTileDomain(n)
    return PerfectTileDomain(extent, n, max_innermost_factor)


@primitive("SamplePartitionedTile", pure=True)
def sample_partitioned_tile(
    state: ScheduleState,
    loop: LoopArg,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
) -> ChosenNumbers:
    """Choose `n` factors of a loop's extent, the inner ones a multiple of `innerpart_factor`.

    The product of the factors from `partition_pos` on is that multiple. The decision is the list of
    factors; a list that does not fit is repaired. For an extent that is not constant, or not a
    multiple of `innerpart_factor`, the first factor is -1 and the others are 1.

    Raises ArgumentError unless there are 1 to 64 parts (those of the decision, if there is one) and
    the position and the factor are valid; also for a loop without iterations.
    """
    extent = _constant_extent(loop)
    if innerpart_factor < 1:
        reason = f"is {innerpart_factor}; a factor must be at least 1"
        raise NoDecision("innerpart_factor", reason)
    if extent is None or extent % innerpart_factor:
        return InferredTileDomain(n, -1, partition_pos, innerpart_factor)
    return PartitionedTileDomain(extent, n, partition_pos, innerpart_factor)


def _constant_extent(loop: StmtSRef) -> int | None:
    """Return the extent of a loop, None if it is not constant; NoDecision if it is below 1."""
    extent = loop.loop.extent
    if not isinstance(extent, IntImm):
        return None
    if extent.value < 1:
        raise NoDecision("loop", f"has extent {extent.value}, which has no factors")
    return extent.value
