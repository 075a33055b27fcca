"""The errors of primitives whose preconditions do not hold, and of traces that cannot be read.

The file of each primitive declares its `Problem`s: a stable code, a sentence and a hint. `fail`
raises one for particular loops and blocks. The text is rendered on demand, because a search drops
thousands of refused schedules unread.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from schedule.sref import StmtSRef
from tensorir.errors import TensorIRError
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import Block, For
from tensorir.quoting import quote

if TYPE_CHECKING:
    from tensorir.function import IRModule

RenderLevel = Literal["detail", "fast", "none"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A precondition that may fail.

    `sentence` states the cause, with `{0}`, `{1}` for the loops and blocks concerned, and names
    such as `{extent}` for values. `hint` is a remedy.
    """

    code: str
    sentence: str
    hint: str


class ScheduleError(TensorIRError):
    """A precondition of a schedule primitive does not hold; the schedule is unchanged.

    `code` identifies the precondition, `primitive` the call, `locations` are the loops and blocks
    concerned and `mod` is the program they were found in. The text begins with the reason, shows
    the program with the locations underlined, and ends with a remedy; `render_level="fast"`
    leaves the program out.
    """

    def __init__(
        self,
        problem: Problem,
        locations: tuple[Node, ...] = (),
        values: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(problem.code)
        self.problem = problem
        self.locations = locations
        self.values = values or {}
        self.primitive = ""
        self.mod: IRModule | None = None
        self.render_level: RenderLevel = "detail"

    @property
    def code(self) -> str:
        """The stable name of the precondition."""
        return self.problem.code

    @property
    def message(self) -> str:
        """The sentence alone, with the names of loops and blocks filled in."""
        names = [describe(node) for node in self.locations]
        return self.problem.sentence.format(*names, **self.values)

    @property
    def hint(self) -> str:
        """The remedy that would satisfy the precondition."""
        return self.problem.hint.format(*map(describe, self.locations), **self.values)

    def __str__(self) -> str:
        if self.render_level == "none":
            return "(not rendered)"
        where = f"{self.primitive}: " if self.primitive else ""
        sentence, newline, more = self.message.partition("\n")
        parts = [f"{where}{sentence} [{self.code}]{newline}{more}"]
        if self.mod is not None and self.render_level == "detail":
            parts.append(f"\n{self.mod.script(obj_to_underline=self.locations)}\n")
        parts.append(f"Hint: {self.hint}")
        if self.render_level == "detail":
            parts.append("The schedule is unchanged.")
        return "\n".join(parts)

    def _line(self) -> str:
        where = f"{self.primitive}: " if self.primitive else ""
        return f"{where}{self.message} [{self.code}]; {self.hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as rendered text, the only part that another process uses."""
        return (_RenderedError, (self.problem.code, str(self)))


class ArgumentError(ScheduleError, ValueError):
    """An argument of a primitive does not fit the block."""

    def __init__(self, method: str, path: str, reason: str) -> None:
        super().__init__(_ARGUMENT, values={"method": method, "path": path, "reason": reason})
        self.primitive = f"Schedule.{method}"


class ArgumentTypeError(ScheduleError, TypeError):
    """An argument of a primitive has a wrong type."""

    def __init__(self, method: str, path: str, expected: str, value: object) -> None:
        got = f"takes {expected}, got {type(value).__name__}: {reprlib.repr(value)}"
        super().__init__(_ARGUMENT, values={"method": method, "path": path, "reason": got})
        self.primitive = f"Schedule.{method}"


_ARGUMENT: Final = Problem(
    "ArgumentError", "`{path}` {reason}", "help(Schedule.{method}) shows its parameters"
)


class _RenderedError(ScheduleError):
    """A `ScheduleError` that came from another process: its code and its text."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(Problem(code, "{text}", ""), values={"text": text})
        self._text = text

    def __str__(self) -> str:
        return self._text

    def _line(self) -> str:
        return self._text.partition("\n")[0]


def describe(node: Node) -> str:
    """Return the words for a loop or block in a sentence."""
    if isinstance(node, For):
        return f"loop `{node.loop_var.name}`"
    if isinstance(node, Block):
        return f"block {quote(node.name_hint)}"
    return f"`{node}`"


def fail(problem: Problem, /, *locations: StmtSRef | Node, **values: Any) -> NoReturn:
    """Raise `ScheduleError` for `problem` at these loops and blocks."""
    nodes = []
    for place in locations:
        node = place.stmt if isinstance(place, StmtSRef) else place
        assert node is not None
        nodes.append(node)
    raise ScheduleError(problem, tuple(nodes), values)


def check(holds: bool, problem: Problem, /, *locations: StmtSRef | Node, **values: Any) -> None:
    """Raise `ScheduleError` for `problem` unless `holds`."""
    if not holds:
        fail(problem, *locations, **values)


ROOT_BLOCK: Final = Problem(
    "RootBlockError",
    "the primitive does not accept a root block, but {0} is one",
    "name a block inside it",
)


class TraceError(TensorIRError, ValueError):
    """A saved trace is malformed, or was recorded on another program."""


class TraceTypeError(TraceError, TypeError):
    """A saved trace has a value of a wrong type."""


class TraceIndexError(TraceError, IndexError):
    """A trace uses a handle or a number that no earlier instruction produced."""


# ---------------------------------------------------------------------- handles and programs


class ExpiredHandleError(ScheduleError, ValueError):
    """A handle points to a loop or block that a primitive has replaced."""


class UnknownHandleError(ScheduleError, IndexError):
    """A handle was not made by this schedule, or was removed from it."""


class ImpossibleError(ScheduleError, ValueError):
    """The arguments would produce an invalid program."""


EXPIRED = Problem(
    "ExpiredHandleError",
    "the {what} that the handle pointed to no longer exists{by}",
    "use the handles that the primitive returned, or query them again with get_loops",
)
UNKNOWN = Problem(
    "UnknownHandleError",
    "the {what} does not belong to this schedule",
    "handles are valid in the schedule that made them and in its copies",
)
IMPOSSIBLE = Problem(
    "ImpossibleError",
    "the resulting program cannot exist: {reason}",
    "undo an earlier primitive, or use values that the types in the program can represent",
)
OUT_OF_SCOPE = Problem(
    "OutOfScopeError",
    "the primitive would move a use of a name out of its definition: {reason}",
    "stay inside of the let, allocation or buffer declaration that defines it",
)
