"""The options of a search: how much it measures, and the parts that it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self

from search.builder import Builder
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.database.module_equality import ModuleEquality
from search.errors import ArgumentError
from search.reports.interrupts import OnInterrupt, checked_on_interrupt
from search.runner import Runner
from search.search_strategy import SearchStrategy
from search.task_scheduler import TaskScheduler

if TYPE_CHECKING:
    from search.measure_callback import MeasureCallback

UNLIMITED: Final = 1 << 40
"""More trials than any search makes."""
_MOST_SECONDS: Final = 1e9
"""The longest search, some 30 years."""


@dataclass(frozen=True)
class TuneConfig:
    """The options of a search; `tune_module`, `tune_tasks` and `tune_model` take them by name.

    Each part of the search is given itself, by its class, or by its short name.
    Raises ArgumentError for counts and seconds that make no sense, and IRValueError for names that
    no part has and for configurations that a part does not take.
    """

    max_trials_global: int | None = None
    """The most measurements of all tasks; None where `max_seconds` alone bounds the search."""
    num_trials_per_iter: int = 64
    """The most trials of a batch."""
    max_trials_per_task: int | None = None
    """The most measurements of one task; None: as many as of all."""
    task_scheduler: str | TaskScheduler = "gradient"
    """What shares the trials among the tasks."""
    strategy: str | SearchStrategy = "evolutionary"
    """What chooses the candidates of a task."""
    task_scheduler_config: Mapping[str, Any] | None = None
    """Arguments of a task scheduler that is given by name."""
    search_strategy_config: Mapping[str, Any] | None = None
    """Arguments of a strategy that is given by name."""
    adaptive_training: bool | None = None
    """Whether the cost model `"xgb"` learns less often the more it knows; None: as it does."""
    max_seconds: float | None = None
    """The seconds of the search. Its last tenth, or less, is kept for measuring the best again, and
    a twentieth for the unscheduled programs of the report. A trial that began before the end may
    last beyond it."""
    num_confirmed: int = 4
    """How many of the best candidates of a task are measured again, in turns, before its winner is
    named, as far as they are nearly as good as the best; 0 leaves that out."""
    early_stopping: int | None = None
    """The search ends after so many trials that did not lower its objective, once every task has a
    latency."""
    early_stopping_per_task: int | None = None
    """A task ends after so many trials since its best one."""
    keep_going: bool = False
    """Whether a task ends that fails, with an error in the log, and the others go on; else the
    search ends."""
    builder: str | type[Builder] | Builder = "local"
    """What compiles candidates."""
    runner: str | type[Runner] | Runner = "local"
    """What measures them; a URL as in `dask://host:8786` for other machines."""
    database: str | Database = "json"
    """What keeps the records: `"json"` and `"sql"` are files in the working directory."""
    module_equality: str = "structural"
    """Which programs have their records in common, see `Database`."""
    cost_model: str | CostModel | None = "xgb"
    """What predicts how fast candidates are; None or `"none"` for a strategy that asks none."""
    measure_callbacks: str | Sequence[MeasureCallback] = "default"
    """What is told of each trial."""
    verbose: int = 1
    """What is shown on standard error: 0 warnings alone, 1 the progress too, 2 all messages."""
    on_interrupt: OnInterrupt = "raise"
    """What Ctrl-C does when everything is kept: `"raise"` or `"return"`."""

    def __post_init__(self) -> None:
        checked_on_interrupt(self.on_interrupt)
        counts = (
            ("max_trials_global", self.max_trials_global, 0),
            ("num_trials_per_iter", self.num_trials_per_iter, 1),
            ("max_trials_per_task", self.max_trials_per_task, 1),
            ("num_confirmed", self.num_confirmed, 0),
            ("early_stopping", self.early_stopping, 1),
            ("early_stopping_per_task", self.early_stopping_per_task, 1),
        )
        check_counts(counts)
        if self.most_trials > UNLIMITED:
            raise ArgumentError(
                f"max_trials_global is at most {UNLIMITED}, got {self.max_trials_global}"
            )
        seconds: object = self.max_seconds
        if seconds is not None and (
            not isinstance(seconds, (int, float)) or not 0 < seconds <= _MOST_SECONDS
        ):
            raise ArgumentError(
                f"max_seconds is a number of seconds above 0 and at most {_MOST_SECONDS:g}, got "
                f"{seconds!r}"
            )
        if self.max_trials_global is None and seconds is None:
            raise ArgumentError(
                "say how much to search: max_trials_global, as in 64 trials, or max_seconds"
            )
        self.made_scheduler()
        self.made_strategy()
        Builder.kinds.check(self.builder)
        Runner.kinds.check(self.runner)
        Database.kinds.check(self.database)
        ModuleEquality.kinds.check(self.module_equality)
        if self.cost_model != "none":
            CostModel.kinds.check(self.cost_model)

    @property
    def most_trials(self) -> int:
        """The most trials of all tasks; more than any search makes where only seconds bound it."""
        return UNLIMITED if self.max_trials_global is None else self.max_trials_global

    @property
    def trials_of_a_task(self) -> int:
        """The most trials that one task may get."""
        own = self.max_trials_per_task
        return self.most_trials if own is None else own

    def made_scheduler(self) -> TaskScheduler:
        """Return the task scheduler, made if it is given by name."""
        return TaskScheduler.create(self.task_scheduler, **(self.task_scheduler_config or {}))

    def made_strategy(self) -> SearchStrategy:
        """Return the search strategy, made if it is given by name."""
        return SearchStrategy.create(self.strategy, **(self.search_strategy_config or {}))

    def replacing(self, **options: Any) -> Self:
        """Return options with those in place of theirs that are not None."""
        return replace(self, **{name: v for name, v in options.items() if v is not None})


def check_counts(counts: Iterable[tuple[str, object, int]]) -> None:
    """Raise ArgumentError for an option that is neither None nor an int of at least a number."""
    for name, value, least in counts:
        if value is not None and (type(value) is not int or value < least):
            raise ArgumentError(f"{name} is an int of at least {least}, got {value!r}")
