"""The scores that the cost model gives to a population."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from search.errors import blamed_on
from search.measuring.measure_candidate import described
from search.search_strategy.individual import Individual

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.search_strategy.breeding import Breeding


_FEWER_PROGRAMS: Final = 8
"""The factor by which fewer programs are made if the model could read other points."""


class Scored(NamedTuple):
    """The individuals that were scored, and those that were rejected; the others were left out."""

    scored: list[Individual]
    rejected: list[Individual]


class Scoring:
    """Scores individuals by their decisions where the model can, else by their programs.

    Making a program takes as long as scoring hundreds of points.
    """

    def __init__(self, context: TuneContext, cost_model: CostModel, breeding: Breeding) -> None:
        self._context = context
        self._model = cost_model
        self._breeding = breeding

    def score(self, individuals: Sequence[Individual], most_programs: int) -> Scored:
        """Give each of them its score.

        At most so many programs are made; what would need more is left out, here and there.
        """
        by_space: dict[int, list[Individual]] = {}
        unread: list[Individual] = []
        for individual in individuals:
            if individual.space is None:
                unread.append(individual)
            else:
                by_space.setdefault(individual.space.index, []).append(individual)
        scored: list[Individual] = []
        for of_space in by_space.values():
            self._score_points(of_space, scored, unread)
        most = most_programs if not scored else -(-most_programs // _FEWER_PROGRAMS)
        unread = unread[:: max(1, -(-len(unread) // most))]
        wanted = self._breeding.replay if self._model.reads_drafts else self._breeding.complete
        made = [x for x in unread if wanted(x)]
        self._score_programs(made)
        rejected = [x for x in unread if x.sch is None]
        return Scored([*scored, *made], rejected)

    def _score_points(
        self, group: Sequence[Individual], scored: list[Individual], unread: list[Individual]
    ) -> None:
        """Add points of one space to those that are scored, or whose programs the model wants."""
        space = group[0].space
        assert space is not None
        decisions = [x.decisions for x in group if x.decisions is not None]
        with blamed_on(self._model, lambda: f"{len(group)} point(s) of\n{space}"):
            scores = self._model.score_points(self._context, space, decisions)
        if scores is None:
            unread.extend(group)
            return
        twins = [0] * len(group) if scores.twins is None else scores.twins.tolist()
        for individual, mean, std, number in zip(
            group, scores.mean.tolist(), scores.std.tolist(), twins, strict=True
        ):
            individual.mean, individual.std, individual.twins = mean, std, number
            (unread if math.isnan(mean) else scored).append(individual)

    def _score_programs(self, made: Sequence[Individual]) -> None:
        if not made:
            return
        candidates = [self._breeding.candidate(x) for x in made]
        with blamed_on(self._model, lambda: described(candidates)):
            scores = self._model.predict(self._context, candidates)
        for individual, score in zip(made, scores, strict=True):
            individual.mean, individual.std = float(score), 0.0
