"""Templates by name: functions that make a schedule and declare its knobs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, overload

from codegen import Target
from schedule import Schedule
from search.compat.autotvm.arguments import args_to_workload, deserialize_args
from search.compat.autotvm.config import Config
from search.compat.autotvm.dispatch import ApplyConfig, DispatchContext
from search.compat.autotvm.errors import TemplateError
from search.kinds import like_or_all

F = TypeVar("F", bound=Callable[..., Any])

TASK_TABLE: Final[dict[str, Template]] = {}
"""The templates that were registered in this process."""


class Template:
    """A registered function: it returns a `Schedule`, or one first in a tuple."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name = name
        self.function = function

    def run(self, args: Sequence[Any], config: Config) -> tuple[Schedule, Any]:
        """Call the function under a configuration; return the schedule and all it returned.

        Encoded tensors among the arguments become placeholders. The trace of the schedule has each
        knob of the configuration.
        """
        config.begin()
        with ApplyConfig(config):
            made = self.function(*deserialize_args(args))
        sch = made[0] if isinstance(made, (tuple, list)) and made else made
        if not isinstance(sch, Schedule):
            raise TemplateError(
                f"the template {self.name!r} returns a Schedule, or a tuple that begins with one; "
                f"it returned {type(made).__name__}"
            )
        config.record(sch)
        return sch, made


@overload
def template(task_name: str, func: None = None) -> Callable[[F], F]: ...
@overload
def template(task_name: str, func: F) -> F: ...
def template(task_name: str, func: F | None = None) -> F | Callable[[F], F]:
    """Register a function as the template `task_name`: `@template("ns/name")`, or a call.

    It declares knobs on `get_config()` and returns a `Schedule`, which is a stochastic one: each
    knob is a sampling instruction of its trace. Called by its own name it gets the configuration
    that the current context has for the current target and these arguments, which are positional.

    TemplateError, a RuntimeError, without a name, and for one that another function has. What is
    defined again, in a cell of a notebook say, takes the place of its earlier self.
    """

    if not task_name or callable(task_name):
        raise TemplateError(
            f'a template is registered by name, as in @template("ns/name"); got {task_name!r}'
        )

    def register(function: F) -> F:
        known = TASK_TABLE.get(task_name)
        if known is not None and _identity(known.function) != _identity(function):
            raise TemplateError(
                f"there is a template {task_name!r} already: {'.'.join(_identity(known.function))}"
            )
        made = Template(task_name, function)
        TASK_TABLE[task_name] = made

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise TemplateError(
                    f"the arguments of the template {task_name!r} are positional, as they are its "
                    f"key in logs; got {', '.join(kwargs)} by name"
                )
            workload = args_to_workload(args, task_name)
            config = DispatchContext.current.query(Target.current(), workload)
            return made.run(args, config)[1]

        return call  # type: ignore[return-value]

    return register if func is None else register(func)


def get_config() -> Config:
    """Return the configuration that the template which is running declares its knobs on."""
    return DispatchContext.current.query(Target.current(), None)


def registered(name: str) -> Template | None:
    """Return the template of a name, None without one."""
    return TASK_TABLE.get(name)


def unknown_template(name: str) -> TemplateError:
    """Return the error for a name that no template has."""
    return TemplateError(
        f"there is no template {name!r}; {like_or_all(str(name), TASK_TABLE)}. The module that "
        "registers it may not be imported, or a log may have an older name of it"
    )


def _identity(function: Callable[..., Any]) -> tuple[str, str]:
    """Return the module and name of a function; for another callable, `partial` say, its class."""
    return (function.__module__, getattr(function, "__qualname__", type(function).__qualname__))
