"""The alternatives of a sampling instruction, to draw from, check, count and step between."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import Any, Final, TypeAlias

from schedule.random_state import RandomState

MOST_LISTED: Final = 1_000_000
"""The largest number of alternatives that a domain lists."""

Decision: TypeAlias = int | tuple[int, ...]
"""The decision of a sampling in a trace: an index, a number, the factors of a tile.

A user-defined primitive may use any other hashable value that JSON can store, such as text.
"""


def plain_decision(value: Any) -> Decision:
    """Return the hashable form of a decision of a trace, for example of a JSON list."""
    if isinstance(value, (list, tuple)):
        return tuple([plain_decision(part) for part in value])  # type: ignore[misc]
    return value  # type: ignore[no-any-return]


class NoDecision(ValueError):  # noqa: N818
    """The domain is empty, or a decision is invalid; the message names the argument."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


class DecisionDomain(ABC):
    """The set of alternatives of one sampling instruction.

    A sampling primitive returns it, or declares it with `@primitive(..., domain=...)`. Code that
    mutates, crosses, lists and prints decisions uses only the domain of a primitive.

    A domain defines its iteration. All other methods use the list of its decisions, which is made
    at first use; a domain that is too large for a list overrides counting and drawing.
    """

    @abstractmethod
    def __iter__(self) -> Iterator[Decision]:
        """Yield all alternatives, each once and always in the same order."""

    @cached_property
    def alternatives(self) -> tuple[Decision, ...]:
        """All alternatives."""
        return tuple(self)

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
        """Return the index of an alternative, None if it is not in the domain."""
        return self._indices.get(decision)

    def __contains__(self, decision: object) -> bool:
        return isinstance(decision, (int, str, tuple)) and self.index_of(decision) is not None  # type: ignore[arg-type]

    def sample(self, rng: RandomState) -> Decision:
        """Draw an alternative, all equally likely; NoDecision if there is none."""
        if self.size == 0:
            raise NoDecision("candidates", "leave nothing to choose")
        return self.at(rng.uniform_int(0, self.size))

    def neighbours(self, decision: Any) -> Sequence[Decision]:
        """Return the other alternatives that are one step away, each once.

        By default these are all other alternatives.
        """
        present, listed = self.index_of(decision), self.alternatives
        return listed if present is None else listed[:present] + listed[present + 1 :]

    def step(self, decision: Any, rng: RandomState) -> Decision | None:
        """Draw one of the neighbours, None if there is none. All are equally likely."""
        others = self.neighbours(decision)
        return others[rng.uniform_int(0, len(others))] if others else None

    def repair(self, decision: Any) -> Decision:
        """Return a stored decision adapted to this domain, as the program may have changed.

        A possible decision is kept, even if sampling would not draw it. Raises ValueError (maybe
        NoDecision) for a decision that cannot be adapted.
        """
        fitting = plain_decision(decision)
        if fitting not in self:
            raise ValueError(f"the decision {decision!r} is not among {self}")
        return fitting

    def label(self, decision: Any) -> str:
        """Return the meaning of a decision that is a code for something else, such as an index."""
        return str(decision)

    def outputs(self, decision: Any) -> Any:
        """Return the number, or list of numbers, that the instruction outputs for a decision."""
        return list(decision) if isinstance(decision, tuple) else decision

    def numbers(self, decision: Any) -> tuple[float, ...] | None:
        """Return the numbers that a decision gives the program, the same count for each decision.

        None if decisions may change the structure of the program.
        """
        return None

    def is_disjoint(self, other: DecisionDomain) -> bool:
        """Return True if two domains are provably disjoint, without comparing all alternatives."""
        return False

    def joined(self, other: DecisionDomain) -> DecisionDomain:
        """Return the union of two domains."""
        return UnionDomain.of((self, other))

    def decide(self, rng: RandomState, decision: Any) -> Decision:
        """Return the repaired decision, or draw one where it is None."""
        return self.sample(rng) if decision is None else self.repair(decision)


@dataclass(frozen=True)
class ChoiceDomain(DecisionDomain):
    """One of a few values, all equally likely."""

    values: tuple[Decision, ...]

    def __contains__(self, decision: object) -> bool:
        return decision in self.values

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.values)

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


