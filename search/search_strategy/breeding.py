"""New individuals: random points, mutations of one parent, and crossovers of two."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from search.errors import blamed_on
from search.mutator.mutator import Mutator
from search.runner.measure_candidate import MeasureCandidate
from search.search_strategy.individual import Individual

if TYPE_CHECKING:
    from schedule import Schedule
    from schedule.random_state import RandomState
    from search.context import TuneContext
    from search.search_strategy.trace_application import TraceApplication
    from search.space_generator.design_space import DesignSpace

REFUSED: Final = "the constraint"
"""The name that rejects candidates which the user's constraint does not allow."""
LEFT: Final = "the design space"
"""The name that rejects points whose replay leaves their design space."""


class Breeding:
    """Makes individuals of the design spaces of a task, and their programs on request."""

    def __init__(
        self,
        context: TuneContext,
        spaces: Sequence[DesignSpace],
        application: TraceApplication,
        rng: RandomState,
    ) -> None:
        assert context.space_generator is not None
        self._context = context
        self.spaces = spaces
        self.application = application
        self._rng = rng
        mutators = context.space_generator.mutator_probs
        weights = np.array(list(mutators.values()), np.float64)
        self._mutators: list[Mutator] = list(mutators) if weights.sum() > 0 else []
        self._cumulative = np.cumsum(weights / weights.sum()).tolist() if self._mutators else []

    # -------------------------------------------------------------------------------- individuals

    def sample(self, space: DesignSpace | None = None) -> Individual | None:
        """Return a random point of a space, by default a random one; None if it is rejected."""
        if space is None:
            space = self.spaces[self._rng.uniform_int(0, len(self.spaces))]
        return self._decide_knobs(Individual.at(space, space.sample(self._rng)))

    def mutate(self, parent: Individual) -> Individual | None:
        """Return a mutation of `parent`, by a mutator drawn in proportion to its weight."""
        if not self._mutators:
            return None
        drawn = self._rng.uniform_real()
        mutator = self._mutators[min(bisect(self._cumulative, drawn), len(self._mutators) - 1)]
        with blamed_on(mutator, lambda: f"the trace\n{parent.trace}"):
            # A mutator that only implements `apply` may leave the space.
            knows_points = type(mutator).neighbour is not Mutator.neighbour
            if parent.space is not None and knows_points:
                assert parent.decisions is not None
                point = mutator.neighbour(parent.space, parent.decisions, self._rng)
                point = None if point is None else parent.space.admitted(point)
                child = None if point is None else Individual.at(parent.space, point)
            else:
                trace = mutator.apply(parent.trace, self._rng)
                child = None if trace is None else Individual.of_trace(trace, self.spaces)
        return None if child is None else self._decide_knobs(child)

    def cross(self, first: Individual, second: Individual) -> Individual | None:
        """Return a crossover of two points; None if they are of different spaces."""
        space = first.space
        if space is None or space is not second.space:
            return None
        assert first.decisions is not None
        assert second.decisions is not None
        mixed = space.crossover(first.decisions, second.decisions, self._rng)
        point = space.admitted(mixed)
        return None if point is None else self._decide_knobs(Individual.at(space, point))

    def allows(self, individual: Individual, sch: Schedule | None = None) -> bool:
        """Return True if the task's constraint allows an individual with the schedule `sch`."""
        if individual.space is not None:
            assert individual.decisions is not None
            return individual.space.admitted(individual.decisions) == individual.decisions
        if self._context.constraint is None:
            return True
        sch = sch or self.application.replay(individual.trace)
        return sch is not None and self._context.allows(sch)

    def _decide_knobs(self, individual: Individual) -> Individual | None:
        """Replay an individual with undecided knobs, which decides them; None if that fails."""
        open_ended = individual.decisions is not None and None in individual.decisions
        return None if open_ended and not self.replay(individual) else individual

    # ----------------------------------------------------------------------------------- programs

    def complete(self, individual: Individual) -> bool:
        """Make the postprocessed program of an individual; False if it is rejected."""
        if not self.replay(individual):
            return False
        assert individual.sch is not None
        if not individual.is_complete:
            individual.is_complete = True
            if not self.application.postprocess(individual.sch):
                individual.sch = None
        return individual.sch is not None

    def replay(self, individual: Individual) -> bool:
        """Make the program of an individual, before postprocessing; False if it is rejected.

        Replaying repairs decisions that do not fit together, and updates the individual.
        """
        if individual.sch is not None or individual.is_complete:
            return individual.sch is not None
        self._context.budget.spend(len(individual.trace.insts))
        sch = self.application.replay(individual.trace)
        if sch is None:
            return False
        actual = Individual.of_trace(sch.trace, self.spaces)
        if not self.allows(actual, sch):
            self.application.reject(REFUSED)
            return False
        if individual.space is not None and actual.space is None:
            self.application.reject(LEFT, "a decision was repaired to one that the space lacks")
            return False
        individual.key, individual.space = actual.key, actual.space
        individual.decisions = actual.decisions
        individual.external_trace = actual.external_trace
        individual.sch = sch
        return True

    def draft(self, individual: Individual) -> MeasureCandidate:
        """Return the candidate of a replayed individual, for scoring."""
        assert individual.sch is not None
        return MeasureCandidate(
            individual.sch, space_index=_index(individual), decisions=individual.decisions
        )

    def candidate(self, individual: Individual, predicted: float | None = None) -> MeasureCandidate:
        """Return the candidate of a replayed individual, for measuring.

        Raises TuningError if arguments of the program cannot be generated.
        """
        assert individual.sch is not None
        return self.application.candidate(
            individual.sch,
            space_index=_index(individual),
            decisions=individual.decisions,
            predicted=predicted,
        )


def _index(individual: Individual) -> int | None:
    return None if individual.space is None else individual.space.index
