"""The individuals of a population, and the choice of the individuals to measure next."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from schedule import Schedule, Trace
from search.space_generator.design_space import Decisions, DesignSpace

Key: TypeAlias = "tuple[int, Decisions] | str"
"""A key that is equal for equal candidates: a space and the decisions, or the text of a trace."""


@dataclass(eq=False, slots=True)
class Individual:
    """A point of a design space, or a trace that is not in any design space.

    It is replayed only when its program is needed.
    """

    key: Key
    space: DesignSpace | None = None
    decisions: Decisions | None = None
    external_trace: Trace | None = None
    """The trace, if it is not in any design space."""
    sch: Schedule | None = field(default=None, repr=False)
    """The schedule, after replaying."""
    is_complete: bool = False
    """True if the schedule was postprocessed."""
    mean: float = math.nan
    """The mean score of the cost model, higher is better; NaN before it is scored."""
    std: float = 0.0
    """The uncertainty of the score."""
    twins: int = 0
    """A number that is equal for individuals with equal features, 0 if unknown."""

    @staticmethod
    def at(space: DesignSpace, decisions: Decisions) -> Individual:
        """Return a point of a space."""
        return Individual((space.index, decisions), space, decisions)

    @staticmethod
    def of_trace(trace: Trace, spaces: Sequence[DesignSpace]) -> Individual:
        """Return the individual of a trace, as a point if it is in one of the spaces."""
        for space in spaces:
            decisions = space.decisions_of(trace)
            if decisions is not None:
                return Individual.at(space, decisions)
        return Individual(trace_key(trace), external_trace=trace)

    @property
    def trace(self) -> Trace:
        """The trace to replay, without postprocessing."""
        if self.external_trace is not None:
            return self.external_trace
        assert self.space is not None
        assert self.decisions is not None
        return self.space.trace_of(self.decisions)


def trace_key(trace: Trace) -> str:
    """Return a text that is equal for traces with the same instructions and decisions.

    Postprocessing is left out, because it follows from the rest.
    """
    return json.dumps(trace.simplified(True).as_json(), separators=(",", ":"))


class Measured:
    """The individuals that ran, with their times in seconds."""

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[float, Individual]] = {}
        self.twins: set[int] = set()
        """The `Individual.twins` of all measured individuals."""

    def add(self, individual: Individual, seconds: float) -> None:
        """Add an individual, or its new time; its program is dropped."""
        individual.sch, individual.is_complete = None, False
        self._entries[individual.key] = (seconds, individual)
        self.twins.add(individual.twins)

    def best(self, count: int) -> list[Individual]:
        """Return the `count` fastest; equally fast ones in the order of their measurement."""
        ranked = sorted(self._entries.values(), key=lambda entry: entry[0])
        return [individual for _, individual in ranked[:count]]

    def typical_seconds(self) -> float:
        """Return the median time of a call, 0 before the first measurement."""
        times = [seconds for seconds, _ in self._entries.values()]
        return statistics.median(times) if times else 0.0

    def __len__(self) -> int:
        return len(self._entries)


def choose_batch(
    pool: Sequence[Individual],
    wanted: int,
    exploration: float,
    accept: Callable[[Individual], bool],
    measured: Collection[int] = (),
) -> list[Individual]:
    """Return up to `wanted` individuals, in the order in which they should be measured.

    The next one always has the largest upper confidence bound, `mean + exploration * std`. Each
    choice reduces the deviation of the others, by the fraction of decisions that they have in
    common with it, so that a batch does not consist of near copies (as in GP-BUCB: Desautels,
    Krause and Burdick, JMLR 2014). Individuals with the features of a chosen or a `measured` one
    (`Individual.twins`) come last, because nearly all of them have the same machine code. `accept`
    is called with each choice and may refuse it.
    """
    mean = np.array([x.mean for x in pool])
    std = np.array([x.std for x in pool])
    codes = _decision_numbers(pool)
    likeness = np.zeros(len(pool))
    twins = np.array([x.twins for x in pool], np.int64)
    is_new = ~np.isin(twins, [number for number in measured if number])
    free = np.ones(len(pool), np.bool_)
    chosen: list[Individual] = []
    while len(chosen) < wanted and free.any():
        bound = mean + exploration * std * (1 - likeness)
        open_ = free & is_new
        place = int(np.where(open_ if open_.any() else free, bound, -np.inf).argmax())
        free[place] = False
        if accept(pool[place]):
            chosen.append(pool[place])
            likeness = np.maximum(likeness, _equal_fractions(codes, place))
            is_new &= (twins != twins[place]) | (twins == 0)
    return chosen


def _decision_numbers(pool: Sequence[Individual]) -> NDArray[np.int64]:
    """Return a row for each individual: its space, and a number for each decision.

    Missing entries, and all entries of an individual without a space, get a number that is unique
    to the row.
    """
    width = max((len(x.decisions) for x in pool if x.decisions is not None), default=0)
    codes = np.empty((len(pool), 1 + width), np.int64)
    codes[:] = -1 - np.arange(len(pool))[:, None]
    numbers: dict[object, int] = {}
    for row, individual in zip(codes, pool, strict=True):
        if individual.space is not None and individual.decisions is not None:
            row[0] = individual.space.index
            known = [numbers.setdefault(d, len(numbers)) for d in individual.decisions]
            row[1 : 1 + len(known)] = known
    return codes


def _equal_fractions(codes: NDArray[np.int64], place: int) -> NDArray[np.float64]:
    """Return for each row the fraction of decisions that are equal to those of one row."""
    same = (codes == codes[place])[:, 1:]
    if not same.shape[1]:
        return np.zeros(len(codes))
    present = max(1, int((codes[place, 1:] >= 0).sum()))
    return np.where(codes[:, 0] == codes[place, 0], same.sum(1) / present, 0.0)
