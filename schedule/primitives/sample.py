"""Sampling: numbers that the search may choose differently."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from schedule.decisions.domain import Decision, DecisionDomain
from schedule.decisions.tiles import (
    MOST_PARTS,
    InferredTileDomain,
    PartitionedTileDomain,
    PerfectTileDomain,
)
from schedule.errors import ArgumentError
from schedule.instruction import LoopArg, Number, Numbers, Sampled, primitive
from schedule.random_state import RandomState
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.expr import IntImm


@dataclass(frozen=True)
class CategoricalDomain(DecisionDomain):
    """The indices of the candidates that have a chance."""

    candidates: tuple[int, ...]
    probs: tuple[float, ...]

    def __iter__(self) -> Iterator[Decision]:
        return (index for index, weight in enumerate(self.probs) if weight > 0)

    def sample(self, rng: RandomState) -> Decision:
        """Draw an index, each with its probability."""
        return rng.categorical(self.probs)

    def step(self, decision: Decision, rng: RandomState) -> Decision | None:
        """Draw one of the other indices by the probabilities that are left."""
        others = self.neighbours(decision)
        weights = [self.probs[k] for k in others]  # type: ignore[index]
        return others[rng.categorical(weights)] if others else None

    def repair(self, decision: Any) -> Decision:
        """Return the decision; ArgumentError if it is no index of the candidates."""
        index = int(decision)
        if not 0 <= index < len(self.candidates):
            reason = f"is {index}; it must be an index in [0, {len(self.candidates)})"
            raise ArgumentError("sample_categorical", "decision", reason)
        return index

    def numbers(self, decision: Decision) -> tuple[float, ...]:
        """Return the candidate."""
        assert isinstance(decision, int)
        return (float(self.candidates[decision]),)

    def label(self, decision: Decision) -> str:
        """Return the candidate."""
        assert isinstance(decision, int)
        return str(self.candidates[decision])

    def __str__(self) -> str:
        return ", ".join(map(self.label, self))


def categorical_domain(
    state: ScheduleState, candidates: Sequence[int], probs: Sequence[float]
) -> CategoricalDomain:
    """Return the candidates to choose from; ArgumentError for what cannot be chosen from."""
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
    return CategoricalDomain(tuple(candidates), tuple(probs))


@primitive("SampleCategorical", pure=True, domain=categorical_domain)
def sample_categorical(
    state: ScheduleState,
    candidates: Sequence[int],
    probs: Sequence[float],
    *,
    domain: CategoricalDomain,
    rng: RandomState,
    decision: int | None = None,
) -> Number:
    """Choose one of `candidates`, each with its probability.

    The decision is the index of the chosen candidate.
    Raises ArgumentError unless there are as many probabilities as candidates, at least one, the
    candidates are of int32, the probabilities are finite, not negative and not all 0 (their sum may
    be another than 1), and the decision is an index of the candidates.
    """
    index = domain.decide(rng, decision)
    assert isinstance(index, int)
    return Sampled(candidates[index], index)


def perfect_tile_domain(
    state: ScheduleState, loop: StmtSRef, n: int, max_innermost_factor: int = 16
) -> PerfectTileDomain | InferredTileDomain:
    """Return the tiles of a loop; ArgumentError for a limit that cannot be, or no iterations."""
    if max_innermost_factor != -1 and max_innermost_factor < 1:
        reason = f"is {max_innermost_factor}; it must be at least 1, or -1 for no limit"
        raise ArgumentError("sample_perfect_tile", "max_innermost_factor", reason)
    extent = constant_extent("sample_perfect_tile", loop)
    if extent is None:
        return InferredTileDomain(n)
    return PerfectTileDomain(extent, n, max_innermost_factor)


@primitive("SamplePerfectTile", pure=True, domain=perfect_tile_domain)
def sample_perfect_tile(
    state: ScheduleState,
    loop: LoopArg,
    n: int,
    max_innermost_factor: int = 16,
    *,
    domain: PerfectTileDomain | InferredTileDomain,
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
    check_parts("sample_perfect_tile", n, decision)
    tile = domain.decide(rng, decision)
    assert isinstance(tile, tuple)
    inferred = isinstance(domain, InferredTileDomain)
    return Sampled([None, *tile[1:]] if inferred else list(tile), tile)


def partitioned_tile_domain(
    state: ScheduleState,
    loop: StmtSRef,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
) -> PartitionedTileDomain | InferredTileDomain:
    """Return the tiles of a loop; ArgumentError for a factor that cannot be, or no iterations."""
    extent = constant_extent("sample_partitioned_tile", loop)
    if innerpart_factor < 1:
        reason = f"is {innerpart_factor}; a factor must be at least 1"
        raise ArgumentError("sample_partitioned_tile", "innerpart_factor", reason)
    if extent is None or extent % innerpart_factor:
        return InferredTileDomain(n)
    return PartitionedTileDomain(extent, n, partition_pos, innerpart_factor)


@primitive("SamplePartitionedTile", pure=True, domain=partitioned_tile_domain)
def sample_partitioned_tile(
    state: ScheduleState,
    loop: LoopArg,
    n: int,
    partition_pos: int = 0,
    innerpart_factor: int = 1,
    *,
    domain: PartitionedTileDomain | InferredTileDomain,
    rng: RandomState,
    decision: Sequence[int] | None = None,
) -> Numbers:
    """Choose `n` factors of a loop's extent, the inner ones a multiple of `innerpart_factor`.

    The product of the factors from `partition_pos` on is that multiple. The decision is the list of
    factors; one that does not fit is repaired. For an extent that is not constant, or no multiple
    of `innerpart_factor`, the first factor is -1 and the others are 1.

    Raises ArgumentError unless there are 1 to 64 parts (those of the decision, if there is one) and
    the position and the factor can be; also for a loop without iterations.
    """
    count = check_parts("sample_partitioned_tile", n, decision)
    last = count if innerpart_factor == 1 else count - 1
    if not 0 <= partition_pos <= last:
        reason = f"is {partition_pos}; with {count} parts and this factor it must be in [0, {last}]"
        raise ArgumentError("sample_partitioned_tile", "partition_pos", reason)
    tile = domain.decide(rng, decision)
    assert isinstance(tile, tuple)
    return Sampled(list(tile), tile)


def constant_extent(method: str, loop: StmtSRef) -> int | None:
    """Return the extent of a loop, None if it is not constant; ArgumentError if it is below 1."""
    extent = loop.loop.extent
    if not isinstance(extent, IntImm):
        return None
    if extent.value < 1:
        raise ArgumentError(method, "loop", f"has extent {extent.value}, which has no factors")
    return extent.value


def check_parts(method: str, n: int, decision: Sequence[int] | None) -> int:
    """Return the number of parts of a tile: that of the decision if there is one, else `n`.

    Raises ArgumentError where there can be no such tile.
    """
    count = n if decision is None else len(decision)
    if not 1 <= count <= MOST_PARTS:
        name = "n" if decision is None else "decision"
        reason = f"gives {count} parts: a tile has at least 1 part and at most {MOST_PARTS}"
        raise ArgumentError(method, name, reason)
    return count
