"""The states that steps make of the operations of a graph: stages, with their loops and places.

A state is a value: a step gives another one. It only keeps books, so that a sketch, whose lengths
are open, is a state as well; `replay` makes the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from search.auto_scheduler.steps.step import Step, StepError, blamed_on_step

if TYPE_CHECKING:
    from search.auto_scheduler.steps.loop_steps import HintOnLoop, LoopStep

S = TypeVar("S")

_INDENT: Final = "  "


class IterKind(Enum):
    """The range of a loop: elements of the result, steps of a reduction, or both."""

    SPATIAL = "spatial"
    REDUCE = "reduction"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Iterator:
    """A loop; `extent` is None where only the whole program says it."""

    name: str
    extent: int | None
    kind: IterKind = IterKind.SPATIAL


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a stage that is not outside of all others: in a loop of a stage that needs it.

    A `target` of None is wherever it is read; `step` is the number of the step that says so.
    """

    step: int
    target: int | None = None
    iterator: str = ""


@dataclass(frozen=True, slots=True)
class Taken(Generic[S]):
    """A step that was taken on a stage, with its number and, if it is of one, the loop's name."""

    step: int
    says: S
    iterator: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """An operation: its loops as they are now, outermost first, and how they came about.

    `axes` are the loops that the operation has by itself. A placeholder has none.
    """

    name: str
    is_placeholder: bool
    axes: tuple[Iterator, ...]
    iters: tuple[Iterator, ...]
    shape: tuple[int | None, ...]
    place: Place | None = None
    changes: tuple[Taken[LoopStep], ...] = ()
    hints: tuple[Taken[HintOnLoop], ...] = ()

    @staticmethod
    def fresh(
        name: str,
        axes: Iterable[Iterator],
        shape: Sequence[int | None],
        *,
        is_placeholder: bool = False,
    ) -> Stage:
        """Return a stage that no step has changed."""
        own = tuple(axes)
        return Stage(name, is_placeholder, own, own, tuple(shape))

    @property
    def is_inlined(self) -> bool:
        """True if the stage is computed wherever it is read."""
        return self.place is not None and self.place.target is None

    @property
    def loops(self) -> str:
        """A sentence on the loops, by position."""
        names = ", ".join(f"{k} {it.name}" for k, it in enumerate(self.iters))
        return f"its loops are {names}" if names else "it has no loops"

    def iterator(self, index: int) -> Iterator:
        """Return a loop; StepError if there is none."""
        if not 0 <= index < len(self.iters):
            raise StepError(f"{self.name} has no loop {index}; {self.loops}")
        return self.iters[index]

    def free_iterator(self, index: int) -> Iterator:
        """Return a loop that can be changed; StepError if there is none, or it was marked."""
        it = self.iterator(index)
        for hint in self.hints:
            if hint.iterator == it.name:
                raise StepError(
                    f"loop {it.name} of {self.name} was marked by step {hint.step}; mark it after "
                    "it is split and fused"
                )
        return it

    def index_of(self, iterator: str) -> int:
        """Return the position of the loop of this name."""
        return next(k for k, it in enumerate(self.iters) if it.name == iterator)

    def dimension_of(self, iterator: str) -> int | None:
        """Return the dimension of the result that a loop runs over, None if it does not over one.

        Parts of a dimension's loop, and loops that it was fused in, do not.
        """
        names = [it.name for it in self.axes[: len(self.shape)]]
        return names.index(iterator) if iterator in names else None


