"""Moving a factor from one tile level to another."""

from __future__ import annotations

from typing import Final

from search.mutator.mutate_decision import MutateDecision
from search.spaces.annotations import PARALLEL, REGISTER_TILE, UNROLL_EXPLICIT, UNROLL_IMPLICIT
from search.spaces.decision_site import LOCATION, Site

_OF_OTHERS: Final = frozenset({LOCATION, PARALLEL, REGISTER_TILE, UNROLL_EXPLICIT, UNROLL_IMPLICIT})


class MutateTileSize(MutateDecision):
    """Picks a sampled tile, divides one of its parts by a factor and multiplies another with it.

    The innermost part stays within the limit of the instruction. Other sampled numbers count as
    sizes too, those of a primitive of one's own for instance, unless another mutator is for them.
    """

    def __init__(self) -> None:
        super().__init__(_is_size)


def _is_size(site: Site) -> bool:
    return site.purpose not in _OF_OTHERS