@dataclass(frozen=True)
class OptionDomain(DecisionDomain):
    """The indices of a few candidates of any type; `labels` are the candidates as JSON."""

    labels: tuple[str, ...]

    @property
    def are_numbers(self) -> bool:
        """True if all candidates are whole numbers of int32."""
        values = self._values
        return bool(values) and all(type(v) is int and -(1 << 31) <= v < 1 << 31 for v in values)

    def outputs(self, decision: int) -> Any:
        """Return the candidate where all are whole numbers of int32, else its index."""
        return self._values[decision] if self.are_numbers else decision

    def __iter__(self) -> Iterator[Decision]:
        return iter(range(len(self.labels)))

    def label(self, decision: int) -> str:
        """Return the candidate."""
        return self.labels[decision]

    def numbers(self, decision: int) -> tuple[float, ...] | None:
        """Return the candidate if all candidates are numbers, else None."""
        values = self._values
        return (values[decision],) if values else None

    @cached_property
    def _values(self) -> tuple[float, ...]:
        values = [json.loads(label) for label in self.labels]
        return tuple(values) if all(type(v) in (int, float) for v in values) else ()

    def repair(self, decision: Any) -> Decision:
        """Return the decision; ValueError unless it is an index of a candidate."""
        index = plain_decision(decision)
        if index not in self:
            raise ValueError(f"is {decision!r}; it must be an index in [0, {self.size})")
        return index

    def __str__(self) -> str:
        return ", ".join(self.labels)


@dataclass(frozen=True)
class CandidatesDomain(DecisionDomain):
    """A list of decisions of the kind of `whole`, which need not be alternatives of it."""

    whole: DecisionDomain
    candidates: tuple[Decision, ...]

    def __iter__(self) -> Iterator[Decision]:
        return iter(dict.fromkeys(self.candidates))

    def outputs(self, decision: Decision) -> Any:
        """Return the outputs of the whole domain."""
        return self.whole.outputs(decision)

    def numbers(self, decision: Decision) -> tuple[float, ...] | None:
        """Return the numbers of the whole domain."""
        return self.whole.numbers(decision)

    def repair(self, decision: Any) -> Decision:
        """Return a decision as `whole` repairs it; ValueError for a decision of another kind."""
        return self.whole.repair(decision)

    def __str__(self) -> str:
        return f"{len(self.candidates)} candidates for {self.whole}"


@dataclass(frozen=True)
class UnionDomain(DecisionDomain):
    """The union of the domains of one instruction under different earlier decisions."""

    members: tuple[DecisionDomain, ...]

    @staticmethod
    def of(domains: Sequence[DecisionDomain]) -> DecisionDomain:
        """Return the union of one or more domains, which may themselves be unions."""
        flat = chain.from_iterable(
            domain.members if isinstance(domain, UnionDomain) else [domain] for domain in domains
        )
        distinct = tuple(dict.fromkeys(flat))
        return distinct[0] if len(distinct) == 1 else UnionDomain(distinct)

    @cached_property
    def size(self) -> int:
        """The number of different alternatives."""
        if all(a.is_disjoint(b) for a, b in combinations(self.members, 2)):
            return sum(member.size for member in self.members)
        return sum(1 for _ in self)

    def _domains_with(self, decision: Decision) -> Sequence[DecisionDomain]:
        """Return the domains that contain a decision, all domains if none does."""
        return [member for member in self.members if decision in member] or self.members

    def __contains__(self, decision: object) -> bool:
        return any(decision in member for member in self.members)

    def __iter__(self) -> Iterator[Decision]:
        for k, member in enumerate(self.members):
            earlier = self.members[:k]
            yield from (d for d in member if not any(d in other for other in earlier))

    def sample(self, rng: RandomState) -> Decision:
        """Draw from one of the domains, which are equally likely."""
        return self.members[rng.uniform_int(0, len(self.members))].sample(rng)

    def neighbours(self, decision: Decision) -> Sequence[Decision]:
        """Return the neighbours in all of the domains that have the decision."""
        steps = chain.from_iterable(m.neighbours(decision) for m in self._domains_with(decision))
        return list(dict.fromkeys(steps))

    def repair(self, decision: Any) -> Decision:
        """Return the decision if a domain contains it, else as repaired by the first domain."""
        fitting = plain_decision(decision)
        return fitting if fitting in self else self.members[0].repair(decision)

    def label(self, decision: Decision) -> str:
        """Return the label of a decision in the first domain that has it."""
        return self._domains_with(decision)[0].label(decision)

    def numbers(self, decision: Decision) -> tuple[float, ...] | None:
        """Return the numbers of a decision in the first domain that has it."""
        return self._domains_with(decision)[0].numbers(decision)

    def __str__(self) -> str:
        return " or ".join(map(str, self.members))
