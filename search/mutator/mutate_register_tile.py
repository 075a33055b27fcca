"""Another limit of register tiles."""

from __future__ import annotations

from search.mutator.mutate_decision import MutateDecision
from search.spaces.annotations import REGISTER_TILE


class MutateRegisterTile(MutateDecision):
    """Picks another number of registers for tiles, where `SampleRegisterTile` has sampled one."""

    def __init__(self) -> None:
        super().__init__(REGISTER_TILE)
