"""One step of a state's history: a code and its fields, as logs have them.

A kind of step is a frozen dataclass below `Step`. It says what the step means for a state (`apply`)
and for the program: `restructure` makes a stage, `replay` changes loops, `mark` marks one. Reading
and writing JSON is the same for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Final

from schedule import ScheduleError, Trace
from search.errors import TuningError

if TYPE_CHECKING:
    from search.auto_scheduler.steps.replay import Replay
    from search.auto_scheduler.steps.state import State


class StepError(TuningError, ValueError):
    """A step cannot be read, or cannot be taken where it stands; the text names it and says why."""


KINDS: Final[dict[str, type[Step]]] = {}
"""The kinds of steps by their codes."""


@dataclass(frozen=True)
class Step:
    """A step; `code` names its kind in logs, the fields follow in order."""

    code: ClassVar[str]

    def __init_subclass__(cls) -> None:
        if "code" in cls.__dict__:
            KINDS[cls.code] = cls

    @staticmethod
    def from_json(row: Any) -> Step:
        """Return the step that a list of a log says.

        StepError for an unknown code, a wrong number of fields, or one of the wrong type.
        """
        if not isinstance(row, (list, tuple)) or not row or not isinstance(row[0], str):
            raise StepError(f"a step is a list that begins with its code, got {row!r}")
        code, *values = row
        kind = KINDS.get(code)
        if kind is None:
            near = get_close_matches(code, KINDS, 1, 0.5)
            instead = f"did you mean {near[0]}? " if near else ""
            raise StepError(f"there is no step {code!r}; {instead}Codes: {', '.join(KINDS)}")
        fields = dataclasses.fields(kind)
        if len(values) != len(fields):
            names = ", ".join(field.name for field in fields)
            raise StepError(f"{code} has {len(fields)} fields ({names}), got {len(values)}: {row}")
        pairs = zip(fields, values, strict=True)
        return kind(*(_read(code, field, value) for field, value in pairs))

    def as_json(self) -> list[Any]:
        """Return the list that a log has for the step."""
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return [self.code, *map(_written, values)]

    def apply(self, state: State, at: int) -> State:
        """Return the state after the step, which is number `at` of the history.

        StepError, without the place, where it cannot be taken.
        """
        raise NotImplementedError

    def restructure(self, program: Replay) -> None:
        """Add to a program, which has the state before, the stage that the step adds, if any."""

    def __str__(self) -> str:
        return self.code


@dataclass(frozen=True)
class StageStep(Step):
    """A step that changes one stage."""

    stage: int

    def __str__(self) -> str:
        return f"{self.code}, stage {self.stage}"


@dataclass(frozen=True)
class TraceStep(Step):
    """A whole schedule as the JSON of its trace; no other step stands beside it."""

    code: ClassVar[str] = "TR"
    trace_json: list[Any] = dataclasses.field(hash=False)

    @property
    def trace(self) -> Trace:
        """The trace; StepError for text that is none."""
        try:
            return Trace.from_json(self.trace_json)
        except ValueError as error:
            raise StepError(f"its trace cannot be read: {error}") from error

    def apply(self, state: State, at: int) -> State:
        """Let the trace be the schedule."""
        if at:
            raise StepError("a trace is a whole schedule; no steps come before it")
        return dataclasses.replace(state, is_trace=True)


@contextmanager
def blamed_on_step(at: int, step: object) -> Iterator[None]:
    """Turn errors raised inside into a StepError that names the step, which may be unread JSON."""
    try:
        yield
    except StepError as error:
        raise StepError(f"step {at} ({step}): {error}") from error.__cause__
    except ScheduleError as error:
        hint = f" ({error.hint})" if error.hint else ""
        reason = f"the schedule refuses it: {error.message}{hint}"
        raise StepError(f"step {at} ({step}): {reason}") from error


# --------------------------------------------------------------------------------------------- JSON


def _read(code: str, field: dataclasses.Field[Any], value: Any) -> Any:
    expected, accepts, read = _READERS[str(field.type)]
    if not accepts(value):
        raise StepError(f"{field.name} of {code} is {expected}, got {value!r}")
    return read(value)


def _written(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return int(value) if isinstance(value, bool) else value


def _is_int(value: Any) -> bool:
    return type(value) is int


def _are(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, (list, tuple)) and all(map(accepts, value))


_READERS: Final[dict[str, tuple[str, Callable[[Any], bool], Callable[[Any], Any]]]] = {
    "int": ("an integer", _is_int, int),
    "bool": ("0 or 1", lambda value: value in (0, 1), bool),
    "str": ("a text", lambda value: isinstance(value, str), str),
    "tuple[int, ...]": ("a list of integers", _are(_is_int), tuple),
    "tuple[int | None, ...]": (
        "a list of integers, null where one is open",
        _are(lambda value: value is None or _is_int(value)),
        tuple,
    ),
    "list[Any]": ("a list", lambda value: isinstance(value, (list, tuple)), list),
}
"""By the type of a field: its name in errors, the test of a JSON value, and the reader of one."""
