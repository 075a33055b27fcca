"""A genetic algorithm over the values of knobs."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

import numpy as np

from search.autotvm.errors import TemplateError
from search.autotvm.space.constraint import below
from search.autotvm.tuner.tuner import Tuner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from search.autotvm.measure.measurement import MeasureInput, MeasureResult
    from search.autotvm.space.entity import ConfigEntity
    from search.autotvm.task import Task

_MOST_ATTEMPTS: Final = 16
"""The most children that are bred to find one that was not measured."""


class GATuner(Tuner):
    """Breeds generations of configurations from the fastest ones before.

    A gene is the index of the value of each knob. A generation has `pop_size` genes, or as many as
    the space has. Parents are drawn from the last generation and the `elite_num` best of all, in
    proportion to their speed; a child has the first knobs of one parent and the last of another,
    and each knob takes a random value with probability `mutation_prob`.
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
        self.fitness: dict[int, float] = {}
        """The speeds of all configurations that were measured, by index."""
        self._begin(self.space.sample_ints(self.pop_size, rng=self.rng))

    def _begin(self, generation: list[int]) -> None:
        """Begin a generation; of its genes those are measured that were not, or all if all were."""
        self.generation = list(dict.fromkeys(generation))
        self.visited.update(generation)
        new = [point for point in self.generation if point not in self.fitness]
        self._left = new or self.generation

    def has_next(self) -> bool:
        """Say whether a gene of the generation is to be measured."""
        return bool(self._left)

    def next_batch(self, batch_size: int) -> list[ConfigEntity]:
        """Return the next genes of the generation."""
        taken, self._left = self._left[:batch_size], self._left[batch_size:]
        return [self.space.get(index) for index in taken]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Enter fitness; breed the next generation when all genes have one."""
        for inp, result in zip(inputs, results, strict=True):
            index = self.index_of(inp)
            if index is not None:
                self.fitness[index] = self.most_flops(result)
        self.visited.update(self.fitness)
        self._left = [point for point in self._left if point not in self.fitness]
        scored = not self._left and all(point in self.fitness for point in self.generation)
        if scored and len(self.visited) < len(self.space):
            self._breed()

    def _breed(self) -> None:
        if len(self.space) - len(self.visited) <= self.pop_size and self.space.length_is_exact:
            valid = filter(self.space.is_index_valid, range(self.space.range_length))
            self._begin([index for index in valid if index not in self.visited])
            return
        elites = heapq.nlargest(self.elite_num, self.fitness, key=self.fitness.__getitem__)
        parents = list(dict.fromkeys(self.generation + elites))
        genes = [self.space.point2knob(point) for point in parents]
        fitness = np.array([self.fitness[point] for point in parents]) + 1e-8
        weights = [float(w) for w in fitness / fitness.max()]
        children: list[int] = []
        for _ in range(self.pop_size):
            children.append(self._child(genes, weights))
            self.visited.add(children[-1])
        self._begin(children)

    def _child(self, genes: Sequence[list[int]], weights: list[float]) -> int:
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
                    return point
