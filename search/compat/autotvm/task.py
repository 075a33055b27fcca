"""Templates by name, and tasks: a template with arguments and a target, and its space."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

from codegen import Target
from schedule import Schedule, ScheduleError, Trace
from search.compat.autotvm.arguments import (
    Workload,
    args_to_workload,
    deserialize_args,
    serialize_args,
)
from search.compat.autotvm.config import Config, ConfigEntity
from search.compat.autotvm.config_space import ConfigSpace
from search.compat.autotvm.dispatch import ApplyConfig, DispatchContext
from search.compat.autotvm.errors import InstantiationError, KnobError, TemplateError
from search.errors import TuningError
from search.kinds import suggestion_or_all
from search.runner.flops import OperationCounter
from search.task import normalize_mod
from tensorir.nodes import expr as e

if TYPE_CHECKING:
    from tensorir.function import IRModule

F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger("autotvm")

TASK_TABLE: Final[dict[str, Template]] = {}
"""The templates that were registered in this process."""


# --------------------------------------------------------------------------------------- templates


class Template(NamedTuple):
    """A registered function: it returns a `Schedule`, or a tuple that starts with one."""

    name: str
    function: Callable[..., Any]

    def run(self, args: Sequence[Any], config: Config) -> tuple[Schedule, Any]:
        """Call the function with a configuration; return the schedule and the whole result.

        Encoded tensors among the arguments become placeholders. The trace of the schedule has each
        knob of the configuration.
        """
        config.errors.clear()
        config.flop = 0
        with ApplyConfig(config):
            made = self.function(*deserialize_args(args))
        sch = made[0] if isinstance(made, (tuple, list)) and made else made
        if not isinstance(sch, Schedule):
            raise TemplateError(
                f"the template {self.name!r} returned {type(made).__name__}; expected a Schedule, "
                "or a tuple that starts with one"
            )
        config.record(sch)
        return sch, made


@overload
def template(task_name: str, func: None = None) -> Callable[[F], F]: ...
@overload
def template(task_name: str, func: F) -> F: ...
def template(task_name: str, func: F | None = None) -> F | Callable[[F], F]:
    """Register a function as the template `task_name`: `@template("ns/name")`, or a call.

    The function declares knobs on `get_config()` and returns a stochastic `Schedule`: each knob is
    a sampling instruction of its trace. A call of the function applies the configuration that the
    current context has for the current target and the arguments, which are positional.

    Raises TemplateError, a RuntimeError, without a name, and for the name of another function. A
    function that is defined again, as in a cell of a notebook, replaces the earlier one.
    """
    if not task_name or callable(task_name):
        raise TemplateError(
            f'a template is registered by name, as in @template("ns/name"); got {task_name!r}'
        )

    def register(function: F) -> F:
        known = TASK_TABLE.get(task_name)
        if known is not None and _identity(known.function) != _identity(function):
            raise TemplateError(
                f"the name {task_name!r} is taken by the template "
                f"{'.'.join(_identity(known.function))}; choose another name"
            )
        made = Template(task_name, function)
        TASK_TABLE[task_name] = made

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise TemplateError(
                    f"the template {task_name!r} got {', '.join(kwargs)} by name; its arguments "
                    "are positional, as they are its key in logs"
                )
            workload = args_to_workload(args, task_name)
            config = DispatchContext.current.query(Target.current(), workload)
            return made.run(args, config)[1]

        return call  # type: ignore[return-value]

    return register if func is None else register(func)


def get_config() -> Config:
    """Return the configuration on which the running template declares its knobs."""
    return DispatchContext.current.query(Target.current(), None)


def _identity(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the module and name of a function; of another callable, its class."""
    return (function.__module__, getattr(function, "__qualname__", type(function).__qualname__))


# ------------------------------------------------------------------------------------------- tasks


