"""One candidate of a population, and those that were measured."""

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
"""The key that two candidates share if they are the same: a space and the decisions, or a text."""


@dataclass(eq=False, slots=True)
class Individual:
    """A point of a design space, or the trace of a schedule that belongs to none.

    It is replayed only when somebody wants its program.
    """

    key: Key
    space: DesignSpace | None = None
    decisions: Decisions | None = None
    foreign: Trace | None = None
    """The trace, for an individual of no space."""
    sch: Schedule | None = field(default=None, repr=False)
    """The schedule, once it was replayed."""
    is_complete: bool = False
    """True if the schedule was postprocessed."""
    mean: float = math.nan
    """The score that the cost model expects; higher is better, NaN before it was asked."""
    std: float = 0.0
    """The uncertainty of the model about it."""
    twins: int = 0
    """The number that it shares with all that are the same to the model, 0 if it is not known."""

    @staticmethod
    def at(space: DesignSpace, decisions: Decisions) -> Individual:
        """Return a point of a space."""
        return Individual((space.index, decisions), space, decisions)

    @staticmethod
    def of_trace(trace: Trace, spaces: Sequence[DesignSpace]) -> Individual:
        """Return the point that a trace is, or an individual of its own kind."""
        for space in spaces:
            decisions = space.decisions_of(trace)
            if decisions is not None:
                return Individual.at(space, decisions)
        return Individual(trace_key(trace), foreign=trace)

    @property
    def trace(self) -> Trace:
        """The trace to be replayed, without postprocessing."""
        if self.foreign is not None:
            return self.foreign
        assert self.space is not None
        assert self.decisions is not None
        return self.space.trace_of(self.decisions)


def trace_key(trace: Trace) -> str:
    """Return a text that two traces share if they do the same with the same decisions.

    Postprocessing is left out: it follows from the rest.
    """
    return json.dumps(trace.simplified(True).as_json(), separators=(",", ":"))


class Measured:
    """The individuals that ran, with their seconds; one that is entered again gets the new time."""

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[float, Individual]] = {}
        self.twins: set[int] = set()
        """The numbers that others share which are the same to the model; see `Individual.twins`."""

    def add(self, individual: Individual, seconds: float) -> None:
        """Enter an individual; its program is dropped, since few are asked for again."""
        individual.sch, individual.is_complete = None, False
        self._entries[individual.key] = (seconds, individual)
        self.twins.add(individual.twins)

    def best(self, count: int) -> list[Individual]:
        """Return the `count` fastest, those that are as fast in the order of their measurement."""
        ranked = sorted(self._entries.values(), key=lambda entry: entry[0])
        return [individual for _, individual in ranked[:count]]

    def typical_seconds(self) -> float:
        """Return the median of the seconds a call, 0 before the first measurement."""
        times = [seconds for seconds, _ in self._entries.values()]
        return statistics.median(times) if times else 0.0

    def __len__(self) -> int:
        return len(self._entries)
