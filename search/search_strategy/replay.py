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
    from search.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult


class _Replay(SearchStrategy):
    """Draws candidates one by one, each independent of the others."""

    def __init__(self) -> None:
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
        """Return the next batch; None once `max_trials` candidates were measured."""
        application = self._application
        if application is None:
            raise not_started(self)
        size = min(self._per_iter, self._max_trials - self._sent)
        if size <= 0:
            return None
        drawn = [self._draw(application) for _ in range(size)]
        return [application.candidate(sch) for sch in drawn if sch is not None]

    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Count a batch as done."""
        self._sent += self._per_iter

    @abstractmethod
    def _draw(self, application: TraceApplication) -> Schedule | None:
        """Return a random candidate, None if none could be made."""


@SearchStrategy.kinds.register("replay-func")
class ReplayFunc(_Replay):
    """Runs the space generator for each candidate, which samples anew every time."""

    def _draw(self, application: TraceApplication) -> Schedule | None:
        assert self.context is not None
        while True:
            spaces = self.context.generate_design_space()
            sch = spaces[self._rng.uniform_int(0, len(spaces))]
            if application.postprocess(sch):
                return sch


@SearchStrategy.kinds.register("replay-trace")
class ReplayTrace(_Replay):
    """Replays the trace of a design space with new decisions.

    After `max_fail_count` rejected attempts a batch goes without that candidate.
    """

    def __init__(self, max_fail_count: int = 100) -> None:
        super().__init__()
        self.max_fail_count = max_fail_count

    def _draw(self, application: TraceApplication) -> Schedule | None:
        for _ in range(self.max_fail_count):
            trace = self._spaces[self._rng.uniform_int(0, len(self._spaces))]
            sch = application.apply(trace, resample=True)
            if sch is not None:
                return sch
        return None