class Task:
    """A template called with arguments, to be tuned.

    `args` are encoded as in logs. A task of `create` has `config_space`, `target` and `flop` (the
    number of operations of a run); a task from a log has only its key until its space is needed.
    """

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name = name
        self.args = serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self.config_space: ConfigSpace | None = None
        self.flop: float | None = None
        self.target: Target | None = None
        self._func: Template | None = None
        self._mod: IRModule | None = None
        self._fails = False

    @property
    def func(self) -> Template:
        """The template. TemplateError while no template of this name is registered."""
        self._func = self._func or TASK_TABLE.get(self.name)
        if self._func is None:
            raise TemplateError(
                f"unknown template {self.name!r}; {suggestion_or_all(str(self.name), TASK_TABLE)}. "
                "Import the module that registers it; in a log the name may be outdated"
            )
        return self._func

    @property
    def workload(self) -> Workload:
        """The name and the encoded arguments: the key in logs."""
        return (self.name, *self.args)

    @property
    def space(self) -> ConfigSpace:
        """The configurations; those of a task from a log are collected now, as by `create`."""
        if self.config_space is None:
            self.config_space = self.collect()
        return self.config_space

    @property
    def known_space(self) -> ConfigSpace | None:
        """The space, None if the task comes from a log and its template is missing or fails.

        A failure is logged once.
        """
        if self.config_space is None and not self._fails and self.name in TASK_TABLE:
            try:
                return self.space
            except TuningError as error:
                self._fails = True
                logger.warning("The design space of a task from a log is unknown: %s", error)
        return self.config_space

    @property
    def mod(self) -> IRModule:
        """The program before it is scheduled, with its one function called `main`."""
        if self._mod is None:
            self.collect()
        assert self._mod is not None
        return self._mod

    def first_config(self) -> ConfigEntity:
        """Return the first configuration; KnobError if the filter of the space accepts none."""
        index = self.space.get_next_index(-1)
        if index is None:
            raise KnobError("the filter of the space accepts no configuration")
        return self.space.get(index)

    def instantiate(self, config: Config) -> Schedule:
        """Return the schedule of a configuration.

        Raises InstantiationError if the template or a primitive refuses it; `config.errors` has the
        reasons. Raises TemplateError for an unregistered template, KnobError for a configuration of
        another template, and any error of the template itself.
        """
        if not isinstance(config, Config):
            raise KnobError(
                f"{config!r} is not a configuration of {self}; use task.config_space.get(index)"
            )
        with self.target or Target():
            try:
                sch, _ = self.func.run(self.args, config)
            except ScheduleError as error:
                # Such refusals are frequent in tuning, and rendering the whole program would be too
                # slow.
                reason = f"{error.primitive}: {error.message}"
                config.raise_error(reason)
                raise InstantiationError(f"{self} refuses {config}: {reason}") from error
        if not config.valid():
            raise InstantiationError(f"{self} refuses {config}: {'; '.join(config.errors)}")
        self._set_common_facts(sch, config)
        return sch

    def collect(self) -> ConfigSpace:
        """Run the template on an empty space, and return the space with the declared knobs.

        Raises TemplateError if the template fails, KnobError for an impossible knob. The template
        may declare the configuration of first values invalid.
        """
        space = ConfigSpace()
        with self.target or Target():
            try:
                sch, _ = self.func.run(self.args, space)
            except TuningError:
                raise
            except Exception as error:
                raise TemplateError(
                    f"{self}: the template fails with the first value of each knob: "
                    f"{type(error).__name__}: {error}"
                ) from error
        space.errors.clear()
        self._set_common_facts(sch, space)
        return space

    def _set_common_facts(self, sch: Schedule, config: Config) -> None:
        """Set the facts that all schedules of the task have in common, from the first schedule."""
        if self._mod is None:
            self._mod = normalize_mod(sch.initial_mod)
        if self.flop is None:
            self.flop = config.flop or compute_flop(self._mod)

    def config_of(self, sch_or_trace: Schedule | Trace) -> ConfigEntity:
        """Return the configuration that a schedule of the task, or its trace, decides for."""
        return self.space.config_of(sch_or_trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self.workload == other.workload

    def __hash__(self) -> int:
        return hash(self.workload)

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, workload={self.workload})"


def create(task_name: str, args: Sequence[Any], target: str | Target | None = None) -> Task:
    """Return the task of a template for a tuple of arguments, with its space of configurations.

    The template runs once, with the first value of each knob. `target` defaults to the current one.

    Raises TemplateError for an unregistered name (near names are listed), and for a template that
    fails or whose program does no arithmetic; ArgumentsError for arguments that a log cannot hold;
    KnobError for a knob without values, or a filter that accepts nothing.
    """
    task = Task(task_name, args)
    task.target = Target(target) if target is not None else Target.current(allow_none=False)
    task.first_config()
    return task


class _Operations(OperationCounter):
    """Counts comparisons and logic as well, like AutoTVM."""

    counted = frozenset({*e.ARITHMETIC, *e.COMPARISONS, e.And, e.Or, e.Not})


def compute_flop(mod: IRModule) -> float:
    """Return the number of operations of a program, with comparisons and logic.

    See `OperationCounter`. Raises TemplateError for a result of 0: `cfg.add_flop` declares the
    number.
    """
    total = sum(_Operations().stmt(func.body) for func in mod.prim_funcs().values())
    if total <= 0:
        raise TemplateError(
            "no arithmetic was counted in the program; declare its number of operations by "
            "cfg.add_flop(n) in the template"
        )
    return total
