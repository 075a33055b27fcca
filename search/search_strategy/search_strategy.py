"""The base class of search strategies, and the strategies that sample at random."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from schedule import Schedule
from schedule.random_state import RandomState
from search.errors import TuningError
from search.kinds import Registry, TaskPart
from search.search_strategy.breeding import REFUSED, Breeding
from search.search_strategy.trace_application import TraceApplication

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.database.database import Database
    from search.database.records import TuningRecord
    from search.runner import RunnerResult
    from search.runner.measure_candidate import MeasureCandidate


class SearchStrategy(TaskPart["TuneContext"], ABC):
    """Chooses the next schedules to measure.

    A search calls `pre_tuning` once, then alternates `generate_measure_candidates` and
    `notify_runner_results` until the former returns None, then calls `post_tuning`.
    """

    kinds: ClassVar[Registry[SearchStrategy]] = Registry("search strategy")

    @staticmethod
    def create(kind: str | SearchStrategy = "evolutionary", **kwargs: Any) -> SearchStrategy:
        """Return a strategy: `"evolutionary"`, `"replay-trace"` or `"replay-func"`."""
        return SearchStrategy.kinds.part(kind, **kwargs)

    @abstractmethod
    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Start a search of at most `max_trials` candidates, in batches of `num_trials_per_iter`.

        `database.tuning_records_of(workload)` are the candidates that were measured before.
        Raises TuningError if called again before `post_tuning` (see `already_started`).
        """

    @abstractmethod
    def post_tuning(self) -> None:
        """End the search and drop its state."""

    @abstractmethod
    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch, which may be empty; None when the search is finished."""

    @abstractmethod
    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Accept the results of the last batch, in the order of the candidates.

        After an interruption there are fewer of both than were generated. The first batches of a
        task may be the initial schedules of a user, which the strategy did not choose.
        """

    def notify_records(self, records: Sequence[TuningRecord]) -> None:
        """Accept records of the task from another run.

        The search drops candidates that another run has measured, whatever this method does.
        """

    def failure_summary(self) -> str | None:
        """Return the reason why no candidate was generated so far; None if unknown or if one
        was.
        """
        return None


PySearchStrategy = SearchStrategy
"""TVM's name of the base class of user-defined strategies."""


def already_started(strategy: SearchStrategy) -> TuningError:
    """Return the error for a `pre_tuning` while a search is in progress."""
    return TuningError(
        f"{type(strategy).__name__}.pre_tuning was called twice; call post_tuning first, or clone "
        "the strategy for another task"
    )


def not_started(strategy: SearchStrategy) -> TuningError:
    """Return the error for using a search that was not started."""
    return TuningError(f"{type(strategy).__name__}: call pre_tuning before asking for candidates")


class _Replay(SearchStrategy):
    """Draws independent candidates.

    A batch ends after `max_fail_count` rejected draws in a row, and the search ends with an empty
    batch.
    """

    def __init__(self, max_fail_count: int = 100) -> None:
        self.max_fail_count = max_fail_count
        self._rng = RandomState(1)
        self._breeding: Breeding | None = None
        self._max_trials = 0
        self._per_iter = 0
        self._sent = 0

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        self._rng = RandomState(context.fork_seed())
        self._breeding = None

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Start a search; the database and the cost model are ignored."""
        if self._breeding is not None:
            raise already_started(self)
        context = self.context
        assert context is not None
        application, spaces = TraceApplication(context), context.points_of(design_spaces)
        self._breeding = Breeding(context, spaces, application, self._rng)
        self._max_trials = max_trials
        self._per_iter = num_trials_per_iter
        self._sent = 0

    def post_tuning(self) -> None:
        """End the search and drop its state."""
        self._breeding = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch; None after `max_trials` candidates, or if all are rejected."""
        if self._breeding is None:
            raise not_started(self)
        size = min(self._per_iter, self._max_trials - self._sent)
        if size <= 0:
            return None
        drawn: list[MeasureCandidate] = []
        failures = 0
        while len(drawn) < size and failures < self.max_fail_count:
            candidate = self._draw(self._breeding)
            if candidate is None:
                failures += 1
            else:
                failures = 0
                drawn.append(candidate)
        return drawn or None

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count the trials."""
        self._sent += len(results)

    @abstractmethod
    def _draw(self, breeding: Breeding) -> MeasureCandidate | None:
        """Return a random candidate, None if it is rejected."""

    def failure_summary(self) -> str | None:
        """Return the reasons why all draws were rejected, None if one was accepted."""
        return None if self._breeding is None else self._breeding.application.failure_summary()


@SearchStrategy.kinds.register("replay-func")
class ReplayFunc(_Replay):
    """Runs the space generator, which samples all decisions, for each candidate."""

    def _draw(self, breeding: Breeding) -> MeasureCandidate | None:
        assert self.context is not None
        application = breeding.application
        spaces = self.context.generate_design_space()
        sch = spaces[self._rng.uniform_int(0, len(spaces))]
        if not self.context.allows(sch):
            application.reject(REFUSED)
            return None
        return application.candidate(sch) if application.postprocess(sch) else None


@SearchStrategy.kinds.register("replay-trace")
class ReplayTrace(_Replay):
    """Replays the trace of a random design space with random decisions."""

    def _draw(self, breeding: Breeding) -> MeasureCandidate | None:
        individual = breeding.sample()
        if individual is None or not breeding.complete(individual):
            return None
        return breeding.candidate(individual)
