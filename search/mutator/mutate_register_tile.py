"""Another limit of register tiles."""

from __future__ import annotations

from schedule import Trace
from schedule.random_state import RandomState
from search.annotations import REGISTER_TILE
from search.mutator.mutator import Mutator
from search.mutator.sampled_annotation import with_other_choice


class MutateRegisterTile(Mutator):
    """Picks another number of registers for tiles, where `SampleRegisterTile` has sampled one."""

    def apply(self, trace: Trace, rand_state: RandomState) -> Trace | None:
        """Return a trace with another number, None if none is sampled."""
        return with_other_choice(trace, (REGISTER_TILE,), rand_state)
