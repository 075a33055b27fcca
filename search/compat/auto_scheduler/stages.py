"""The stages that transform steps make of the operations of a computation: blocks, loops, places.

Stages are divided as the steps say it, on the program as it was written. Of all else only books are
kept, of which `replay` makes the program at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from search.errors import TuningError
from tensorir.nodes.buffer import Buffer

Row: TypeAlias = "Sequence[Any]"
"""A step as a log has it: its code, then its fields."""


class StepError(TuningError, ValueError):
    """A step cannot be read, or cannot be taken where it stands; the text names it and says why."""


@contextmanager
def blamed_on_step(at: int, row: Any) -> Iterator[None]:
    """Turn errors raised inside into a StepError that names the step, which may be no step."""
    try:
        yield
    except (StepError, ScheduleError) as error:
        match row:
            case [code, int(stage), *_]:
                title = f"{code}, stage {stage}"
            case _:
                title = str(row)
        reason = str(error)
        if isinstance(error, ScheduleError):
            hint = f" ({error.hint})" if error.hint else ""
            reason = f"the schedule refuses it: {error.message}{hint}"
        raise StepError(f"step {at} ({title}): {reason}") from error


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a stage that is not outside of all others: in a loop of a stage that needs it.

    A `target` of None is wherever it is read; `step` is the number of the step that says so.
    """

    step: int
    target: int | None = None
    loop: str = ""


LoopChange: TypeAlias = "Callable[[Schedule, BlockRV, list[LoopRV]], list[LoopRV]]"
"""Changes the loops of a block, and returns those that there are then, outermost first."""


@dataclass(frozen=True, slots=True)
class Change:
    """A step that gave a stage other loops."""

    step: int
    apply: LoopChange


@dataclass(frozen=True, slots=True)
class Hint:
    """A step that said something of a loop; steps after it leave the loop as it is.

    `value` is how its iterations are run, or up to how many copies what is below it is unrolled.
    """

    step: int
    loop: str
    value: str | int


Source: TypeAlias = "Buffer | tuple[str, ...] | BlockRV"
"""What has the values of a stage: the buffer of an input, or blocks, by name as long as none was
asked for."""


@dataclass(slots=True)
class Stage:
    """An operation: its loops as they are now, outermost first, and how they came about.

    `axes` are the loops that it has by itself, with their extents where those are known; the first
    `rank` of them are over the elements of its result. An input has none.
    """

    name: str
    axes: Mapping[str, int | None]
    rank: int
    source: Source
    loops: list[str] = field(default_factory=list)
    place: Place | None = None
    changes: list[Change] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loops = self.loops or list(self.axes)

    @property
    def is_input(self) -> bool:
        """True if nothing computes it."""
        return isinstance(self.source, Buffer)

    @property
    def is_inlined(self) -> bool:
        """True if the stage is computed wherever it is read."""
        return self.place is not None and self.place.target is None

    @property
    def dimensions(self) -> list[str]:
        """The loops that it has by itself over the elements of its result."""
        return list(self.axes)[: self.rank]

    def loop(self, index: int, changed: bool = False) -> str:
        """Return the name of a loop; StepError for none, and for a marked one to be `changed`."""
        if not 0 <= index < len(self.loops):
            raise StepError(f"{self.name} has no loop {index}; {self.described()}")
        name = self.loops[index]
        for hint in self.hints if changed else ():
            if hint.loop == name:
                raise StepError(
                    f"loop {name} of {self.name} was marked by step {hint.step}; mark it after it "
                    "is split and fused"
                )
        return name

    def described(self) -> str:
        """Return a sentence on the loops, by position."""
        names = ", ".join(f"{k} {name}" for k, name in enumerate(self.loops))
        return f"its loops are {names}" if names else "it has no loops"


@dataclass
class State:
    """Stages, inputs before what reads them, the steps that made them, and their program."""

    sch: Schedule
    stages: list[Stage]
    steps: list[Row] = field(default_factory=list)

    def stage(self, index: int) -> Stage:
        """Return a stage; StepError if there is none."""
        if not 0 <= index < len(self.stages):
            there = ", ".join(f"{k} {stage.name}" for k, stage in enumerate(self.stages))
            raise StepError(f"there is no stage {index}; there are {there}")
        return self.stages[index]

    def computed_stage(self, index: int) -> Stage:
        """Return a stage that computes something; StepError for an input."""
        found = self.stage(index)
        if found.is_input:
            raise StepError(f"stage {index}, {found.name}, is an input, which has no loops")
        return found

    def stage_with_loops(self, index: int) -> Stage:
        """Return a stage whose loops can be changed; StepError for an input, or an inlined one."""
        found = self.computed_stage(index)
        if found.is_inlined:
            raise StepError(f"stage {index}, {found.name}, is inlined and has no loops")
        return found

    def undivided_stage(self, index: int) -> Stage:
        """Return a stage that can be divided; StepError if it, or another by it, has its place."""
        found = self.stage_with_loops(index)
        if found.place is not None or found.hints or self.attached_to(index):
            raise StepError(
                f"{found.name} was moved or marked, or has stages in its loops; a stage is divided "
                "before that"
            )
        return found

    def attached_to(self, index: int) -> list[tuple[Stage, Place]]:
        """Return the stages that are computed in loops of a stage, with their places, in order."""
        return [
            (stage, stage.place)
            for stage in self.stages
            if stage.place is not None and stage.place.target == index
        ]

    def change(
        self, index: int, loops: Iterable[str], apply: LoopChange, old: str = "", new: str = ""
    ) -> None:
        """Give a stage other loops; what is computed at `old` is at `new` then."""
        stage = self.stages[index]
        stage.loops = list(loops)
        stage.changes.append(Change(len(self.steps), apply))
        for other, place in self.attached_to(index):
            if place.loop == old:
                other.place = replace(place, loop=new)

    def insert(self, index: int, stage: Stage) -> None:
        """Add a stage; those from `index` on move up."""
        for other in self.stages:
            place = other.place
            if place is not None and place.target is not None and place.target >= index:
                other.place = replace(place, target=place.target + 1)
        self.stages.insert(index, stage)

    # -------------------------------------------------------------------- the blocks of the stages

    def block(self, stage: Stage) -> BlockRV:
        """Return the block of a stage; StepError unless it has one whose loops are its axes."""
        if isinstance(stage.source, tuple):
            if len(stage.source) != 1:
                raise StepError(
                    f"{stage.name} gives {len(stage.source)} tensors, which are computed in a nest "
                    "each; steps on it cannot be replayed"
                )
            stage.source = self.sch.get_block(stage.source[0], "main")
        assert isinstance(stage.source, BlockRV)
        return stage.source

    def buffer(self, stage: Stage) -> Buffer:
        """Return the buffer of a stage or an input."""
        if isinstance(stage.source, Buffer):
            return stage.source
        writes = self.sch.get(self.block(stage)).writes
        if len(writes) != 1:
            raise StepError(f"{stage.name} gives {len(writes)} tensors, not one")
        return writes[0].buffer

    def nest(self, stage: Stage) -> list[LoopRV]:
        """Return the loops of a stage where it is, in the order of its axes."""
        loops = self.sch.get_loops(self.block(stage))
        count = len(stage.axes)
        if len(loops) < count:
            raise StepError(
                f"{stage.name} has {count} axes but {len(loops)} loops around its block, because "
                "the range of one depends on another; steps on it cannot be replayed"
            )
        return loops[len(loops) - count :]
