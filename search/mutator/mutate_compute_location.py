"""Another loop to compute a block at."""

from __future__ import annotations

from search.mutator.mutate_decision import MutateDecision
from search.spaces.decision_site import LOCATION


class MutateComputeLocation(MutateDecision):
    """Picks a sampled compute location and another of those that are possible there."""

    def __init__(self) -> None:
        super().__init__(LOCATION)
