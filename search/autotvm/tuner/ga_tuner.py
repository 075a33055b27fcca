"""A genetic algorithm over the values of knobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from search.autotvm.constraint import below
from search.autotvm.errors import TemplateError
from search.autotvm.tuner.tuner import Tuner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from search.autotvm.entity import ConfigEntity
    from search.autotvm.measure import MeasureInput, MeasureResult
    from search.autotvm.task import Task

_MOST_ATTEMPTS: Final = 16
"""How many children are bred to find one that was not measured."""


class GATuner(Tuner):
    """Breeds generations of configurations from the fastest ones before.

    A gene is the index of the value of each knob. A generation has `pop_size` genes, or as many as
    the space has. Parents are drawn from the last generation and the `elite_num` best of those
    before, in proportion to their speed; a child has the first knobs of one parent and the last of
    another, and each knob takes a random value with probability `mutation_prob`.
    """

    def __init__(
        self,
        task: Task,
        pop_size: int = 100,
        elite_num: int = 3,
        mutation_prob: float = 0.1,
        *,
        seed: int | None = None,
    ) -> None:
        super().__init__(task, seed=seed)
        if not 0 <= elite_num <= pop_size:
            raise TemplateError(
                f"elite_num is at most pop_size, got {elite_num} of {pop_size} genes"
            )
        self.pop_size = min(pop_size, len(self.space))
        self.elite_num = min(elite_num, self.pop_size)
        self.mutation_prob = mutation_prob
        first = self.space.sample_ints(self.pop_size, rng=self.rng)
        self.genes = [self.space.point2knob(index) for index in first]
        self.scores: list[float] = []
        self.elites: list[list[int]] = []
        self.elite_scores: list[float] = []
        self.visited = set(first)
        self.trial_pt = 0

    def has_next(self) -> bool:
        """Say whether a gene of the generation was not measured."""
        return self.trial_pt < len(self.genes)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next genes of the generation."""
        genes = self.genes[self.trial_pt : self.trial_pt + batch_size]
        self.trial_pt += len(genes)
        return [self.space.get(self.space.knob2point(gene)) for gene in genes]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Enter fitness; breed the next generation when all have one."""
        self.scores += map(self.most_flops, results)
        if len(self.scores) >= len(self.genes) and len(self.visited) < len(self.space):
            self._breed()

    def _breed(self) -> None:
        genes, scores = self.genes + self.elites, self.scores + self.elite_scores
        best = np.argsort(scores, kind="stable")[::-1][: self.elite_num]
        self.elites = [genes[k] for k in best]
        self.elite_scores = [scores[k] for k in best]
        self.scores, self.trial_pt = [], 0
        if len(self.space) - len(self.visited) <= self.pop_size and self.space.length_is_exact:
            valid = filter(self.space.is_index_valid, range(self.space.range_length))
            rest = [index for index in valid if index not in self.visited]
            self.genes = [self.space.point2knob(index) for index in rest]
            self.visited.update(rest)
        else:
            fitness = np.array(scores) + 1e-8
            weights = [float(w) for w in fitness / fitness.max()]
            self.genes = []
            for _ in range(self.pop_size):
                child = self._child(genes, weights)
                self.visited.add(self.space.knob2point(child))
                self.genes.append(child)

    def _child(self, genes: Sequence[list[int]], weights: list[float]) -> list[int]:
        """Return a child of two genes that the space has, one that is new if that is easy."""
        dims = self.space.dims
        attempts = 0
        while True:
            a = self.rng.categorical(weights)
            others = [0.0 if k == a else weight for k, weight in enumerate(weights)]
            b = self.rng.categorical(others) if any(others) else a
            cut = below(self.rng, len(dims) + 1)
            child = genes[a][:cut] + genes[b][cut:]
            for k, dim in enumerate(dims):
                if self.rng.uniform_real() < self.mutation_prob:
                    child[k] = below(self.rng, dim)
            point = self.space.knob2point(child)
            if self.space.is_index_valid(point):
                attempts += 1
                if point not in self.visited or attempts >= _MOST_ATTEMPTS:
                    return child
