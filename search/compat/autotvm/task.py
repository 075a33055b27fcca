"""A task: a template with arguments and a target, and the space of its configurations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from codegen import Target
from schedule import Schedule, ScheduleError, Trace
from search.compat.autotvm.arguments import Workload, serialize_args
from search.compat.autotvm.config import Config, ConfigEntity
from search.compat.autotvm.config_space import ConfigSpace
from search.compat.autotvm.errors import InstantiationError, KnobError, TemplateError
from search.compat.autotvm.registration import Template, registered, unknown_template
from search.errors import TuningError
from search.runner.flops import OperationCounter
from search.task import normalize_mod

if TYPE_CHECKING:
    from tensorir.function import IRModule

logger = logging.getLogger("autotvm")


class Task:
    """A template called with arguments, to be tuned.

    `args` are encoded as logs have them. `config_space`, `target` and `flop` (operations of one
    run) are there for one that `create` made; a task from a log has only its key.
    """

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name = name
        self.args = serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self._func: Template | None = None
        self.config_space: ConfigSpace | None = None
        self.flop: float | None = None
        self.target: Target | None = None
        self._mod: IRModule | None = None
        self._fails = False

    @property
    def func(self) -> Template:
        """The template. TemplateError as long as none of its name is registered."""
        self._func = self._func or registered(self.name)
        if self._func is None:
            raise unknown_template(self.name)
        return self._func

    @property
    def workload(self) -> Workload:
        """The name and the encoded arguments: the key in logs."""
        return (self.name, *self.args)

    @property
    def space(self) -> ConfigSpace:
        """The configurations; collected now for a task from a log, which raises as `create`."""
        if self.config_space is None:
            self.config_space = self.collect()
        return self.config_space

    @property
    def mod(self) -> IRModule:
        """The program before it is scheduled, with its one function called `main`."""
        if self._mod is None:
            self.collect()
        assert self._mod is not None
        return self._mod

    def first_config(self) -> ConfigEntity:
        """Return the first configuration; KnobError where the filter of the space leaves none."""
        index = self.space.get_next_index(-1)
        if index is None:
            raise KnobError("the filter of the space lets no configuration through")
        return self.space.get(index)

    def instantiate(self, config: Config) -> Schedule:
        """Return the schedule that a configuration gives.

        InstantiationError where the template or a primitive refuses it; `config.errors` says why.
        TemplateError for a task whose template is not registered here, KnobError for a
        configuration of another template, and what the template itself raises.
        """
        if not isinstance(config, Config):
            raise KnobError(
                f"{config!r} is no configuration of {self}; task.config_space.get(index) is one"
            )
        with self.target or Target():
            try:
                sch, _ = self.func.run(self.args, config)
            except ScheduleError as error:
                # Tuners meet these all the time: the program in the text would take the longest.
                reason = f"{error.primitive}: {error.message}"
                config.raise_error(reason)
                raise InstantiationError(f"{self} refuses {config}: {reason}") from error
        if not config.valid():
            raise InstantiationError(f"{self} refuses {config}: {'; '.join(config.errors)}")
        self._learn(sch, config)
        return sch

    def collect(self) -> ConfigSpace:
        """Run the template on an empty space, and return that with the knobs it declared.

        TemplateError if the template fails, KnobError for a knob that cannot be; a configuration of
        first values that the template declares invalid is no failure.
        """
        space = ConfigSpace()
        with self.target or Target():
            try:
                sch, _ = self.func.run(self.args, space)
            except TuningError:
                raise
            except ScheduleError as error:
                raise TemplateError(
                    f"{self} cannot be scheduled with the first value of each knob: {error}"
                ) from error
            except Exception as error:
                raise TemplateError(
                    f"{self}: the template fails with the first value of each knob: "
                    f"{type(error).__name__}: {error}"
                ) from error
        space.errors.clear()
        space.code_hash = getattr(sch, "code_hash", None)
        self._learn(sch, space)
        return space

    def _learn(self, sch: Schedule, config: Config) -> None:
        """Take from a first schedule the parts that all schedules of the task have in common."""
        if self._mod is None:
            self._mod = normalize_mod(sch.initial_mod)
        if self.flop is None:
            self.flop = config.flop or compute_flop(self._mod)

    def known_space(self) -> ConfigSpace | None:
        """Return the space, None where that of a task from a log cannot be known.

        Its template is not registered here, or fails with the arguments that the log has; the
        latter is warned of once.
        """
        if self._fails or not (self._func or registered(self.name)):
            return self.config_space
        try:
            return self.space
        except TuningError as error:
            self._fails = True
            logger.warning("The design space of a task from a log is not known: %s", error)
            return None

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
    """Return the task of a template for arguments, with its space of configurations.

    `args` is a tuple, of positional arguments. The template runs once, each knob at its first
    value. `target` None takes the current one.

    TemplateError for a name that is not registered (near names are listed), for a template that
    fails or does nothing that counts as an operation; ArgumentsError for arguments that a log
    cannot hold; KnobError for a knob without values, or a filter that lets nothing through.
    """
    task = Task(task_name, args)
    task.target = Target(target) if target is not None else Target.current(allow_none=False)
    task.config_space = task.collect()
    task.first_config()
    return task


def compute_flop(mod: IRModule) -> float:
    """Return the number of operations of a program.

    Binary arithmetic, comparisons and logic in stored values count 1, casts, calls and loads only
    their operands, a choice its condition and the dearer side, indices and initial values nothing.

    TemplateError where that is 0: `cfg.add_flop` declares the number.
    """
    functions = mod.prim_funcs().values()
    total = sum(OperationCounter(comparisons=True).stmt(func.body) for func in functions)
    if total <= 0:
        raise TemplateError(
            "the program does no arithmetic that is counted; say how many operations it does with "
            "cfg.add_flop(n) in the template"
        )
    return total
