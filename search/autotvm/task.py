"""A task: a template with arguments and a target, and the space of its configurations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from codegen import Target
from schedule import Schedule, ScheduleError, Trace
from search.autotvm.arguments import Workload, args_to_workload, serialize_args
from search.autotvm.config import Config
from search.autotvm.errors import InstantiationError, KnobError, TemplateError
from search.autotvm.flops import compute_flop
from search.autotvm.registration import MissingTask, Template, lookup_template, unknown_template
from search.autotvm.space import ConfigSpace
from search.context import normalize_mod

if TYPE_CHECKING:
    from search.autotvm.entity import ConfigEntity
    from tensorir.function import IRModule


_FEW: Final = 1024


class Task:
    """What is tuned: a template called with arguments.

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

    @property
    def func(self) -> Template:
        """The template; a `MissingTask` as long as none of its name is registered."""
        if isinstance(self._func, MissingTask):
            self._func = lookup_template(self.name)
        return self._func

    @property
    def workload(self) -> Workload:
        """The name and the encoded arguments: the key in logs."""
        return args_to_workload(self.args, self.name)

    @property
    def space(self) -> ConfigSpace:
        """The configurations; TemplateError for a task from a log of an unknown template."""
        space = self.known_space()
        if space is None:
            raise unknown_template(self.name)
        return space

    @property
    def mod(self) -> IRModule:
        """The program before it is scheduled, with its one function called `main`."""
        if self._mod is None:
            self.instantiate(self.first_config())
        assert self._mod is not None
        return self._mod

    def first_config(self) -> ConfigEntity:
        """Return the first configuration; KnobError where the filter of the space leaves none."""
        return self.space.get(_first_valid(self.space))

    def instantiate(self, config: Config) -> Schedule:
        """Return the schedule that a configuration gives.

        InstantiationError where the template or a primitive refuses it; `config.errors` says why.
        TemplateError for a task whose template is not registered here, KnobError for a
        configuration of another template.
        """
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
        if self.flop is None:
            self.flop = config.flop or compute_flop(sch.mod)
        if self._mod is None:
            self._mod = normalize_mod(sch.initial_mod)
        return sch

    def collect(self) -> ConfigSpace:
        """Run the template on an empty space, and return that with the knobs it declared.

        TemplateError if the template fails, as `instantiate`; a configuration of first values that
        it declares invalid is no failure.
        """
        space = ConfigSpace()
        with self.target or Target():
            try:
                sch, _ = self.func.run(self.args, space)
            except ScheduleError as error:
                raise TemplateError(
                    f"{self} cannot be scheduled with the first value of each knob: {error}"
                ) from error
        space.errors.clear()
        space.code_hash = getattr(sch, "code_hash", None)
        if self.flop is None:
            self.flop = space.flop or compute_flop(sch.mod)
        return space

    def known_space(self) -> ConfigSpace | None:
        """Return the space, collected now for a task from a log; None without its template."""
        if self.config_space is None and not isinstance(self.func, MissingTask):
            self.config_space = self.collect()
        return self.config_space

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

    The template runs once, each knob at its first value. `target` None takes the current one.

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
