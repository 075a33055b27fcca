"""Generations of individuals, each bred from the best of those before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedule.random_state import RandomState
from search.reports.profiler import Profiler
from search.search_strategy.breeding import Breeding
from search.search_strategy.individual import Individual, Key
from search.search_strategy.scoring import Scoring


class Evolution:
    """Breeds generations with a probability of mutation, each child in so many attempts.

    `known` are the keys of what was measured or rejected: such individuals may be parents, but
    they are not bred again and not found. What scoring rejects is added to them.
    """

    def __init__(
        self,
        breeding: Breeding,
        scoring: Scoring,
        known: set[Key],
        rng: RandomState,
        *,
        mutate_prob: float,
        max_fail_count: int,
        exploration: float,
    ) -> None:
        self._breeding = breeding
        self._scoring = scoring
        self._known = known
        self._rng = rng
        self._mutate_prob = mutate_prob
        self._max_fail_count = max_fail_count
        self._exploration = exploration

    def run(
        self,
        first: Sequence[Individual],
        generations: int,
        size: int,
        most_programs: int,
        report: Callable[[int], None],
    ) -> list[Individual]:
        """Return all individuals that were scored and are not known, in the order of their birth.

        A generation has `size` individuals, of which `most_programs` may be replayed. `report` is
        called with the number of each generation that was scored.
        """
        pool: dict[Key, Individual] = {}
        born: Sequence[Individual] = first
        for number in range(generations + 1):
            before = [x.key for x in born]
            with Profiler.timeit("EvoSearch/Evolve/PredictNormalizedScore"):
                scored, rejected = self._scoring.score(born, most_programs)
            self._known.update(x.key for x in rejected)
            # What became something else by the repair of its decisions is not tried again.
            self._known.update(key for key, x in zip(before, born, strict=True) if key != x.key)
            for individual in scored:
                pool.setdefault(individual.key, individual)
            report(number)
            if number == generations or not pool:
                break
            with Profiler.timeit("EvoSearch/Evolve/Mutation"):
                born = self._next_generation(pool, size)
        return [x for x in pool.values() if x.key not in self._known]

    def _next_generation(self, pool: dict[Key, Individual], size: int) -> list[Individual]:
        """Return up to `size` children of the best `size` individuals."""
        parents = sorted(pool.values(), key=lambda x: -(x.mean + self._exploration * x.std))[:size]
        children: dict[Key, Individual] = {}
        for _ in range(size):
            for _ in range(self._max_fail_count + 1):
                child = self._child(parents)
                if child is None or child.key in self._known:
                    continue
                if child.key not in pool and child.key not in children:
                    children[child.key] = child
                    break
        return list(children.values())

    def _child(self, parents: Sequence[Individual]) -> Individual | None:
        parent = parents[front_place(len(parents), self._rng)]
        if self._rng.uniform_real() >= self._mutate_prob:
            other = parents[front_place(len(parents), self._rng)]
            return self._breeding.crossed(parent, other)
        return self._breeding.mutated(parent)


def front_place(count: int, rng: RandomState) -> int:
    """Return an index below `count`; half of the draws are in the first quarter."""
    return int(count * rng.uniform_real() ** 2)
