"""Evolutionary search, guided by a cost model."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from schedule import Schedule
from schedule.random_state import RandomState
from search.database.best_records import those_that_count, with_traces
from search.database.module_equality import ModuleIndex
from search.errors import TuningError
from search.reports.profiler import Profiler
from search.runner.measure_candidate import MeasureCandidate
from search.search_strategy.batch_choice import choose_batch
from search.search_strategy.breeding import Breeding
from search.search_strategy.evolution import Evolution, Scoring, first_designs, front_place
from search.search_strategy.individual import Individual, Key, Measured
from search.search_strategy.search_strategy import SearchStrategy, already_started, not_started
from search.search_strategy.trace_application import TraceApplication

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.database.database import Database
    from search.database.records import TuningRecord
    from search.runner import RunnerResult

_EXHAUSTED_AFTER: Final = 64
"""The draws in a row that give nothing new after which a space counts as exhausted.

With the fewest points that this search can have left, one of n, it misses it with probability
(1 - 1/n)^64: 6e-7 for n = 5, 0.2 for n = 40, and mutation finds most of what random draws missed.
"""
_EXPLORATION: Final = 1.0
"""The deviations of the model's score that count as a promise."""
_RANDOM_AT_FIRST: Final = 5
"""The factor to the random candidates while the model has seen nothing of the program."""
_FIRST_SHARE: Final = 4
"""A quarter of few trials is the first batch; of many, 16 are enough to learn something."""
_GUIDED_BATCHES: Final = 8
"""The least number of batches in which a trained model chooses all trials."""
_LEAST_BATCH: Final = 3
_POINTS_A_SECOND: Final = 1000
"""The points that may be bred for each second of measuring; it takes a tenth of that or less."""
_TRIAL_SECONDS: Final = 0.1
"""The time of a trial of a fast program; a program is called `_CALLS` times in a trial."""
_CALLS: Final = 4
_PROGRAMS_A_TRIAL: Final = 16
"""The programs that are made for each trial, for a model that cannot do without."""
_LEAST_PROGRAMS: Final = 4
_LEAST_POPULATION: Final = 64
_MOST_POPULATION: Final = 2048


