"""The states that steps make of the operations of a graph: stages, with their loops and places.

A state is a value: a step gives another one. It only keeps books, so that a sketch, whose lengths
are open, is a state as well; `schedule_steps` makes the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from search.auto_scheduler.steps.print_state import state_text
from search.auto_scheduler.steps.step import Step, StepError, blamed_on_step

if TYPE_CHECKING:
    from schedule import BlockRV, LoopRV, Schedule
    from search.auto_scheduler.steps.loop_steps import HintOnLoop


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
class Inlined:
    """Computed wherever it is read; `step` is the number of the step that says so."""

    step: int


@dataclass(frozen=True, slots=True)
class ComputedAt:
    """Computed in a loop of a stage that needs it."""

    step: int
    target: int
    iterator: str


Place: TypeAlias = Inlined | ComputedAt | None
"""The place where a stage is computed; None is outside of all others."""


class LoopChange(Protocol):
    """A split, a fusion or a reordering of the loops of one stage."""

    @property
    def step(self) -> int:
        """The number of the step."""

    def replay(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Change the loops of a block, and return those that there are then, outermost first."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A remark of a step on the loop of this name."""

    step: int
    says: HintOnLoop
    iterator: str


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
    place: Place = None
    changes: tuple[LoopChange, ...] = ()
    hints: tuple[Hint, ...] = ()

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
    def is_fresh(self) -> bool:
        """True if no step has changed the stage."""
        return self.place is None and not self.changes and not self.hints

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
        if isinstance(found.place, Inlined):
            raise StepError(f"stage {index}, {found.name}, is inlined and has no loops")
        return found

    def with_stage(self, index: int, stage: Stage) -> State:
        """Return the state with another stage in the place of one."""
        return replace(self, stages=(*self.stages[:index], stage, *self.stages[index + 1 :]))

    def with_new_stage(self, index: int, stage: Stage) -> State:
        """Return the state with one more stage; those from `index` on move up."""
        moved = [_moved_up(old, index) for old in self.stages]
        return replace(self, stages=(*moved[:index], stage, *moved[index:]))

    def attached_to(self, index: int) -> list[tuple[int, ComputedAt]]:
        """Return the stages that are computed in loops of a stage, with their places, in order."""
        return [
            (k, stage.place)
            for k, stage in enumerate(self.stages)
            if isinstance(stage.place, ComputedAt) and stage.place.target == index
        ]

    def to_str(self, delete_trivial_loop: bool = True) -> str:
        """Return the loop nests, without loops of one iteration unless these are asked for."""
        return state_text(self, unit_loops=not delete_trivial_loop)

    def __str__(self) -> str:
        return self.to_str()

    __repr__ = __str__


def iterator_at(stage: Stage, index: int) -> Iterator:
    """Return a loop of a stage; StepError if there is none."""
    if not 0 <= index < len(stage.iters):
        raise StepError(f"{stage.name} has no loop {index}; {loops_of(stage)}")
    return stage.iters[index]


def loops_of(stage: Stage) -> str:
    """Return a sentence on the loops of a stage, by position."""
    names = ", ".join(f"{k} {it.name}" for k, it in enumerate(stage.iters))
    return f"its loops are {names}" if names else "it has no loops"


def _moved_up(stage: Stage, index: int) -> Stage:
    place = stage.place
    if not isinstance(place, ComputedAt) or place.target < index:
        return stage
    return replace(stage, place=replace(place, target=place.target + 1))
