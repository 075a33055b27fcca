"""The options that the functions which tune have in common: their names, types and defaults.

A function takes them as `**options: Unpack[RunOptions]` and is decorated with `takes`. So a type
checker and an editor know each name, `help` lists them with their defaults, and one that there is
not is named in an error.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar

from search.builder import Builder
from search.cost_model.cost_model import CostModel
from search.database import Database
from search.errors import TuningError
from search.kinds import nearest
from search.measure_callback import MeasureCallback
from search.measuring.objective import ObjectiveArg
from search.reports.interrupts import OnInterrupt
from search.runner import Runner
from search.runner.arguments import InputData
from search.search_strategy import SearchStrategy
from search.search_strategy.initial_schedules import InitialSchedules
from search.space_generator.space_generator import SpaceArg
from search.spaces.constrained_space import ConstraintFunction
from search.task_scheduler import TaskScheduler
from tensorir.errors import IRTypeError

F = TypeVar("F", bound=Callable[..., Any])


class RunParts(TypedDict, total=False):
    """The parts of a run: each itself, by class, or by short name."""

    builder: str | type[Builder] | Builder
    """What compiles candidates."""
    runner: str | type[Runner] | Runner
    """What measures them."""
    database: str | Database
    """What keeps the records: `"json"` and `"sql"` are files in the working directory."""
    cost_model: str | CostModel | None
    """What predicts how fast candidates are; `"none"` for a strategy that asks none."""
    measure_callbacks: str | Sequence[MeasureCallback]
    """What is told of each trial."""
    verbose: int
    """What is shown on standard error: 0 warnings alone, 1 the progress too, 2 all messages."""


class SharedParts(RunParts, total=False):
    """The parts of a run of several tasks."""

    task_scheduler: str | TaskScheduler
    """What shares the trials among the tasks."""
    module_equality: str
    """Which programs have their records in common, see `Database`."""


class Extent(TypedDict, total=False):
    """How much is searched, beside the trials of all tasks: fields of `TuneConfig`."""

    max_trials_per_task: int | None
    num_trials_per_iter: int
    max_seconds: float | None
    num_confirmed: int
    early_stopping: int | None
    early_stopping_per_task: int | None


class RunOptions(SharedParts, Extent, total=False):
    """The options of a run of several tasks."""

    on_interrupt: OnInterrupt
    """What Ctrl-C does when everything is kept: `"raise"` or `"return"`."""


class TaskOptions(TypedDict, total=False):
    """The options that hold for each of the tasks that a function makes."""

    space: SpaceArg
    """The design space: a space generator, its short name, or a schedule function."""
    strategy: str | SearchStrategy
    """What chooses the candidates."""
    num_tuning_cores: int | str
    """How many processes build, `"physical"` or `"logical"` for all cores."""
    seed: int | None
    """Makes the sampling reproducible, though measurements never are."""


class TaskWishes(TypedDict, total=False):
    """What a user knows or wants of one task, see `TuneContext`."""

    input_data: InputData | None
    """Arrays to measure on, by parameter, in place of some that are made up."""
    initial_schedules: InitialSchedules | None
    """What is measured first, and bred from, of a design space or not."""
    constraint: ConstraintFunction | None
    """Says by its decisions whether a schedule may be tried."""
    objective: ObjectiveArg | None
    """What is minimised: `"seconds"`, `"p90"`, `"energy"`, or a function of a trial's seconds."""


class ModuleWishes(TypedDict, total=False):
    """The same of several tasks, by the names of functions.

    One constraint may be for all, and one objective is.
    """

    input_data: Mapping[str, InputData] | None
    initial_schedules: Mapping[str, InitialSchedules] | None
    constraint: Mapping[str, ConstraintFunction] | ConstraintFunction | None
    objective: ObjectiveArg | None


class OptionsOfTasks(TaskOptions, RunOptions, total=False):
    """The options of a function that makes tasks and tunes them."""


class ModuleOptions(OptionsOfTasks, ModuleWishes, total=False):
    """The options of a function that makes tasks of a module and tunes them."""


class OptionsOfOne(RunParts, total=False):
    """The options of a run of one task."""

    on_interrupt: OnInterrupt


DEFAULTS: Final[ModuleOptions] = {
    "builder": "local",
    "runner": "local",
    "database": "json",
    "cost_model": "xgb",
    "measure_callbacks": "default",
    "verbose": 1,
    "task_scheduler": "gradient",
    "module_equality": "structural",
    "max_trials_per_task": None,
    "num_trials_per_iter": 64,
    "max_seconds": None,
    "num_confirmed": 4,
    "early_stopping": None,
    "early_stopping_per_task": None,
    "on_interrupt": "raise",
    "space": "post-order-apply",
    "strategy": "evolutionary",
    "num_tuning_cores": "physical",
    "seed": None,
    "input_data": None,
    "initial_schedules": None,
    "constraint": None,
    "objective": "seconds",
}


def takes(options: type[Any], **defaults: Any) -> Callable[[F], F]:
    """Give a function with `**options` a signature that lists them, and refuse all others.

    `options` is a TypedDict. The defaults are those of `DEFAULTS` but for `defaults`; the function
    itself is given only what its caller says. Names that are not listed are an IRTypeError with the
    nearest one that is.
    """
    known: Mapping[str, Any] = {**DEFAULTS, **defaults}

    def decorated(function: F) -> F:
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[:-1]
        listed = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=known[name],
                annotation=getattr(annotation, "__forward_arg__", annotation),
            )
            for name, annotation in options.__annotations__.items()
            if name not in signature.parameters
        ]
        names = [parameter.name for parameter in (*own, *listed)]

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            for name in kwargs:
                if name not in names:
                    raise IRTypeError(
                        f"{function.__name__} does not take {name}{nearest(name, names)}"
                    )
            return function(*args, **kwargs)

        shown: Any = checked
        shown.__signature__ = signature.replace(parameters=[*own, *listed])
        return shown  # type: ignore[no-any-return]

    return decorated


def chosen(options: Mapping[str, Any], *among: type[Any]) -> dict[str, Any]:
    """Return those of options that these TypedDicts have, with the defaults of the others."""
    names = dict.fromkeys(name for one in among for name in one.__annotations__)
    return {name: options.get(name, DEFAULTS[name]) for name in names}  # type: ignore[literal-required]


def wishes_for(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what options wish of the task of one function."""
    return {
        wish: given.get(name) if isinstance(given := options.get(wish), Mapping) else given
        for wish in ModuleWishes.__annotations__
    }


def functions_with_wishes(options: Mapping[str, Any], functions: Iterable[str]) -> set[str]:
    """Return the functions of which something is wished; TuningError for one that there is not."""
    known = sorted(functions)
    found: set[str] = set()
    for wish in (*ModuleWishes.__annotations__, "special_space"):
        given = options.get(wish)
        if given is None or wish == "objective" or (wish == "constraint" and callable(given)):
            continue
        if not isinstance(given, Mapping):
            raise TuningError(
                f"{wish} is for functions by name, as in {{{known[0] if known else ''!r}: ...}}, "
                f"got {type(given).__name__}"
            )
        for name in given:
            if name not in known:
                raise TuningError(
                    f"{wish} names {name!r}, which is no function to tune; there are "
                    f"{', '.join(known)}{nearest(name, known)}"
                )
        found |= set(given)
    return found
