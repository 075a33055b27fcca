"""The stages of a computation while transform steps are read, and the program that they describe.

Only steps that make new stages (caches, factored reductions) change the program when they are read.
All other steps are stored at their stages, and `State.replay` applies them at the end: a
`compute_at` step comes before the loops of the consumer are final, and the bounds of a moved stage
depend on all steps together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from search.errors import TuningError
from tensorir.nodes.buffer import Buffer

UNROLL = "auto_unroll_max_step"
"""The only pragma of the step PR."""

Row: TypeAlias = "Sequence[Any]"
"""A step of a log: its code, then its fields."""


class StepError(TuningError, ValueError):
    """A step that cannot be read or applied; the message names the step and the reason."""


@contextmanager
def blamed_on_step(at: int, row: Any) -> Iterator[None]:
    """Turn errors raised inside into a StepError that names the step; `row` may be malformed."""
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
    """The place of a stage inside a loop of another stage.

    A `target` of None means that the stage is inlined. `step` is the number of the step.
    """

    step: int
    target: int | None = None
    loop: str = ""


LoopChange: TypeAlias = "Callable[[Schedule, BlockRV, list[LoopRV]], list[LoopRV]]"
"""Transforms some adjacent loops of a block, and returns the new ones."""


@dataclass(frozen=True, slots=True)
class Change:
    """A step that split, fused or reordered the loops of a stage."""

    step: int
    span: slice
    transform: LoopChange

    def apply(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Return the loops of a block after the step, outermost first."""
        loops = list(loops)
        loops[self.span] = self.transform(sch, block, loops[self.span])
        return loops


@dataclass(frozen=True, slots=True)
class Mark:
    """A step that annotated a loop.

    `value` is the kind of the loop, or the limit of unrolling for a pragma.
    """

    step: int
    loop: str
    value: str | int


Source: TypeAlias = "Buffer | tuple[str, ...] | BlockRV"
"""The buffer of an input, or the blocks of an operation, given by name until they are looked up."""


@dataclass(slots=True)
class Stage:
    """An operation, its current loops, outermost first, and the steps that made them.

    `axes` are its original loops with their extents (None: symbolic). The first `rank` of them
    iterate over the elements of the result. An input has none.
    """

    name: str
    axes: Mapping[str, int | None]
    rank: int
    source: Source
    loops: list[str] = field(default_factory=list)
    place: Place | None = None
    changes: list[Change] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loops = self.loops or list(self.axes)

    @property
    def is_input(self) -> bool:
        """True for an input of the program."""
        return isinstance(self.source, Buffer)

    @property
    def is_inlined(self) -> bool:
        """True if the stage is inlined into its consumers."""
        return self.place is not None and self.place.target is None

    @property
    def dimensions(self) -> list[str]:
        """The original loops over the elements of the result."""
        return list(self.axes)[: self.rank]

    def loop(self, index: int, changed: bool = False) -> str:
        """Return the name of a loop; StepError if it is missing, or marked and to be `changed`."""
        if not 0 <= index < len(self.loops):
            raise StepError(f"unknown loop {index} of {self.name}; {self.described()}")
        name = self.loops[index]
        for mark in self.marks if changed else ():
            if mark.loop == name:
                raise StepError(
                    f"loop {name} of {self.name} was marked by step {mark.step}; split and fuse a "
                    "loop before it is marked"
                )
        return name

    def described(self) -> str:
        """Return a sentence that lists the loops by position."""
        return f"its loops are {', '.join(f'{k} {name}' for k, name in enumerate(self.loops))}"


