"""Strategies that sample at random: by running the space generator again, or by its traces."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from schedule import Schedule, Trace
from schedule.random_state import RandomState
from search.search_strategy.search_strategy import SearchStrategy, already_started, not_started
from search.search_strategy.trace_application import TraceApplication

if TYPE_CHECKING:
    from search.context import TuneContext
    from search.cost_model.cost_model import CostModel
    from search.database.database import Database
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult


class _Replay(SearchStrategy):
    """Draws candidates one by one, each independent of the others.

    After `max_fail_count` rejected draws in a row a batch ends with what it has; if that is
    nothing, the search ends.
    """

    def __init__(self, max_fail_count: int = 100) -> None:
        self.max_fail_count = max_fail_count
        self._application: TraceApplication | None = None
        self._rng = RandomState(1)
        self._spaces: list[Trace] = []
        self._max_trials = 0
        self._per_iter = 0
        self._sent = 0

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        super()._initialize_with_tune_context(context)
        self._rng = RandomState(context.fork_seed())
        self._application = None

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Schedule],
        database: Database | None = None,
        cost_model: CostModel | None = None,
    ) -> None:
        """Start a search; the database and the cost model are not used."""
        if self._application is not None:
            raise already_started(self)
        assert self.context is not None
        self._application = TraceApplication(self.context)
        self._spaces = [space.trace.simplified(True) for space in design_spaces]
        self._max_trials = max_trials
        self._per_iter = num_trials_per_iter
        self._sent = 0

    def post_tuning(self) -> None:
        """Forget the search."""
        self._application = None

    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch; None after `max_trials` candidates, or if all are rejected."""
        application = self._application
        if application is None:
            raise not_started(self)
        size = min(self._per_iter, self._max_trials - self._sent)
        if size <= 0:
            return None
        drawn: list[Schedule] = []
        in_vain = 0
        while len(drawn) < size and in_vain < self.max_fail_count:
            sch = self._draw(application)
            if sch is None:
                in_vain += 1
            else:
                in_vain = 0
                drawn.append(sch)
        return [application.candidate(sch) for sch in drawn] or None

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count the trials."""
        self._sent += len(results)

    @abstractmethod
    def _draw(self, application: TraceApplication) -> Schedule | None:
        """Return a random candidate, None if it is rejected."""

    def why_nothing(self) -> str | None:
        """Return the reasons for which all draws were rejected, None if one was accepted."""
        return None if self._application is None else self._application.why_nothing()


@SearchStrategy.kinds.register("replay-func")
class ReplayFunc(_Replay):
    """Runs the space generator for each candidate, which samples anew every time."""

    def _draw(self, application: TraceApplication) -> Schedule | None:
        assert self.context is not None
        spaces = self.context.generate_design_space()
        sch = spaces[self._rng.uniform_int(0, len(spaces))]
        return sch if application.postprocess(sch) else None


@SearchStrategy.kinds.register("replay-trace")
class ReplayTrace(_Replay):
    """Replays the trace of a design space with new decisions."""

    def _draw(self, application: TraceApplication) -> Schedule | None:
        trace = self._spaces[self._rng.uniform_int(0, len(self._spaces))]
        return application.apply(trace, resample=True)
