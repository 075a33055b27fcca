"""Calls of graph functions from graph functions, and branches, on an explicit stack.

Python's stack would end a loop that is written as a function calling itself after some hundred
rounds; this one is as deep as `MAX_DEPTH` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

from codegen.errors import ExecutionError
from codegen.vm.frame import Frame

if TYPE_CHECKING:
    from codegen.vm.graph_function import GraphFunction

MAX_DEPTH: Final = 1000
"""Calls of graph functions by way of Python, one inside the other; each has a frame."""

Runner: TypeAlias = Callable[[Frame], object]


@dataclass(frozen=True, slots=True)
class FrameCall:
    """A call of a graph function with a separate frame."""

    functions: Mapping[str, GraphFunction]
    name: str
    arguments: Sequence[int]
    enter: Callable[[Frame, Any], None] | None
    """Checks the result and puts it into the frame of the caller; None if `outputs` get it."""
    outputs: Sequence[int] = ()

    @property
    def callee(self) -> GraphFunction:
        """The function; it may have been linked after this call."""
        return self.functions[self.name]

    def begin(self, frame: Frame) -> Frame:
        """Return the frame of the callee with its arguments; ExecutionError beyond `MAX_DEPTH`."""
        if frame.depth >= MAX_DEPTH:
            _too_deep(frame, self.name)
        registers = frame.registers
        return self.callee.entered(
            [registers[k] for k in self.arguments], frame, [registers[k] for k in self.outputs]
        )

    def end(self, frame: Frame, inner: Frame) -> None:
        """Take the result out of the frame of the callee."""
        if self.enter is not None:
            self.enter(frame, self.callee.finished(inner))
        else:
            self.callee.finished_into(inner, [frame.registers[k] for k in self.outputs])

    def __call__(self, frame: Frame) -> None:
        """Run the call on Python's stack."""
        self.end(frame, self.callee.run(self.begin(frame)))


@dataclass(frozen=True, slots=True)
class BranchChoice:
    """A branch: one of two lists of steps."""

    condition: int
    then: Sequence[Runner]
    otherwise: Sequence[Runner]

    def chosen(self, frame: Frame) -> Sequence[Runner]:
        """Return the steps to run."""
        return self.then if frame.registers[self.condition] else self.otherwise

    def __call__(self, frame: Frame) -> None:
        """Run the chosen steps."""
        run_steps(self.chosen(frame), frame)


def needs_stack(steps: Sequence[Runner]) -> bool:
    """Say whether `run_steps` is needed to run these steps."""
    return any(isinstance(step, (FrameCall, BranchChoice)) for step in steps)


def run_steps(steps: Sequence[Runner], frame: Frame) -> None:
    """Run steps on a frame, whatever they call."""
    stack: list[tuple[Frame, Iterator[Runner], FrameCall | None]] = []
    rest = iter(steps)
    while True:
        for step in rest:
            if type(step) is FrameCall:
                stack.append((frame, rest, step))
                frame = step.begin(frame)
                rest = iter(step.callee.steps)
                break
            if type(step) is BranchChoice:
                stack.append((frame, rest, None))
                rest = iter(step.chosen(frame))
                break
            step(frame)
        else:
            if not stack:
                return
            inner = frame
            frame, rest, call = stack.pop()
            if call is not None:
                call.end(frame, inner)


def _too_deep(caller: Frame, name: str) -> NoReturn:
    chain = [name]
    frame: Frame | None = caller
    while frame is not None:
        chain.append(frame.name)
        frame = frame.caller
    shown = " <- ".join([*chain[:4], "...", chain[-1]])
    raise ExecutionError(
        f"{name} was called at depth {MAX_DEPTH}: {shown}; end the recursion by an `if` at a "
        f"smaller depth, or write it as a loop of the calling program"
    )
