"""The individuals of a population, and the measured ones."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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
        """The `Individual.twins` of all of them."""

    def add(self, individual: Individual, seconds: float) -> None:
        """Add an individual, or its new time; its program is dropped, as it is rarely needed."""
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
