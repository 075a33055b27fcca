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
from search.database.best_records import latest_records, with_traces
from search.database.module_equality import ModuleIndex
from search.errors import TuningError
from search.reports.profiler import Profiler
from search.runner.measure_candidate import MeasureCandidate
from search.search_strategy.breeding import Breeding
from search.search_strategy.evolution import Evolution, Scoring, first_designs, front_place
from search.search_strategy.individual import Individual, Key, Measured, choose_batch
from search.search_strategy.search_strategy import SearchStrategy, already_started, not_started
from search.search_strategy.trace_application import TraceApplication

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.database.database import Database
    from search.database.records import TuningRecord
    from search.runner import RunnerResult

_EXHAUSTED_AFTER: Final = 64
"""The number of draws in a row without a new point after which a space counts as exhausted.

If only one of n points is left, draws miss it with the probability (1 - 1/n)^64, which is 6e-7 for
n = 5 and 0.2 for n = 40. Mutation finds most points that random draws missed.
"""
_EXPLORATION: Final = 1.0
"""The factor of the deviation in the upper confidence bound of a score."""
_RANDOM_AT_FIRST: Final = 5
"""The factor for the number of random candidates before the first measurement of the program."""
_FIRST_SHARE: Final = 4
"""The first batch is a quarter of all trials, but at most 16."""
_GUIDED_BATCHES: Final = 8
"""The minimum number of batches that a trained model chooses."""
_LEAST_BATCH: Final = 3
_POINTS_A_SECOND: Final = 1000
"""The number of points to breed for each second of measuring; breeding takes at most a tenth of
that time.
"""
_TRIAL_SECONDS: Final = 0.1
"""The seconds of a trial of a fast program, which is called `_CALLS` times."""
_CALLS: Final = 4
_PROGRAMS_A_TRIAL: Final = 16
"""The number of programs to make for each trial, for a model that needs programs."""
_LEAST_PROGRAMS: Final = 4
_LEAST_POPULATION: Final = 64
_MOST_POPULATION: Final = 2048