@dataclass(frozen=True, repr=False)
class State:
    """Stages, inputs before what reads them, and the steps that made them."""

    stages: tuple[Stage, ...]
    transform_steps: tuple[Step, ...] = ()
    is_trace: bool = False
    """True if a trace says the whole schedule, so that the stages do not."""

    def then(self, step: Step | list[Any]) -> State:
        """Return the state after another step; StepError names what cannot be taken, and why."""
        at = len(self.transform_steps)
        with blamed_on_step(at, step[0] if isinstance(step, (list, tuple)) and step else step):
            read = step if isinstance(step, Step) else Step.from_json(step)
        with blamed_on_step(at, read):
            if self.is_trace:
                raise StepError("the trace before it is the whole schedule; nothing follows it")
            after = read.apply(self, at)
        return replace(after, transform_steps=(*self.transform_steps, read))

    def stage(self, index: int) -> Stage:
        """Return a stage; StepError if there is none."""
        if not 0 <= index < len(self.stages):
            there = ", ".join(f"{k} {stage.name}" for k, stage in enumerate(self.stages))
            raise StepError(f"there is no stage {index}; there are {there}")
        return self.stages[index]

    def computed_stage(self, index: int) -> Stage:
        """Return a stage that computes something; StepError for an input."""
        found = self.stage(index)
        if found.is_placeholder:
            raise StepError(f"stage {index}, {found.name}, is an input, which has no loops")
        return found

    def stage_with_loops(self, index: int) -> Stage:
        """Return a stage whose loops can be changed; StepError for an input, or an inlined one."""
        found = self.computed_stage(index)
        if found.is_inlined:
            raise StepError(f"stage {index}, {found.name}, is inlined and has no loops")
        return found

    def with_stage(self, index: int, stage: Stage) -> State:
        """Return the state with another stage in the place of one."""
        return replace(self, stages=(*self.stages[:index], stage, *self.stages[index + 1 :]))

    def with_new_stage(self, index: int, stage: Stage) -> State:
        """Return the state with one more stage; those from `index` on move up."""
        moved = [_moved_up(old, index) for old in self.stages]
        return replace(self, stages=(*moved[:index], stage, *moved[index:]))

    def with_loops(
        self, index: int, iters: Sequence[Iterator], change: Taken[LoopStep], old: str, new: str
    ) -> State:
        """Return the state where a stage has other loops; what is computed at `old` is at `new`."""
        stage = self.stages[index]
        state = self.with_stage(
            index, replace(stage, iters=tuple(iters), changes=(*stage.changes, change))
        )
        for k, place in self.attached_to(index):
            if place.iterator == old:
                moved = replace(self.stages[k], place=replace(place, iterator=new))
                state = state.with_stage(k, moved)
        return state

    def attached_to(self, index: int) -> list[tuple[int, Place]]:
        """Return the stages that are computed in loops of a stage, with their places, in order."""
        return [
            (k, stage.place)
            for k, stage in enumerate(self.stages)
            if stage.place is not None and stage.place.target == index
        ]

    def to_str(self, delete_trivial_loop: bool = True) -> str:
        """Return a line for the inputs and the loops of each stage, attached ones where they run.

        A loop is written `<mark> <name> (0,<extent>)`, with `(None)` where the extent is not known.
        Loops of one iteration are left out unless they are asked for, and so are inlined stages.
        """
        inputs = [stage.name for stage in self.stages if stage.is_placeholder]
        lines = [f"Placeholder: {', '.join(inputs)}"] if inputs else []
        for index, stage in enumerate(self.stages):
            if stage.place is None and not stage.is_placeholder:
                lines += self._nest(index, 0, not delete_trivial_loop)
        if self.is_trace:
            lines += ["Scheduled by a trace:", *str(self.transform_steps[-1]).splitlines()]
        return "\n".join(lines) + "\n"

    def _nest(self, index: int, depth: int, unit_loops: bool) -> list[str]:
        stage = self.stages[index]
        notes = [hint.says.note for hint in stage.hints if hint.says.note]
        lines = [f"{_INDENT * depth}{stage.name} {note}" for note in notes]
        for it in stage.iters:
            if unit_loops or it.extent != 1:
                marks = [hint.says.mark_name for hint in stage.hints if hint.iterator == it.name]
                mark = next((mark for mark in reversed(marks) if mark), "for")
                extent = "(None)" if it.extent is None else f"(0,{it.extent})"
                lines.append(f"{_INDENT * depth}{mark} {it.name} {extent}")
                depth += 1
            for other, place in self.attached_to(index):
                if place.iterator == it.name:
                    lines += self._nest(other, depth, unit_loops)
        return [*lines, f"{_INDENT * depth}{stage.name} = ..."]

    def __str__(self) -> str:
        return self.to_str()

    __repr__ = __str__


def _moved_up(stage: Stage, index: int) -> Stage:
    place = stage.place
    if place is None or place.target is None or place.target < index:
        return stage
    return replace(stage, place=replace(place, target=place.target + 1))
