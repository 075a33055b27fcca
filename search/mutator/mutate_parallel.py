"""Another number of parallel iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedule.random_state import RandomState
from search.errors import TuningError
from search.measuring.target_cores import target_cores
from search.mutator.mutate_decision import MutateDecision
from search.spaces.annotations import PARALLEL
from search.spaces.decision_site import parallel_extents
from search.spaces.design_space import Decisions, DesignSpace

if TYPE_CHECKING:
    from search.context import TuneContext


class MutateParallel(MutateDecision):
    """Picks another number of parallel iterations, up to `max_jobs_per_core` times the cores.

    How many outer loops of each block are fused depends on the number; `parallel_extents` has
    enough of them for all fusions. A number that was sampled gets another of its choices.
    """

    def __init__(self, max_jobs_per_core: int) -> None:
        super().__init__(PARALLEL)
        self.max_jobs_per_core = max_jobs_per_core
        self._limit = 0

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        self._limit = target_cores(context) * self.max_jobs_per_core

    def neighbour(
        self, space: DesignSpace, decisions: Decisions, rand_state: RandomState
    ) -> Decisions | None:
        """Return a point with another number, None if there is no other."""
        marks = self.sites_in(space)
        if not marks:
            return None
        if self._limit < 1:
            raise TuningError("MutateParallel is used before it was initialised with a task")
        k = marks[rand_state.uniform_int(0, len(marks))]
        present = decisions[k]
        if space.sites[k].is_sampling or present is None:
            return space.neighbour(decisions, rand_state, among=[k])
        other = parallel_extents(self._limit).step(present, rand_state)
        return None if other is None else (*decisions[:k], other, *decisions[k + 1 :])