@SearchStrategy.kinds.register("evolutionary")
class EvolutionarySearch(SearchStrategy):
    """Breeds candidates from good ones, and measures those with the best predictions.

    An individual is a point of a design space: the space, and a decision for each knob. A model
    that scores points (`CostModel.score_points`) scores thousands of them in the time of one trial,
    and only individuals to measure are replayed. For any other model every individual is replayed,
    and populations are smaller.

    A model with useful scores before the first measurement chooses the first batch, too, which has
    `first_batch` candidates and starts with the schedule of `default_schedule`. Without a trained
    model, half of a batch mutates the best measured individuals, if there are any; the rest is
    random. With one, each batch comes from a population. It consists of the best measured
    individuals
    (the fraction `init_measured_ratio`), the most promising individuals of the last population, and
    random ones, at least `init_min_unmeasured`.

    `genetic_num_iters` generations follow, whose parents are the best individuals so far. A child
    is a mutation with the probability `genetic_mutate_prob`, else a crossover, and there are up to
    `genetic_max_fail_count + 1` attempts to get a new one. The batch is chosen by upper confidence
    bounds (`choose_batch`), except for a random fraction `eps_greedy`. It has at most
    `num_trials_per_iter` candidates and at most an eighth of all trials, so that the model learns
    from its choices several times.

    By default, `population_size` is such that breeding takes a small fraction of the time of
    measuring the batch. If it is given, it also limits the number of replayed individuals.

    No program is measured twice. The search ends when it finds no new candidates.
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
        """Start a search from the records of the program in the database."""
        if self._search is not None:
            raise already_started(self)
        if not design_spaces or database is None or cost_model is None:
            raise TuningError(
                "EvolutionarySearch.pre_tuning got no design space, database or cost model; "
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
        """End the search and drop its state."""
        self._search = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch, None after the last trial or without new candidates."""
        search = self._in_progress()
        wanted = min(search.per_iter, search.max_trials - search.sent)
        if wanted <= 0:
            return None
        assert self.context is not None
        logger = self.context.logger
        logger.info("Choosing candidates")
        self.context.progress.phase("sampling")
        wanted = min(wanted, self._batch_size(search))
        picked = (self._batch_by_model if search.cost_model.trained else self._batch_without_model)(
            search, wanted
        )
        if not picked:
            logger.info(self.failure_summary() or "All candidates that were found are measured")
            return None
        logger.info("Candidates to be measured: %d", len(picked))
        search.pending = {}
        for individual in picked:
            is_scored = search.cost_model.trained and not math.isnan(individual.mean)
            score = individual.mean if is_scored else None
            search.pending[search.breeding.candidate(individual, score)] = individual
        return list(search.pending)

    def sample(self, count: int) -> list[MeasureCandidate]:
        """Return up to `count` random unmeasured candidates of the search in progress.

        The search does not choose them again.
        """
        search = self._in_progress()
        return [search.breeding.candidate(x) for x in self._random(search, count)]

    def evolve(self, first: Sequence[Schedule], count: int) -> list[MeasureCandidate]:
        """Return the best `count` candidates, best first, of an evolution that starts from `first`.

        The search does not choose them again.
        """
        search = self._in_progress()
        parents = [Individual.of_trace(sch.trace, search.breeding.spaces) for sch in first]
        ranked = sorted(self._evolution(search, parents, count), key=lambda x: -x.mean)
        accepted = (x for x in ranked if x.key not in search.known and self._accept(search, x))
        return [search.breeding.candidate(x, x.mean) for x in islice(accepted, count)]

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Record the trials and their times, including those of other candidates."""
        search = self._in_progress()
        search.sent += len(results)
        for candidate, result in zip(candidates, results, strict=True):
            own = search.pending.get(candidate)
            individual = own or search.external(candidate)
            seconds = result.median_secs
            if seconds is not None and not result.stopped:
                search.measured.add(individual, seconds)
                search.has_begun |= own is not None
        search.pending = {}

    def notify_records(self, records: Sequence[TuningRecord]) -> None:
        """Use records of another run as measured candidates, which may be parents."""
        search, breeding = self._in_progress(), self._in_progress().breeding
        assert self.context is not None
        for record, trace in with_traces(latest_records(records)):
            individual = Individual.of_trace(trace, breeding.spaces)
            search.known.add(individual.key)
            if record.schedules and record.is_valid and breeding.allows(individual):
                search.measured.add(individual, self.context.objective.of_record(record))
                search.has_begun = True

    def failure_summary(self) -> str | None:
        """Return the reasons why all samples were rejected, None if one was accepted."""
        if self._search is None:
            return None
        return self._search.breeding.application.failure_summary()

    def _in_progress(self) -> _Search:
        if self._search is None:
            raise not_started(self)
        return self._search

    def clone(self) -> EvolutionarySearch:
        """Return a strategy with the same parameters, without a search in progress."""
        twin = super().clone()
        twin._search = None
        return twin

    # ------------------------------------------------------------------------------------- batches

    def _batch_size(self, search: _Search) -> int:
        """Return the maximum size of the next batch."""
        if search.cost_model.trained and search.has_begun:
            return max(_LEAST_BATCH, search.max_trials // _GUIDED_BATCHES)
        return self.first_batch or min(16, max(4, search.max_trials // _FIRST_SHARE))

    def _batch_without_model(self, search: _Search, wanted: int) -> list[Individual]:
        """Return a batch without a model: mutations of the best candidates, and random ones."""
        parents = search.measured.best(wanted)
        near: list[Individual] = []
        seen: set[Key] = set()
        for _ in range(wanted // 2 * (self.genetic_max_fail_count + 1) if parents else 0):
            parent = parents[front_place(len(parents), self._rng)]
            child = search.breeding.mutate(parent)
            if child is None or child.key in search.known or child.key in seen:
                continue
            seen.add(child.key)
            if self._accept(search, child):
                near.append(child)
            if len(near) == wanted // 2:
                break
        return [*near, *self._random(search, wanted - len(near))]

    def _batch_by_model(self, search: _Search, wanted: int) -> list[Individual]:
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
        """Return up to `count` random unmeasured individuals.

        There are fewer if draws find nothing new, or if `max_fail_count` times `count`, or 64 if
        that is more, are rejected.
        """
        found: list[Individual] = []
        repeated = rejected = 0
        most_rejected = self.max_fail_count * max(count, _EXHAUSTED_AFTER)
        with Profiler.timeit("EvoSearch/SampleInitPopulation"):
            while len(found) < count and repeated < _EXHAUSTED_AFTER and rejected < most_rejected:
                individual = search.breeding.sample()
                if individual is None:
                    rejected += 1
                elif individual.key in search.known:
                    repeated += 1
                elif self._accept(search, individual):
                    repeated = 0
                    found.append(individual)
                elif individual.sch is None:
                    rejected += 1
                else:
                    repeated += 1
        if count:
            summary = search.breeding.application.summary()
            self._log("Random samples, rejected by each postprocessor:\n%s", summary)
            self._log("Random candidates: %d", len(found))
        return found

    def _accept(self, search: _Search, individual: Individual) -> bool:
        """Return True if an individual has an unmeasured program, and mark it as known."""
        search.known.add(individual.key)
        if not search.breeding.complete(individual):
            return False
        assert individual.sch is not None
        search.known.add(individual.key)
        return search.programs.add_first(individual.sch.mod, None)

    def _evolve(self, search: _Search, wanted: int) -> list[Individual]:
        """Return the unmeasured individuals of an evolution, with their scores."""
        size = self._population(search, wanted)
        first = {x.key: x for x in search.measured.best(int(size * self.init_measured_ratio))}
        self._log("Measured candidates in the first generation: %d", len(first))
        first.update((x.key, x) for x in search.promising if x.key not in search.known)
        for _ in range(max(self.init_min_unmeasured, size - len(first))):
            fresh = search.breeding.sample()
            if fresh is not None and fresh.key not in search.known:
                first.setdefault(fresh.key, fresh)
        return self._evolution(search, list(first.values()), wanted)

    def _evolution(
        self, search: _Search, first: Sequence[Individual], wanted: int
    ) -> list[Individual]:
        """Return the unmeasured individuals of all generations, starting from `first`."""
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
        """Return the number of individuals of a generation."""
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
    """The programs that this search has measured."""
    max_trials: int
    per_iter: int
    sent: int = 0
    known: set[Key] = field(default_factory=set)
    """The keys of measured and rejected individuals, and of others with the same programs."""
    measured: Measured = field(default_factory=Measured)
    pending: dict[MeasureCandidate, Individual] = field(default_factory=dict)
    """The batch in measurement."""
    promising: list[Individual] = field(default_factory=list)
    """The best unmeasured individuals of the last evolution, from which the next one starts."""
    has_begun: bool = False
    """True if a candidate of this search, or of an earlier one, was measured."""
    random_due: float = 0.0
    """The number of random candidates that are due; a batch takes the integer part."""

    def external(self, candidate: MeasureCandidate) -> Individual:
        """Return the individual of a candidate from elsewhere, and mark it as known."""
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
        raise TuningError(f"invalid {name} {value}; it is between 0 and 1")


def _check_count(name: str, value: int | None) -> None:
    if value is not None and value < 1:
        raise TuningError(f"invalid {name} {value}; it is at least 1")
