"""The configuration of a search: its budget and its parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from search.errors import ArgumentError
from search.search_strategy import SearchStrategy
from search.task_scheduler import TaskScheduler

UNLIMITED: Final = 1 << 40
"""The number of trials of a search that only its seconds bound."""


MOST_SECONDS: Final = 1e9
"""The longest search, some 30 years."""


@dataclass(frozen=True)
class TuneConfig:
    """The extent of a search, and the parts by short name.

    `max_trials_global` bounds the measurements of all tasks, `max_trials_per_task` those of one;
    `max_seconds` bounds the time. At least one of the first and the last is given; the search ends
    where the first of them is used up. A batch has at most `num_trials_per_iter`. The `..._config`
    mappings are passed to the constructors of the task scheduler and the strategy;
    `adaptive_training` to the cost model.
    At the end of a task its `num_confirmed` best candidates, as far as they are nearly as good as
    the best, are measured again in turns before the winner is named; 0 leaves that out. A task ends
    after `early_stopping_per_task` trials since its best one, and the search after `early_stopping`
    trials that did not lower its objective, once every task has a latency; None stops neither.
    Of `max_seconds` the last tenth, or less, is kept for measuring the best again, so that winners
    are named in time, and a twentieth for the unscheduled programs of the report; what began before
    the end may last beyond it: a trial, for as long as the runner lets it.
    With `keep_going` a task ends that a part of the search fails on, or that cannot be built or
    measured; an error in the log names it, and the others go on. Without it the run ends.
    `logger_config` is accepted and unused: configure the logger `tensorir.search` instead.
    Raises ArgumentError for counts that make no sense, and IRValueError for names that no task
    scheduler or strategy has and for configurations that they do not take.
    """

    max_trials_global: int = UNLIMITED
    num_trials_per_iter: int = 64
    max_trials_per_task: int | None = None
    task_scheduler: str = "gradient"
    strategy: str = "evolutionary"
    task_scheduler_config: Mapping[str, Any] | None = None
    search_strategy_config: Mapping[str, Any] | None = None
    logger_config: Mapping[str, Any] | None = None
    adaptive_training: bool | None = None
    num_confirmed: int = 4
    early_stopping: int | None = None
    early_stopping_per_task: int | None = None
    max_seconds: float | None = None
    keep_going: bool = False

    def __post_init__(self) -> None:
        counts = (
            ("max_trials_global", self.max_trials_global, 0),
            ("num_trials_per_iter", self.num_trials_per_iter, 1),
            ("max_trials_per_task", self.max_trials_per_task, 1),
            ("num_confirmed", self.num_confirmed, 0),
            ("early_stopping", self.early_stopping, 1),
            ("early_stopping_per_task", self.early_stopping_per_task, 1),
        )
        check_counts(counts)
        if self.max_trials_global > UNLIMITED:
            raise ArgumentError(
                f"max_trials_global is at most {UNLIMITED}, got {self.max_trials_global}"
            )
        seconds: object = self.max_seconds
        if seconds is not None and (
            not isinstance(seconds, (int, float)) or not 0 < seconds <= MOST_SECONDS
        ):
            raise ArgumentError(
                f"max_seconds is a number of seconds above 0 and at most {MOST_SECONDS:g}, got "
                f"{seconds!r}"
            )
        if self.max_trials_global == UNLIMITED and seconds is None:
            raise ArgumentError(
                "say how much to search: max_trials_global, as in 64 trials, or max_seconds"
            )
        TaskScheduler.create(self.task_scheduler, **(self.task_scheduler_config or {}))
        SearchStrategy.create(self.strategy, **(self.search_strategy_config or {}))

    @property
    def bounded_trials(self) -> int | None:
        """The most trials of all tasks, None where only seconds bound them."""
        return None if self.max_trials_global >= UNLIMITED else self.max_trials_global

    @property
    def trials_of_a_task(self) -> int:
        """The most trials that one task may get."""
        own = self.max_trials_per_task
        return self.max_trials_global if own is None else own


def check_counts(counts: Iterable[tuple[str, object, int]]) -> None:
    """Raise ArgumentError for an option that is neither None nor an int of at least a number."""
    for name, value, least in counts:
        if value is not None and (type(value) is not int or value < least):
            raise ArgumentError(f"{name} is an int of at least {least}, got {value!r}")
