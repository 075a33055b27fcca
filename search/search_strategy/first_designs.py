"""The designs that a cost model prefers of a program of which nothing was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from schedule.random_state import RandomState
from search.search_strategy.breeding import Breeding
from search.search_strategy.evolution import Evolution
from search.search_strategy.individual import Individual
from search.search_strategy.scoring import Scoring

if TYPE_CHECKING:
    from collections.abc import Sequence

    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.search_strategy.trace_application import TraceApplication
    from search.spaces.design_space import DesignSpace

_SEED: Final = 1
_POINTS: Final = 96
"""The random points that are scored of each space, for each structure of its program."""
_STRUCTURES: Final = 3
"""The random structures of a space that are tried: of each, some ten points are replayed."""
_GENERATIONS: Final = 5
_CHILDREN: Final = 64
_PROGRAMS: Final = 16
"""The programs that are made of a generation where points have other structures."""


def first_designs(
    context: TuneContext,
    spaces: Sequence[DesignSpace],
    application: TraceApplication,
    model: CostModel,
) -> list[Individual]:
    """Return points of the spaces with their scores, the most promising first.

    They are the best that a short evolution finds, from random points of each space. Most points
    of a space differ from one another by numbers only, such as the extents of tiles, and are scored
    together without replaying them; of the structures that programs of a space can have (the places
    of blocks) a few are tried. The same program, spaces and scores give the same designs. Whether
    the postprocessors accept them is for the caller to find out.
    """
    rng = RandomState(_SEED)
    breeding = Breeding(context, spaces, application, rng)
    evolution = Evolution(
        breeding,
        Scoring(context, model, breeding),
        set(),
        rng,
        mutate_prob=0.85,
        max_fail_count=10,
        exploration=0.0,
    )
    first = [point for space in spaces for point in _random_points(space, rng)]
    pool = evolution.run(first, _GENERATIONS, _CHILDREN, _PROGRAMS, lambda _: None)
    return sorted(pool, key=lambda individual: -individual.mean)


def _random_points(space: DesignSpace, rng: RandomState) -> list[Individual]:
    """Return random points of a space that have few structures between them."""
    structural = space.structural_sites
    found: dict[object, Individual] = {}
    for _ in range(_STRUCTURES if structural else 1):
        structure = space.sample(rng)
        for _ in range(_POINTS):
            point = list(space.sample(rng))
            for k in structural:
                point[k] = structure[k]
            individual = Individual.at(space, tuple(point))
            found[individual.key] = individual
    return list(found.values())
