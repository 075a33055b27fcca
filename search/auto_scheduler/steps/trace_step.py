"""The step that is a whole schedule: a trace, which searches of this project write."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from schedule import Trace
from search.auto_scheduler.steps.step import Step, StepError

if TYPE_CHECKING:
    from search.auto_scheduler.steps.state import State


@dataclass(frozen=True)
class TraceStep(Step):
    """A whole schedule as the JSON of its trace; no other step stands beside it."""

    code: ClassVar[str] = "TR"
    trace_json: list[Any] = field(hash=False)

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
        return replace(state, is_trace=True)

    def __str__(self) -> str:
        return self.code
