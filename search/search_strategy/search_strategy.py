"""The base class of search strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from search.errors import TuningError
from search.kinds import Kinds, TaskPart

if TYPE_CHECKING:
    from schedule import Schedule
    from search.cost_model.cost_model import CostModel
    from search.database.database import Database
    from search.measuring.measure_candidate import MeasureCandidate
    from search.runner import RunnerResult


class SearchStrategy(TaskPart, ABC):
    """Decides which schedules to measure next.

    A task scheduler calls `pre_tuning` once, then `generate_measure_candidates` and
    `notify_runner_results` in turn until the former returns None, then `post_tuning`.
    """

    kinds: ClassVar[Kinds[SearchStrategy]] = Kinds("search strategy")

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
        """Start a search of at most `max_trials` candidates, at most `num_trials_per_iter` at once.

        `database.tuning_records_of(workload)` are the candidates that were measured before. Raises
        TuningError if called again before `post_tuning` (see `already_started`).
        """

    @abstractmethod
    def post_tuning(self) -> None:
        """Forget the search."""

    @abstractmethod
    def generate_measure_candidates(self) -> list[MeasureCandidate] | None:
        """Return the next batch, which may be empty; None when the search is finished."""

    @abstractmethod
    def notify_runner_results(
        self, candidates: Sequence[MeasureCandidate], results: Sequence[RunnerResult]
    ) -> None:
        """Take note of the results of the last batch, in the order of the candidates.

        After an interruption there are fewer of both than were generated.
        """

    def why_nothing(self) -> str | None:
        """Return why no candidate has come out so far, None if one has or it is not known."""
        return None


PySearchStrategy = SearchStrategy
"""The base class under the name that it has for user classes in TVM."""


def already_started(strategy: SearchStrategy) -> TuningError:
    """Return the error for a `pre_tuning` while a search is in progress."""
    return TuningError(
        f"{type(strategy).__name__}.pre_tuning was called twice; call post_tuning in between, or "
        "clone the strategy for another task"
    )


def not_started(strategy: SearchStrategy) -> TuningError:
    """Return the error for a step of a search that was not started."""
    return TuningError(f"{type(strategy).__name__}: call pre_tuning before asking for candidates")
