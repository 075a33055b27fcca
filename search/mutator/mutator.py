"""The base class of mutators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from search.kinds import Kinds, TaskPart

if TYPE_CHECKING:
    from schedule import Trace
    from schedule.random_state import RandomState
    from search.spaces.design_space import Decisions, DesignSpace


class Mutator(TaskPart, ABC):
    """Changes one decision of a trace."""

    kinds: ClassVar[Kinds[dict[Mutator, float]]] = Kinds("preset of mutators")
    """Presets by target kind (`llvm`, ...): functions that return mutators and their weights."""

    @staticmethod
    def create(kind: str) -> dict[Mutator, float]:
        """Return the preset of mutators for a target kind, each with its probability."""
        return Mutator.kinds.make(kind)

    @abstractmethod
    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a changed copy of `trace` without its postprocessing part, None if none exists.

        All randomness comes from `rand_state`.
        """

    def neighbour(
        self, space: DesignSpace, decisions: Decisions, rand_state: RandomState
    ) -> Decisions | None:
        """Return a changed point of a design space, None if there is none.

        A mutator of traces need not know of points: `apply` is asked, and what leaves the space
        counts as none.
        """
        trace = self.apply(space.trace_of(decisions), rand_state)
        return None if trace is None else space.decisions_of(trace)


PyMutator = Mutator
"""The base class under the name that it has for user classes in TVM."""
