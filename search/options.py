"""The options of a search: its budget, its parts, and the effect of Ctrl-C."""

from __future__ import annotations

import contextlib
import inspect
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypedDict, TypeVar

from search.builder import Builder
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.database.module_equality import ModuleEquality
from search.errors import ArgumentError, TuningError
from search.kinds import suggestion
from search.runner import Runner
from search.search_strategy import SearchStrategy
from search.task_scheduler import TaskScheduler
from tensorir.errors import IRTypeError

if TYPE_CHECKING:
    from search.measure_callback import MeasureCallback


C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])

OnInterrupt = Literal["raise", "return"]
"""After Ctrl-C a search keeps its measurements; then it raises KeyboardInterrupt or returns."""

_CHOICES: Final = ("raise", "return")
_PATIENCE: Final = 3
"""The number of times Ctrl-C must be pressed to interrupt a `delay_interrupt` block."""


def checked_on_interrupt(value: str) -> None:
    """Raise TuningError for an unknown value of `on_interrupt`."""
    if value not in _CHOICES:
        raise TuningError(
            f"on_interrupt is 'raise' or 'return', got {value!r}{suggestion(str(value), _CHOICES)}"
        )


@contextlib.contextmanager
def delay_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until the end of the `with`, so that its block is executed completely.

    The third Ctrl-C is not delayed. Only the main thread receives Ctrl-C, so other threads are
    never interrupted.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, Any]] = []

    def note(number: int, frame: Any) -> None:
        came.append((number, frame))
        if len(came) >= _PATIENCE:
            before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        before(*came[0])


UNLIMITED: Final = 1 << 40
"""A number of trials that no search reaches."""
_MOST_SECONDS: Final = 1e9
"""The maximum time of a search in seconds, about 30 years."""


def _naming_unknown_options(cls: type[C]) -> type[C]:
    """Return a data class whose constructor names the nearest field for an unknown one."""
    init = cls.__init__

    @wraps(init)
    def checked(self: C, *args: Any, **options: Any) -> None:
        known = cls.__dataclass_fields__  # type: ignore[attr-defined]
        for name in options.keys() - known.keys():
            raise IRTypeError(f"{cls.__name__} has no option {name!r}{suggestion(name, known)}")
        init(self, *args, **options)

    cls.__init__ = checked  # type: ignore[assignment]
    return cls