@SearchStrategy.kinds.register("evolutionary")
class EvolutionarySearch(SearchStrategy):
    """Changes the decisions of good candidates; measures those the cost model expects most of.

    An individual is a point of a design space: which space, and what each sampling instruction
    decides. A model that scores points (`CostModel.score_points`) sees thousands of them in the
    time that one trial takes, and only what is to be measured is replayed; for another model every
    individual is replayed, and there are fewer.

    A model whose scores mean something before it has seen any time chooses the first batch, of
    `first_batch`, too: the schedule of `default_schedule` first. While a model knows nothing,
    batches are random points, half of them steps away from the best measured ones as soon as there
    are any. Then each batch comes from a population: the best measured ones (a share of
    `init_measured_ratio`), the most promising of the population before, the rest random but at
    least `init_min_unmeasured` of them.

    `genetic_num_iters` generations follow, each of children of the best seen so far: with
    probability `genetic_mutate_prob` a mutation, else a cross of two, in up to
    `genetic_max_fail_count + 1` attempts to get one that was not seen. The batch is chosen by
    upper confidence bounds, see `choose_batch`, and a share `eps_greedy` of it at random. It has
    at most `num_trials_per_iter` candidates, and at most an eighth of all trials, so that the
    model learns several times from its own choices.

    `population_size` and `first_batch` are chosen where they are None: the former so that breeding
    takes a small share of the time that measuring the batch takes, and only so many individuals are
    replayed as well.

    No program is measured twice. When nothing new can be found, the search ends.
    """

    def __init__(
        self,
        *,
        population_size: int | None = None,
        init_measured_ratio: float = 0.25,
        init_min_unmeasured: int = 16,
        max_fail_count: int = 5,
        genetic_num_iters: int = 3,
        genetic_mutate_prob: float = 0.85,
        genetic_max_fail_count: int = 10,
        eps_greedy: float = 0.05,
        first_batch: int | None = None,
    ) -> None:
        _check_share("init_measured_ratio", init_measured_ratio)
        _check_share("genetic_mutate_prob", genetic_mutate_prob)
        _check_share("eps_greedy", eps_greedy)
        _check_count("population_size", population_size)
        _check_count("first_batch", first_batch)
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
        """Start a search; the database's records of the program seed it and are not repeated."""
        if self._search is not None:
            raise already_started(self)
        if not design_spaces or database is None or cost_model is None:
            raise TuningError(
                "EvolutionarySearch needs design spaces, a database and a cost model; "
                'for a search without a model use strategy="replay-trace"'
            )
        context = self.context
        assert context is not None
        assert context.mod is not None
        spaces = context.points_of(design_spaces)
        breeding = Breeding(context, spaces, TraceApplication(context), self._rng)
        self._search = _Search(
            breeding=breeding,
            scoring=Scoring(context, cost_model, breeding),
            cost_model=cost_model,
            programs=ModuleIndex(database.module_equality),
            max_trials=max_trials,
            per_iter=num_trials_per_iter,
        )
        workload = database.commit_workload(context.mod)
        self.notify_records(database.tuning_records_of(workload, context.target))

    def post_tuning(self) -> None:
        """Forget the search."""
        self._search = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch, None when trials or candidates are used up."""
        search = self._in_progress()
        wanted = min(search.per_iter, search.max_trials - search.sent)
        if wanted <= 0:
            return None
        assert self.context is not None
        logger = self.context.logger
        logger.info("Choosing candidates")
        self.context.progress.phase("sampling")
        wanted = min(wanted, self._batch_size(search))
        picked = (self._guided if search.cost_model.trained else self._unguided)(search, wanted)
        if not picked:
            logger.info(self.why_nothing() or "Every candidate that can be found was measured")
            return None
        logger.info("Candidates to be measured: %d", len(picked))
        search.pending = {}
        for individual in picked:
            asked = search.cost_model.trained and not math.isnan(individual.mean)
            score = individual.mean if asked else None
            search.pending[search.breeding.candidate(individual, score)] = individual
        return list(search.pending)

    def sample(self, count: int) -> list[MeasureCandidate]:
        """Return up to `count` random candidates of the search in progress, none measured before.

        They count as taken: the search does not choose them itself any more.
        """
        search = self._in_progress()
        return [search.breeding.candidate(x) for x in self._random(search, count)]

    def evolve(self, first: Sequence[Schedule], count: int) -> list[MeasureCandidate]:
        """Return the best `count` candidates, best first, of an evolution that begins with `first`.

        Their order is that of the cost model; they count as taken, like those of `sample`.
        """
        search = self._in_progress()
        parents = [Individual.of_trace(sch.trace, search.breeding.spaces) for sch in first]
        ranked = sorted(self._evolution(search, parents, count), key=lambda x: -x.mean)
        accepted = (x for x in ranked if x.key not in search.known and self._accept(search, x))
        return [search.breeding.candidate(x, x.mean) for x in islice(accepted, count)]

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count the trials and remember how fast each was, those that others chose as well."""
        search = self._in_progress()
        search.sent += len(results)
        for candidate, result in zip(candidates, results, strict=True):
            own = search.pending.get(candidate)
            individual = own or search.guest(candidate)
            seconds = result.median_secs
            if seconds is not None and not result.stopped:
                search.measured.add(individual, seconds)
                search.has_begun |= own is not None
        search.pending = {}

    def notify_records(self, records: Sequence[TuningRecord]) -> None:
        """Count what another run has measured as measured: a parent, and not repeated."""
        search, breeding = self._in_progress(), self._in_progress().breeding
        assert self.context is not None
        for record, trace in with_traces(those_that_count(records)):
            individual = Individual.of_trace(trace, breeding.spaces)
            search.known.add(individual.key)
            if record.schedules and record.is_valid and breeding.allows(individual):
                search.measured.add(individual, self.context.objective.of_record(record))
                search.has_begun = True

    def why_nothing(self) -> str | None:
        """Return the reasons for which all samples were rejected, None if one was accepted."""
        return None if self._search is None else self._search.breeding.application.why_nothing()

    def _in_progress(self) -> _Search:
        if self._search is None:
            raise not_started(self)
        return self._search

    def clone(self) -> EvolutionarySearch:
        """Return a strategy with the same parameters and no search in progress."""
        twin = super().clone()
        twin._search = None
        return twin

    # ------------------------------------------------------------------------------------- batches

    def _batch_size(self, search: _Search) -> int:
        """Return how many candidates the next batch has at most."""
        if search.cost_model.trained and search.has_begun:
            return max(_LEAST_BATCH, search.max_trials // _GUIDED_BATCHES)
        return self.first_batch or min(16, max(4, search.max_trials // _FIRST_SHARE))

    def _unguided(self, search: _Search, wanted: int) -> list[Individual]:
        """Return a batch without a model: random, and near the best where there is one."""
        parents = search.measured.best(wanted)
        near: list[Individual] = []
        seen: set[Key] = set()
        for _ in range(wanted // 2 * (self.genetic_max_fail_count + 1) if parents else 0):
            parent = parents[front_place(len(parents), self._rng)]
            child = search.breeding.mutated(parent)
            if child is None or child.key in search.known or child.key in seen:
                continue
            seen.add(child.key)
            if self._accept(search, child):
                near.append(child)
            if len(near) == wanted // 2:
                break
        return [*near, *self._random(search, wanted - len(near))]

    def _guided(self, search: _Search, wanted: int) -> list[Individual]:
        """Return the most promising candidates of an evolution, and random ones."""
        begins = self.population_size is None and not search.has_begun
        assert self.context is not None
        if begins:
            model, breeding = search.cost_model, search.breeding
            with Profiler.timeit("EvoSearch/FirstDesigns"):
                pool = first_designs(self.context, breeding.spaces, breeding.application, model)
        else:
            pool = self._evolve(search, wanted)
        with Profiler.timeit("EvoSearch/PickWithEpsGreedy"):
            share = self.eps_greedy * (1 if len(search.measured) else _RANDOM_AT_FIRST)
            search.random_due += wanted * share
            lucky = self._random(search, min(wanted, int(search.random_due)))
            search.random_due -= len(lucky)
            best = choose_batch(
                [x for x in pool if x.key not in search.known],
                wanted - len(lucky),
                _EXPLORATION,
                lambda individual: self._accept(search, individual),
                search.measured.twins,
            )
        self._log("Predicted scores of the best %d candidates:\n%s", len(best), _scores(best))
        self._log("Candidates found by evolution: %d", len(best))
        promising = sorted(pool, key=lambda x: -x.mean)
        search.promising = promising[: max(1, len(pool) // (2 * self.genetic_num_iters + 2))]
        missing = wanted - len(best) - len(lucky)
        return [*best, *lucky, *self._random(search, missing)]

    def _random(self, search: _Search, count: int) -> list[Individual]:
        """Return up to `count` random candidates, none measured before.

        There are fewer if draws give nothing new, or `max_fail_count` of them for each that is
        wanted (and for at least 64) are rejected.
        """
        found: list[Individual] = []
        in_vain = rejected = 0
        most_rejected = self.max_fail_count * max(count, _EXHAUSTED_AFTER)
        with Profiler.timeit("EvoSearch/SampleInitPopulation"):
            while len(found) < count and in_vain < _EXHAUSTED_AFTER and rejected < most_rejected:
                individual = search.breeding.sampled()
                if individual is None:
                    rejected += 1
                elif individual.key in search.known:
                    in_vain += 1
                elif self._accept(search, individual):
                    in_vain = 0
                    found.append(individual)
                elif individual.sch is None:
                    rejected += 1
                else:
                    in_vain += 1
        if count:
            summary = search.breeding.application.summary()
            self._log("Random samples, rejected by each postprocessor:\n%s", summary)
            self._log("Random candidates: %d", len(found))
        return found

    def _accept(self, search: _Search, individual: Individual) -> bool:
        """Return True if an individual has a program that was not measured, and count it as known."""
        search.known.add(individual.key)
        if not search.breeding.complete(individual):
            return False
        assert individual.sch is not None
        search.known.add(individual.key)
        return search.programs.add_first(individual.sch.mod, None)

    def _evolve(self, search: _Search, wanted: int) -> list[Individual]:
        """Return the individuals of an evolution that were not measured, with their scores."""
        size = self._population(search, wanted)
        first = {x.key: x for x in search.measured.best(int(size * self.init_measured_ratio))}
        self._log("Measured candidates in the first generation: %d", len(first))
        first.update((x.key, x) for x in search.promising if x.key not in search.known)
        for _ in range(max(self.init_min_unmeasured, size - len(first))):
            fresh = search.breeding.sampled()
            if fresh is not None and fresh.key not in search.known:
                first.setdefault(fresh.key, fresh)
        return self._evolution(search, list(first.values()), wanted)

    def _evolution(
        self, search: _Search, first: Sequence[Individual], wanted: int
    ) -> list[Individual]:
        """Return the individuals of the generations after the `first` that were not measured."""
        context = self.context
        assert context is not None

        def report(number: int) -> None:
            context.progress.phase("evolving", number, self.genetic_num_iters)
            summary = search.breeding.application.summary()
            self._log("Generation %d, rejected by each postprocessor:\n%s", number, summary)

        evolution = Evolution(
            search.breeding,
            search.scoring,
            search.known,
            self._rng,
            mutate_prob=self.genetic_mutate_prob,
            max_fail_count=self.genetic_max_fail_count,
            exploration=_EXPLORATION,
        )
        programs = self.population_size or max(
            _LEAST_PROGRAMS, _PROGRAMS_A_TRIAL * wanted // (self.genetic_num_iters + 1)
        )
        size = self._population(search, wanted)
        return evolution.run(first, self.genetic_num_iters, size, programs, report)

    def _population(self, search: _Search, wanted: int) -> int:
        """Return how many individuals a generation has."""
        if self.population_size is not None:
            return self.population_size
        seconds = wanted * (_TRIAL_SECONDS + _CALLS * search.measured.typical_seconds())
        size = int(_POINTS_A_SECOND * seconds) // (self.genetic_num_iters + 1)
        points = sum(space.num_points for space in search.breeding.spaces)
        return min(max(size, _LEAST_POPULATION), _MOST_POPULATION, points)

    def _log(self, text: str, *values: object) -> None:
        assert self.context is not None
        self.context.logger.log(logging.INFO, text, *values)


@dataclass(eq=False)
class _Search:
    """The state of a search in progress."""

    breeding: Breeding
    scoring: Scoring
    cost_model: CostModel
    programs: ModuleIndex[None]
    """Programs that were measured, those of this search."""
    max_trials: int
    per_iter: int
    sent: int = 0
    known: set[Key] = field(default_factory=set)
    """The keys of measured candidates, of others with the same programs, and of rejected ones."""
    measured: Measured = field(default_factory=Measured)
    pending: dict[MeasureCandidate, Individual] = field(default_factory=dict)
    """The batch that is being measured."""
    promising: list[Individual] = field(default_factory=list)
    """The best of the last evolution that were not measured; the next one starts from them too."""
    has_begun: bool = False
    """True if a candidate of the search, or of an earlier one, was measured."""
    random_due: float = 0.0
    """The candidates that are still to be chosen at random; a batch takes the whole ones of it."""

    def guest(self, candidate: MeasureCandidate) -> Individual:
        """Return the individual that a candidate of others is, which is known from now on."""
        individual = Individual.of_trace(candidate.sch.trace, self.breeding.spaces)
        self.known.add(individual.key)
        self.programs.add_first(candidate.sch.mod, None)
        return individual


def _scores(ranked: Sequence[Individual]) -> str:
    texts = [f"{individual.mean:.4f}" for individual in ranked]
    rows = [texts[k : k + 16] for k in range(0, len(texts), 16)]
    return "\n".join("  ".join(row) for row in rows)


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise TuningError(f"{name} lies between 0 and 1, got {value}")


def _check_count(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise TuningError(f"{name} is at least 1, got {value}")
