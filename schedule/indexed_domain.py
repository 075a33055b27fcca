"""Alternatives that have numbers, so that one can be named by its position."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from schedule.decision_domain import Decision, DecisionDomain, plain_decision
from schedule.random_state import RandomState

MOST_LISTED: Final = 1_000_000
"""The largest number of alternatives that a domain lists."""


class IndexedDomain(DecisionDomain):
    """A domain whose alternatives are numbered from 0 in the order of iteration."""

    @abstractmethod
    def at(self, index: int) -> Decision:
        """Return the alternative at an index in [0, size)."""

    @abstractmethod
    def index_of(self, decision: Decision) -> int | None:
        """Return where an alternative is, None if it is not here."""

    def __contains__(self, decision: object) -> bool:
        return isinstance(decision, (int, tuple)) and self.index_of(decision) is not None

    def __iter__(self) -> Iterator[Decision]:
        return map(self.at, range(self.size))

    def sample(self, rng: RandomState) -> Decision:
        """Draw an alternative, all equally likely."""
        return self.at(rng.uniform_int(0, self.size))


class ListedDomain(IndexedDomain):
    """An indexed domain that lists its alternatives when it is first asked."""

    @abstractmethod
    def listed(self) -> Sequence[Decision]:
        """Return the alternatives, each once."""

    @cached_property
    def alternatives(self) -> Sequence[Decision]:
        """All alternatives."""
        return self.listed()

    @cached_property
    def _indices(self) -> dict[Decision, int]:
        return {decision: index for index, decision in enumerate(self.alternatives)}

    @property
    def size(self) -> int:
        """The number of alternatives."""
        return len(self.alternatives)

    def at(self, index: int) -> Decision:
        """Return the alternative at an index in [0, size)."""
        return self.alternatives[index]

    def index_of(self, decision: Decision) -> int | None:
        """Return where an alternative is, None if it is not here."""
        return self._indices.get(decision)


@dataclass(frozen=True)
class CandidatesDomain(ListedDomain):
    """Some decisions of the kind that another domain has, whether that offers them or not."""

    whole: IndexedDomain
    candidates: tuple[Decision, ...]

    def listed(self) -> Sequence[Decision]:
        """Return the candidates, each once."""
        return tuple(dict.fromkeys(self.candidates))

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        """Return all others: nothing is known of their order."""
        return [other for other in self.alternatives if other != decision]

    def step(self, decision: Decision, rng: RandomState) -> Decision | None:
        """Draw one of the others, without listing them."""
        present = self.index_of(decision)
        if present is None:
            return self.sample(rng) if self.size else None
        if self.size == 1:
            return None
        index = rng.uniform_int(0, self.size - 1)
        return self.at(index + (index >= present))

    def numbers(self, decision: Decision) -> tuple[float, ...] | None:
        """Return the numbers that the whole domain gives."""
        return self.whole.numbers(decision)

    def repair(self, decision: Any) -> Decision:
        """Return a decision of the kind, offered or not; ValueError for one of another kind."""
        return self.whole.repair(decision)

    def __str__(self) -> str:
        return f"{len(self.candidates)} candidates for {self.whole}"


@dataclass(frozen=True)
class OptionDomain(IndexedDomain):
    """The indices of a few candidates that may be anything; `labels` are those as JSON."""

    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of candidates."""
        return len(self.labels)

    def at(self, index: int) -> Decision:
        """Return the index itself: it is the decision."""
        return index

    def index_of(self, decision: Decision) -> int | None:
        """Return the decision itself, None if it is no index of a candidate."""
        inside = isinstance(decision, int) and 0 <= decision < len(self.labels)
        return decision if inside else None  # type: ignore[return-value]

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        """Return the other indices."""
        return [index for index in range(self.size) if index != decision]

    def label(self, decision: Decision) -> str:
        """Return the candidate."""
        assert isinstance(decision, int)
        return self.labels[decision]

    def numbers(self, decision: Decision) -> tuple[float, ...] | None:
        """Return the candidate, None unless all are numbers: others may mean anything."""
        values = self._values
        assert isinstance(decision, int)
        return (values[decision],) if values else None

    @cached_property
    def _values(self) -> tuple[float, ...]:
        values = [json.loads(label) for label in self.labels]
        return tuple(values) if all(type(v) in (int, float) for v in values) else ()

    def repair(self, decision: Any) -> Decision:
        """Return the decision; ValueError if it is no index of the candidates."""
        index = plain_decision(decision)
        if index not in self:
            raise ValueError(f"is {decision!r}; it must be an index in [0, {self.size})")
        return index

    def __str__(self) -> str:
        return ", ".join(self.labels)
