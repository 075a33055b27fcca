"""Another limit of unrolling."""

from __future__ import annotations

from search.mutator.mutate_decision import MutateDecision
from search.spaces.annotations import UNROLL_EXPLICIT, UNROLL_IMPLICIT
from search.spaces.decision_site import Site


class MutateUnroll(MutateDecision):
    """Picks another of the sampled limits of unrolling, by their probabilities."""

    def __init__(self) -> None:
        super().__init__(_limits_unrolling)


def _limits_unrolling(site: Site) -> bool:
    return site.purpose in (UNROLL_EXPLICIT, UNROLL_IMPLICIT)
