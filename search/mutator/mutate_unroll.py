"""Another limit of unrolling."""

from __future__ import annotations

from schedule import Trace
from schedule.random_state import RandomState
from search.annotations import UNROLL_EXPLICIT, UNROLL_IMPLICIT
from search.mutator.mutator import Mutator
from search.mutator.sampled_annotation import with_other_choice


class MutateUnroll(Mutator):
    """Picks another of the sampled limits of unrolling, by their probabilities."""

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a trace with another limit, None if none is sampled."""
        return with_other_choice(trace, (UNROLL_EXPLICIT, UNROLL_IMPLICIT), rand_state)
