"""A task: a template with arguments and a target, and the space of its configurations."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final

from codegen import Target
from schedule import Schedule, ScheduleError, Trace
from search.autotvm.arguments import Workload, serialize_args
from search.autotvm.errors import InstantiationError, KnobError, TemplateError
from search.autotvm.registration import MissingTask, Template, lookup_template, unknown_template
from search.autotvm.space.config import Config
from search.autotvm.space.config_space import ConfigSpace
from search.context import normalize_mod
from search.errors import TuningError
from search.measuring.flops import OperationCounter
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm, IterVar
from tensorir.rewriting.visit import children

if TYPE_CHECKING:
    from search.autotvm.space.entity import ConfigEntity
    from tensorir.function import IRModule
    from tensorir.nodes.node import Node

logger = logging.getLogger("autotvm")

_FEW: Final = 1024


class Task:
    """A template called with arguments, to be tuned.

    `args` are encoded as logs have them. `config_space`, `target` and `flop` (operations of one
    run) are there for one that `create` made; a task from a log has only its key.
    """

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name = name
        self.args = serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self._func: Template = lookup_template(name)
        self.config_space: ConfigSpace | None = None
        self.flop: float | None = None
        self.target: Target | None = None
        self._mod: IRModule | None = None
        self._fails = False

    @property
    def func(self) -> Template:
        """The template; a `MissingTask` as long as none of its name is registered."""
        if isinstance(self._func, MissingTask):
            self._func = lookup_template(self.name)
        return self._func

    @property
    def workload(self) -> Workload:
        """The name and the encoded arguments: the key in logs."""
        return (self.name, *self.args)

    @property
    def space(self) -> ConfigSpace:
        """The configurations; collected now for a task from a log, which raises as `create`."""
        if self.config_space is None:
            if isinstance(self.func, MissingTask):
                raise unknown_template(self.name)
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
        return self.space.get(_first_valid(self.space))

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
        if self.flop is None:
            self.flop = config.flop or compute_flop(sch.mod)
        if self._mod is None:
            self._mod = normalize_mod(sch.initial_mod)

    def known_space(self) -> ConfigSpace | None:
        """Return the space, None where that of a task from a log cannot be known.

        Its template is not registered here, or fails with the arguments that the log has; the
        latter is warned of once.
        """
        if self._fails or isinstance(self.func, MissingTask):
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

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the space, whose filters are functions; it is collected when needed."""
        return {**self.__dict__, "config_space": None}

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
    if isinstance(task.func, MissingTask):
        raise unknown_template(task_name)
    task.target = Target(target) if target is not None else Target.current(allow_none=False)
    task.config_space = task.collect()
    _first_valid(task.config_space)
    return task


def _first_valid(space: ConfigSpace) -> int:
    """Return the first index that filters let through, looked for without filtering the rest."""
    few = range(min(space.range_length, _FEW))
    index = next(filter(space.is_index_valid, few), None)
    if index is None:
        index = space.get_next_index(len(few) - 1)
    if index is None:
        raise KnobError("the filter of the space lets no configuration through")
    return index


def compute_flop(mod: IRModule) -> float:
    """Return the number of operations of a program, scheduled or not.

    The iterations of each innermost block times the operations of what it stores: binary
    arithmetic, comparisons and logic count 1, casts, calls and loads only what is in them, a choice
    its condition and the dearer side, indices and initial values nothing. Iterations are those of
    the block, so that guards and tails of loops do not count.

    TemplateError where that gives nothing or extents are not constant: `cfg.add_flop` says it.
    """
    total = sum(_operations(func.body) for func in mod.prim_funcs().values())
    if total <= 0:
        raise TemplateError(
            "the program does no arithmetic that is counted; say how many operations it does with "
            "cfg.add_flop(n) in the template"
        )
    return total


def _operations(node: Node) -> float:
    """Return the operations in the innermost blocks of a statement."""
    if not isinstance(node, s.Block):
        return sum(map(_operations, children(node)))
    each = _operations(node.body) or OperationCounter(comparisons=True).stmt(node.body)
    return each * prod(_extent(axis) for axis in node.iter_vars)


def _extent(axis: IterVar) -> int:
    extent = None if axis.dom is None else axis.dom.extent
    if not isinstance(extent, IntImm):
        raise TemplateError(
            f"the extent of {axis.var.name} is not constant; say how many operations the program "
            "does with cfg.add_flop(n) in the template"
        )
    return extent.value
