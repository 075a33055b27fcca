"""Evolutionary search, guided by a cost model."""

from __future__ import annotations

import heapq
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from schedule import Schedule, Trace
from schedule.random_state import RandomState
from search.database.module_equality import ModuleSet
from search.errors import TuningError, blamed_on
from search.measure_candidate import MeasureCandidate, described
from search.profiler import Profiler
from search.search_strategy.search_strategy import SearchStrategy, already_started, not_started
from search.search_strategy.trace_application import TraceApplication

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.database.database import Database
    from search.database.records import Workload
    from search.mutator.mutator import Mutator
    from search.runner import RunnerResult

_EXHAUSTED_AFTER: Final = 64
"""So many draws in a row that give nothing new mean that a space has no more.

With the fewest points that this search can have left, one of n, it misses it with probability
(1 - 1/n)^64: 6e-7 for n = 5, 0.2 for n = 40, and mutation finds most of what random draws missed.
"""
_UNSCORED: Final = -1.0


@SearchStrategy.kinds.register("evolutionary")
class EvolutionarySearch(SearchStrategy):
    """Mutates the decisions of good candidates and measures what the cost model expects most of.

    While the model knows nothing, batches are random samples of all design spaces, in batches of
    `first_batch` so that the model soon knows something. Then each batch comes from a population:
    the best measured ones (a share of `init_measured_ratio`), the most promising of the population
    before, the rest random but at least `init_min_unmeasured` of them. `genetic_num_iters`
    generations follow, in which an individual, drawn in proportion to its score, is mutated with
    probability `genetic_mutate_prob`, in up to `genetic_max_fail_count + 1` attempts. Of all
    individuals seen, the best by score are measured, and a share `eps_greedy` of random ones. A
    batch has at most `num_trials_per_iter` candidates, and at most a fifth of all trials once the
    model is trained, so that it learns several times from its own choices.

    A population is smaller than TVM's (512): a candidate costs milliseconds here, and a model of a
    hundred measurements does not rank thousands of candidates well.

    No program is measured twice. When nothing new can be found, the search ends.
    """

    def __init__(
        self,
        *,
        population_size: int = 64,
        init_measured_ratio: float = 0.25,
        init_min_unmeasured: int = 16,
        max_fail_count: int = 5,
        genetic_num_iters: int = 3,
        genetic_mutate_prob: float = 0.85,
        genetic_max_fail_count: int = 10,
        eps_greedy: float = 0.05,
        first_batch: int = 16,
    ) -> None:
        _check_share("init_measured_ratio", init_measured_ratio)
        _check_share("genetic_mutate_prob", genetic_mutate_prob)
        _check_share("eps_greedy", eps_greedy)
        if population_size < 1:
            raise TuningError(f"population_size is at least 1, got {population_size}")
        self.population_size = population_size
        self.init_measured_ratio = init_measured_ratio
        self.init_min_unmeasured = init_min_unmeasured
        self.max_fail_count = max_fail_count
        self.genetic_num_iters = genetic_num_iters
        self.genetic_mutate_prob = genetic_mutate_prob
        self.genetic_max_fail_count = genetic_max_fail_count
        self.eps_greedy = eps_greedy
        self.first_batch = first_batch
        self._rng = RandomState(1)
        self._search: _Search | None = None

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        self._rng = RandomState(context.fork_seed())
        self._search = None

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Start a search; what the database has of the program seeds it and is not repeated."""
        if self._search is not None:
            raise already_started(self)
        if not design_spaces or database is None or cost_model is None:
            raise TuningError(
                "EvolutionarySearch needs design spaces, a database and a cost model; "
                'for a search without a model use strategy="replay-trace"'
            )
        assert self.context is not None
        assert self.context.mod is not None
        self._search = _Search(
            application=TraceApplication(self.context),
            spaces=[space.trace.simplified(True) for space in design_spaces],
            database=database,
            cost_model=cost_model,
            workload=database.commit_workload(self.context.mod),
            measured=ModuleSet(database.module_equality),
            max_trials=max_trials,
            per_iter=num_trials_per_iter,
        )
        self._search.known.update(
            decisions_key(record.trace)
            for record in database.tuning_records_of(self._search.workload)
        )

    def post_tuning(self) -> None:
        """Forget the search."""
        self._search = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch, None when trials or candidates are used up."""
        search = self._search
        if search is None:
            raise not_started(self)
        wanted = min(search.per_iter, search.max_trials - search.sent)
        if wanted <= 0:
            return None
        assert self.context is not None
        logger = self.context.logger
        logger.info("Generating candidates......")
        self.context.progress.phase("sampling")
        if search.cost_model.trained:
            wanted = min(wanted, max(1, search.max_trials // 5))
            picked = self._guided(search, wanted)
        else:
            picked = self._new(search, self._sample(search, min(wanted, self.first_batch)))
        if not picked:
            logger.info(self.why_nothing() or "no candidate is left that was not measured")
            return None
        logger.info("Sending %d candidates(s) for measurement", len(picked))
        return [search.application.candidate(individual.sch) for individual in picked]

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count the trials."""
        if self._search is None:
            raise not_started(self)
        self._search.sent += len(results)

    def why_nothing(self) -> str | None:
        """Return what rejected all samples, None if one was accepted."""
        return None if self._search is None else self._search.application.why_nothing()

    def clone(self) -> EvolutionarySearch:
        """Return a strategy with the same parameters and no search in progress."""
        twin = super().clone()
        twin._search = None
        return twin

    # ------------------------------------------------------------------------------ the population

    def _sample(self, search: _Search, count: int) -> list[_Individual]:
        """Return up to `count` random candidates, all different and none measured before.

        There are fewer if draws give nothing new, or `max_fail_count` of them for each that is
        wanted (and for at least 64) are rejected.
        """
        found: list[_Individual] = []
        keys: set[str] = set()
        in_vain = rejected = 0
        most_rejected = self.max_fail_count * max(count, _EXHAUSTED_AFTER)
        with Profiler.timeit("EvoSearch/SampleInitPopulation"):
            while len(found) < count and in_vain < _EXHAUSTED_AFTER and rejected < most_rejected:
                trace = search.spaces[self._rng.uniform_int(0, len(search.spaces))]
                sch = search.application.apply(trace, resample=True)
                if sch is None:
                    rejected += 1
                    continue
                individual = _Individual(sch, decisions_key(sch.trace))
                if individual.key in keys or individual.key in search.known:
                    in_vain += 1
                    continue
                in_vain = 0
                keys.add(individual.key)
                found.append(individual)
        self._log("Sample-Init-Population summary:\n%s", search.application.summary())
        self._log("Sampled %d candidate(s)", len(found))
        return found

    def _best_measured(self, search: _Search, count: int) -> list[_Individual]:
        """Return the best candidates of the database, replayed once each."""
        with Profiler.timeit("EvoSearch/PickBestFromDatabase"):
            best: list[_Individual] = []
            for record in search.database.get_top_k(search.workload, count):
                key = decisions_key(record.trace)
                if key not in search.replayed:
                    search.replayed[key] = search.application.apply(record.trace)
                sch = search.replayed[key]
                if sch is not None:
                    best.append(_Individual(sch, key))
        self._log("Picked top %d candidate(s) from database", len(best))
        return best

    def _guided(self, search: _Search, wanted: int) -> list[_Individual]:
        """Return the most promising candidates of an evolution."""
        measured = self._best_measured(search, int(self.population_size * self.init_measured_ratio))
        known = [*measured, *(i for i in search.promising if i.key not in search.known)]
        fresh = self._sample(
            search, max(self.init_min_unmeasured, self.population_size - len(known))
        )
        if not known and not fresh:
            return []
        best = self._evolve(search, [*known, *fresh], wanted)
        self._log("Got %d candidate(s) with evolutionary search", len(best))
        with Profiler.timeit("EvoSearch/PickWithEpsGreedy"):
            if len(best) >= wanted:
                search.random_due += wanted * self.eps_greedy
            lucky = self._shuffled(fresh)[: int(search.random_due)]
            search.random_due -= len(lucky)
            keys = {individual.key for individual in lucky}
            chosen = [i for i in best if i.key not in keys][: wanted - len(lucky)]
            return self._new(search, [*chosen, *lucky])

    def _evolve(
        self, search: _Search, population: list[_Individual], wanted: int
    ) -> list[_Individual]:
        """Return the `wanted` best unmeasured individuals of all generations, best first."""
        assert self.context is not None
        seen = set(search.known)
        promising: list[_Individual] = []
        heap: list[tuple[float, int, _Individual]] = []
        order = 0
        for generation in range(self.genetic_num_iters + 1):
            self._score(search, population)
            for individual in population:
                if individual.key in seen:
                    continue
                seen.add(individual.key)
                promising.append(individual)
                order += 1
                entry = (individual.score, -order, individual)
                if len(heap) < wanted:
                    heapq.heappush(heap, entry)
                else:
                    heapq.heappushpop(heap, entry)
            self._log(
                "Evolve iter #%d done. Summary:\n%s", generation, search.application.summary()
            )
            if generation == self.genetic_num_iters:
                break
            self.context.progress.phase("evolving", generation, self.genetic_num_iters)
            with Profiler.timeit("EvoSearch/Evolve/Mutation"):
                population = self._next_generation(search, population)
        promising.sort(key=lambda individual: -individual.score)
        search.promising = promising[: self.population_size // 2]
        for individual in search.promising:
            individual.score = _UNSCORED  # the model will have learned by the next time
        ranked = sorted(heap, reverse=True)
        self._log("Scores of the best %d candidates:\n%s", len(ranked), _scores(ranked))
        return [individual for _, _, individual in ranked]

    def _score(self, search: _Search, population: Sequence[_Individual]) -> None:
        assert self.context is not None
        unscored = [individual for individual in population if individual.score == _UNSCORED]
        if not unscored:
            return
        with Profiler.timeit("EvoSearch/Evolve/PredictNormalizedScore"):
            candidates = [search.application.candidate(i.sch) for i in unscored]
            with blamed_on(search.cost_model, lambda: described(candidates)):
                scores = search.cost_model.predict(self.context, candidates)
        for individual, score in zip(unscored, scores, strict=True):
            individual.score = max(0.0, float(score))

    def _next_generation(self, search: _Search, population: list[_Individual]) -> list[_Individual]:
        assert self.context is not None
        assert self.context.space_generator is not None
        mutators = list(self.context.space_generator.mutator_probs.items())
        weights = np.array([individual.score for individual in population])
        cumulative = np.cumsum(weights if weights.sum() > 0 else np.ones(len(population)))
        choice = _MutatorChoice(mutators, self.genetic_mutate_prob)
        children: dict[str, _Individual] = {}
        kept: set[int] = set()
        for _ in range(len(population)):
            for _ in range(self.genetic_max_fail_count + 1):
                place = _draw(cumulative, self._rng)
                parent = population[place]
                mutator = choice.draw(self._rng)
                if mutator is None:
                    if place not in kept:
                        kept.add(place)
                        children[parent.key] = parent
                        break
                    continue
                child = self._mutated(search, parent, mutator, children)
                if child is not None:
                    children[child.key] = child
                    break
        return list(children.values()) or population

    def _mutated(
        self,
        search: _Search,
        parent: _Individual,
        mutator: Mutator,
        known: dict[str, _Individual],
    ) -> _Individual | None:
        with blamed_on(mutator, lambda: f"the trace\n{parent.sch.trace}"):
            trace = mutator.apply(parent.sch.trace, self._rng)
        if trace is None:
            return None
        key = decisions_key(trace)
        if key in search.known or key in known:
            return None
        sch = search.application.apply(trace)
        if sch is None:
            return None
        return _Individual(sch, decisions_key(sch.trace))

    # ------------------------------------------------------------------------------------- picking

    def _new(self, search: _Search, individuals: Iterable[_Individual]) -> list[_Individual]:
        """Return those whose program was not measured yet, and count them as measured."""
        new = []
        for individual in individuals:
            search.known.add(individual.key)
            if search.measured.add(individual.sch.mod):
                new.append(individual)
        return new

    def _shuffled(self, individuals: Sequence[_Individual]) -> list[_Individual]:
        order = sorted((self._rng.next(), k) for k in range(len(individuals)))
        return [individuals[k] for _, k in order]

    def _log(self, text: str, *values: object) -> None:
        assert self.context is not None
        self.context.logger.log(logging.INFO, text, *values)


@dataclass(eq=False)
class _Search:
    """The state of a search in progress."""

    application: TraceApplication
    spaces: list[Trace]
    database: Database
    cost_model: CostModel
    workload: Workload
    measured: ModuleSet
    """Programs that were measured."""
    max_trials: int
    per_iter: int
    sent: int = 0
    known: set[str] = field(default_factory=set)
    """Keys of the traces that were measured, or whose program was."""
    promising: list[_Individual] = field(default_factory=list)
    """The best of the last evolution that were not measured; the next one starts from them too."""
    random_due: float = 0.0
    """How many candidates are still to be chosen at random; a batch takes the whole ones of it."""
    replayed: dict[str, Schedule | None] = field(default_factory=dict)


@dataclass(eq=False)
class _Individual:
    """A candidate of a population, with its score once the model was asked."""

    sch: Schedule
    key: str
    score: float = _UNSCORED


class _MutatorChoice:
    """None with probability `1 - prob`, else a mutator in proportion to its weight."""

    def __init__(self, mutators: Sequence[tuple[Mutator, float]], prob: float) -> None:
        self._mutators = [mutator for mutator, _ in mutators]
        weights = np.array([weight for _, weight in mutators], np.float64)
        total = weights.sum()
        self._cumulative = np.cumsum([1 - prob, *(weights * prob / total)] if total else [1.0])

    def draw(self, rng: RandomState) -> Mutator | None:
        place = _draw(self._cumulative, rng)
        return None if place == 0 else self._mutators[place - 1]


def decisions_key(trace: Trace) -> str:
    """Return a text that two traces share if they do the same with the same decisions.

    Postprocessing is left out: it follows from the rest.
    """
    return json.dumps(trace.simplified(True).as_json(), separators=(",", ":"))


def _draw(cumulative: NDArray[np.float64], rng: RandomState) -> int:
    place = int(np.searchsorted(cumulative, rng.uniform_real() * cumulative[-1], side="right"))
    return min(place, len(cumulative) - 1)


def _scores(ranked: Sequence[tuple[float, int, _Individual]]) -> str:
    texts = [f"{score:.4f}" for score, _, _ in ranked]
    rows = [texts[k : k + 16] for k in range(0, len(texts), 16)]
    return "\n".join("  ".join(row) for row in rows)


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise TuningError(f"{name} lies between 0 and 1, got {value}")
