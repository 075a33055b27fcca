"""Composites: functions over a schedule that a trace shows as one step, and how to combine them.

    @composite
    def register_tile(sch, block, rows=4, columns=16):
        i, j, k = sch.get_loops(block)
        ...

    register_tile(sch, block, columns=32)

The steps that `attempt`, `first_of`, `repeat` and `at_each` take are functions that change a
schedule, composites among them. A step that a schedule refuses leaves nothing behind.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from schedule.errors import ScheduleError
from schedule.handles import BlockRV, LoopRV
from schedule.schedule import Schedule

P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H")

_REPETITIONS: Final = 1000


def composite(
    function: Callable[Concatenate[Schedule, P], R],
) -> Callable[Concatenate[Schedule, P], R]:
    """Make of a function over a schedule a composite: one step of the trace, all or nothing.

    The trace has the name of the function, the text of the arguments, and the instructions that it
    expanded to, so that it replays from JSON where the function is not known, and decisions in it
    can be changed. If the function raises, the schedule is unchanged.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def step(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> R:
        given = list(signature.bind(sch, *args, **kwargs).arguments.items())[1:]
        arguments = ", ".join(f"{name}={_text(sch, value)}" for name, value in given)
        with sch.composite(function.__name__, arguments):
            return function(sch, *args, **kwargs)

    return step


def _text(sch: Schedule, value: object) -> str:
    """Return an argument as text: a handle by the name of its block or of its loop variable."""
    if isinstance(value, BlockRV):
        return f"block {sch.get(value).name_hint}"
    if isinstance(value, LoopRV):
        return f"loop {sch.get(value).loop_var.name}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(sch, item) for item in value)}]"
    return getattr(value, "__name__", None) or repr(value)


def attempt(
    sch: Schedule, step: Callable[Concatenate[Schedule, P], Any], *args: P.args, **kwargs: P.kwargs
) -> bool:
    """Apply a step and return True; if the schedule refuses it, undo it and return False."""
    try:
        with sch.transaction():
            step(sch, *args, **kwargs)
    except ScheduleError:
        return False
    return True


def first_of(sch: Schedule, *steps: Callable[[Schedule], R]) -> R:
    """Apply the first of some steps that the schedule does not refuse, and return its result.

    Raises the ScheduleError of the last step if all are refused, with notes of the others, and
    ValueError without steps.
    """
    if not steps:
        raise ValueError("first_of takes at least one step")
    refusals: list[ScheduleError] = []
    for step in steps:
        try:
            with sch.transaction():
                return step(sch)
        except ScheduleError as error:
            refusals.append(error)
    for earlier in refusals[:-1]:
        refusals[-1].add_note(f"A step before it was refused, too: {earlier}")
    raise refusals[-1]


def repeat(sch: Schedule, step: Callable[[Schedule], Any], limit: int = _REPETITIONS) -> int:
    """Apply a step until the schedule refuses it or it returns False; return how often it was.

    Raises RuntimeError, and undoes all of it, if the step was applied `limit` times: it does not
    come to an end.
    """
    with sch.transaction():
        for count in range(limit):
            try:
                with sch.transaction():
                    if step(sch) is False:
                        return count
            except ScheduleError:
                return count
        raise RuntimeError(f"the step was applied {limit} times and is still possible")


def at_each(
    sch: Schedule, handles: Iterable[H], step: Callable[[Schedule, H], R], *, skip: bool = False
) -> list[R]:
    """Apply a step to each of some handles and return the results.

    A refusal undoes all of it and raises the ScheduleError; with `skip` it undoes the step at that
    handle only, which gives no result.
    """
    results: list[R] = []
    with sch.transaction():
        for handle in handles:
            try:
                with sch.transaction():
                    results.append(step(sch, handle))
            except ScheduleError:
                if not skip:
                    raise
    return results