@_naming_unknown_options
@dataclass(frozen=True)
class TuneConfig:
    """The options of a search; `tune_module`, `tune_tasks` and `tune_model` have them by name.

    A part of the search is an instance, a class, or a short name. Raises ArgumentError for invalid
    counts and seconds, and IRValueError for unknown names and invalid configurations of parts.
    """

    max_trials_global: int | None = None
    """The maximum number of trials of all tasks; None if only `max_seconds` limits the search."""
    num_trials_per_iter: int = 64
    """The maximum number of trials of a batch."""
    max_trials_per_task: int | None = None
    """The maximum number of trials of one task; by default that of all tasks."""
    task_scheduler: str | TaskScheduler = "gradient"
    """The part that distributes the trials among the tasks."""
    strategy: str | SearchStrategy = "evolutionary"
    """The part that chooses the candidates of a task."""
    task_scheduler_config: Mapping[str, Any] | None = None
    """Arguments of a task scheduler that is given by name."""
    search_strategy_config: Mapping[str, Any] | None = None
    """Arguments of a strategy that is given by name."""
    adaptive_training: bool | None = None
    """True if the cost model `"xgb"` trains less often as its data grows; None for its default."""
    max_seconds: float | None = None
    """The seconds of the search. Up to a tenth of them is reserved for measuring the best
    candidates again, and up to a twentieth for the unscheduled programs of the report. A trial that
    began before the end may last longer."""
    num_confirmed: int = 4
    """The maximum number of best candidates of a task that are measured again, interleaved, before
    its winner is named, if they are nearly as good as the best; 0 for none."""
    early_stopping: int | None = None
    """The search ends after this number of trials without a lower objective, once every task has a
    latency.
    """
    early_stopping_per_task: int | None = None
    """A task ends after this number of trials without a better one."""
    keep_going: bool = False
    """True if only the task ends when it fails, with an error in the log, and not the search."""
    builder: str | type[Builder] | Builder = "local"
    """The part that compiles candidates."""
    runner: str | type[Runner] | Runner = "local"
    """The part that measures them; a URL as in `dask://host:8786` for other machines."""
    database: str | Database = "json"
    """The store of the records: `"json"` and `"sql"` are files in the working directory."""
    module_equality: str = "structural"
    """The equality of programs that share their records, see `Database`."""
    cost_model: str | CostModel | None = "xgb"
    """The part that predicts the speed of candidates; None or `"none"` for strategies without."""
    measure_callbacks: str | Sequence[MeasureCallback] = "default"
    """Callbacks that are invoked after each trial and each batch."""
    verbose: int = 1
    """The messages on standard error: 0 for warnings, 1 for the progress, too, 2 for all."""
    on_interrupt: OnInterrupt = "raise"
    """The effect of Ctrl-C after everything is saved: `"raise"` or `"return"`."""

    def __post_init__(self) -> None:
        checked_on_interrupt(self.on_interrupt)
        counts = (
            ("max_trials_global", self.max_trials_global, 0),
            ("num_trials_per_iter", self.num_trials_per_iter, 1),
            ("max_trials_per_task", self.max_trials_per_task, 1),
            ("num_confirmed", self.num_confirmed, 0),
            ("early_stopping", self.early_stopping, 1),
            ("early_stopping_per_task", self.early_stopping_per_task, 1),
            ("verbose", self.verbose, 0),
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
                "missing budget: pass max_trials_global (64, for example), max_seconds, or both"
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
        """The maximum number of trials of all tasks; `UNLIMITED` without one."""
        return UNLIMITED if self.max_trials_global is None else self.max_trials_global

    @property
    def trials_of_a_task(self) -> int:
        """The maximum number of trials of one task."""
        own = self.max_trials_per_task
        return self.most_trials if own is None else own

    def made_scheduler(self) -> TaskScheduler:
        """Return the task scheduler; a new one if it is given by name."""
        return TaskScheduler.create(self.task_scheduler, **(self.task_scheduler_config or {}))

    def made_strategy(self) -> SearchStrategy:
        """Return the search strategy; a new one if it is given by name."""
        return SearchStrategy.create(self.strategy, **(self.search_strategy_config or {}))

    def replacing(self, **options: Any) -> Self:
        """Return a copy in which `options` that are not None replace the fields."""
        return replace(self, **{name: v for name, v in options.items() if v is not None})


def check_counts(counts: Iterable[tuple[str, object, int]]) -> None:
    """Raise ArgumentError for an option that is neither None nor an int of its minimum or more."""
    for name, value, least in counts:
        if value is not None and (type(value) is not int or value < least):
            raise ArgumentError(f"{name} is an int of at least {least}, got {value!r}")


class TuneOptions(TypedDict, total=False):
    """The fields of `TuneConfig` that searches of several tasks accept by name."""

    max_trials_per_task: int | None
    num_trials_per_iter: int
    max_seconds: float | None
    num_confirmed: int
    early_stopping: int | None
    early_stopping_per_task: int | None
    builder: str | type[Builder] | Builder
    runner: str | type[Runner] | Runner
    database: str | Database
    cost_model: str | CostModel | None
    measure_callbacks: str | Sequence[MeasureCallback]
    task_scheduler: str | TaskScheduler
    module_equality: str
    verbose: int
    on_interrupt: OnInterrupt


_NAMED: Final = inspect.Parameter.KEYWORD_ONLY


def listing_options(**defaults: object) -> Callable[[F], F]:
    """Return a decorator that lists `TuneOptions` in the signature of a function with `**options`.

    Defaults are those of `TuneConfig` unless `defaults` has others.
    """
    known = {name: one.default for name, one in TuneConfig.__dataclass_fields__.items()} | defaults

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        *own, _ = signature.parameters.values()
        listed = [
            inspect.Parameter(name, _NAMED, default=known[name], annotation=kind.__forward_arg__)
            for name, kind in TuneOptions.__annotations__.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *listed])  # type: ignore[attr-defined]
        return function

    return decorate
