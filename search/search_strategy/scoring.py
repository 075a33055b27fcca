"""What the cost model thinks of a population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from search.errors import blamed_on
from search.measure_candidate import described
from search.search_strategy.individual import Individual

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.search_strategy.breeding import Breeding


class Scoring:
    """Scores individuals by their decisions where the model can, else by their programs."""

    def __init__(self, context: TuneContext, cost_model: CostModel, breeding: Breeding) -> None:
        self._context = context
        self._model = cost_model
        self._breeding = breeding

    def score(self, individuals: Sequence[Individual]) -> list[Individual]:
        """Give each its score; return those that have one: the others were rejected."""
        by_space: dict[int, list[Individual]] = {}
        unread: list[Individual] = []
        for individual in individuals:
            if individual.space is None:
                unread.append(individual)
            else:
                by_space.setdefault(individual.space.index, []).append(individual)
        for group in by_space.values():
            if not self._score_points(group):
                unread += group
        rejected = self._score_programs(unread)
        return [x for x in individuals if x not in rejected] if rejected else list(individuals)

    def reads_points(self) -> bool:
        """Whether the model scores the points of all spaces without their programs."""
        drawn = [self._breeding.sampled(space) for space in self._breeding.spaces]
        return all(x is not None and self._score_points([x]) for x in drawn)

    def _score_points(self, group: Sequence[Individual]) -> bool:
        """Score points of one space; False if the model wants their programs."""
        space = group[0].space
        assert space is not None
        decisions = [x.decisions for x in group if x.decisions is not None]
        with blamed_on(self._model, lambda: f"{len(group)} point(s) of\n{space}"):
            scores = self._model.score_points(self._context, space, decisions)
        if scores is None:
            return False
        for individual, mean, std in zip(
            group, scores.mean.tolist(), scores.std.tolist(), strict=True
        ):
            individual.mean, individual.std = mean, std
        return True

    def _score_programs(self, individuals: Sequence[Individual]) -> set[Individual]:
        """Score individuals by their programs; return those that have none."""
        replayed = [x for x in individuals if self._breeding.replay(x)]
        if replayed:
            candidates = [self._breeding.candidate(x) for x in replayed]
            with blamed_on(self._model, lambda: described(candidates)):
                scores = self._model.predict(self._context, candidates)
            for individual, score in zip(replayed, scores, strict=True):
                individual.mean, individual.std = float(score), 0.0
        return set(individuals).difference(replayed)