@dataclass
class State:
    """The stages, producers before consumers, the steps so far, and the program."""

    sch: Schedule
    stages: list[Stage]
    steps: list[Row] = field(default_factory=list)

    def stage(self, index: int) -> Stage:
        """Return a stage; StepError for an unknown number."""
        if not 0 <= index < len(self.stages):
            known = ", ".join(f"{k} {stage.name}" for k, stage in enumerate(self.stages))
            raise StepError(f"unknown stage {index}; the stages are {known}")
        return self.stages[index]

    def computed_stage(self, index: int) -> Stage:
        """Return a stage that computes something; StepError for an input."""
        found = self.stage(index)
        if found.is_input:
            raise StepError(f"stage {index}, {found.name}, is an input without loops")
        return found

    def stage_with_loops(self, index: int) -> Stage:
        """Return a stage whose loops can be changed; StepError for an input or an inlined stage."""
        found = self.computed_stage(index)
        if found.is_inlined:
            raise StepError(f"stage {index}, {found.name}, is inlined and has lost its loops")
        return found

    def undivided_stage(self, index: int) -> Stage:
        """Return a stage that can be divided in two; StepError if it was moved or marked."""
        found = self.stage_with_loops(index)
        if found.place is not None or found.marks or self.attached_to(index):
            raise StepError(
                f"{found.name} was moved or marked, or has stages in its loops; divide a stage "
                "before that"
            )
        return found

    def attached_to(self, index: int) -> list[tuple[Stage, Place]]:
        """Return the stages that are computed in loops of a stage, with their places."""
        return [
            (stage, stage.place)
            for stage in self.stages
            if stage.place is not None and stage.place.target == index
        ]

    def change(self, index: int, span: slice, new: Sequence[str], transform: LoopChange) -> None:
        """Replace the loops of a stage in `span`; stages attached at the last one move along."""
        stage = self.stages[index]
        old = stage.loops[span]
        stage.loops[span] = new
        stage.changes.append(Change(len(self.steps), span, transform))
        for other, place in self.attached_to(index):
            if place.loop in old[-1:] and place.loop not in new:
                other.place = replace(place, loop=new[-1])

    def insert(self, index: int, stage: Stage) -> None:
        """Insert a stage before stage `index`."""
        for other in self.stages:
            place = other.place
            if place is not None and place.target is not None and place.target >= index:
                other.place = replace(place, target=place.target + 1)
        self.stages.insert(index, stage)

    # -------------------------------------------------------------------- the blocks of the stages

    def block(self, stage: Stage) -> BlockRV:
        """Return the one block of a stage; StepError if it has several."""
        if isinstance(stage.source, tuple):
            if len(stage.source) != 1:
                raise StepError(
                    f"{stage.name} computes {len(stage.source)} tensors in separate nests; steps "
                    "on such a stage cannot be replayed"
                )
            stage.source = self.sch.get_block(stage.source[0], "main")
        assert isinstance(stage.source, BlockRV)
        return stage.source

    def buffer(self, stage: Stage) -> Buffer:
        """Return the buffer that a stage writes, or that of an input."""
        if isinstance(stage.source, Buffer):
            return stage.source
        writes = self.sch.get(self.block(stage)).writes
        if len(writes) != 1:
            raise StepError(f"{stage.name} computes {len(writes)} tensors; a cache holds one")
        return writes[0].buffer

    def nest(self, stage: Stage) -> list[LoopRV]:
        """Return the loops of a stage in the program, in the order of its axes."""
        loops = self.sch.get_loops(self.block(stage))
        count = len(stage.axes)
        if len(loops) < count:
            raise StepError(
                f"{stage.name} has {count} axes but {len(loops)} loops around its block, because "
                "the range of one depends on another; steps on it cannot be replayed"
            )
        return loops[len(loops) - count :]

    # ------------------------------------------------------------------------------------- replay

    def replay(self) -> None:
        """Apply all noted steps to the program; StepError for a step that cannot be applied.

        Inlining comes first. Then each stage, consumers before producers, is moved to its place,
        which gives it loops over the required region, and its loops are changed. Marks come last.
        """
        for stage in self.stages:
            if stage.place is not None and stage.is_inlined:
                with self._naming_step(stage.place.step):
                    names = stage.source if isinstance(stage.source, tuple) else ()
                    blocks = [self.sch.get_block(name, "main") for name in names]
                    for block in blocks or [self.block(stage)]:
                        self.sch.compute_inline(block)
        loops: dict[int, dict[str, LoopRV]] = {}
        for index in reversed(range(len(self.stages))):
            self._place(index, loops)
        for index, stage in enumerate(self.stages):
            for mark in stage.marks:
                with self._naming_step(mark.step):
                    loop = loops[index][mark.loop]
                    if isinstance(mark.value, str):
                        getattr(self.sch, mark.value)(loop)
                    else:
                        self.sch.annotate(loop, f"pragma_{UNROLL}", mark.value)
                        self.sch.annotate(loop, "pragma_unroll_explicit", 1)

    def _place(self, index: int, loops: dict[int, dict[str, LoopRV]]) -> None:
        """Move a stage to its place, change its loops, and add them to `loops`."""
        stage = self.stages[index]
        steps = [change.step for change in stage.changes] + [mark.step for mark in stage.marks]
        steps += [place.step for _, place in self.attached_to(index)]
        if stage.place is not None:
            steps.append(stage.place.step)
        if stage.is_inlined or not steps:
            return
        first = min(steps)
        with self._naming_step(first):
            block = self.block(stage)
        if stage.place is not None and stage.place.target is not None:
            with self._naming_step(stage.place.step):
                target = loops[stage.place.target][stage.place.loop]
                self.sch.compute_at(block, target, preserve_unit_loops=True)
        with self._naming_step(first):
            nest = self.nest(stage)
        for change in stage.changes:
            with self._naming_step(change.step):
                nest = change.apply(self.sch, block, nest)
        loops[index] = dict(zip(stage.loops, nest, strict=True))

    def _naming_step(self, at: int) -> AbstractContextManager[None]:
        return blamed_on_step(at, self.steps[at])
