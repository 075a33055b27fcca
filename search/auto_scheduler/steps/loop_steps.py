"""Steps on the loops of one stage: splits, fusions, orders, and marks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final

from search.auto_scheduler.steps.loop_changes import fuse, reorder, split
from search.auto_scheduler.steps.state import Hint, State, iterator_at
from search.auto_scheduler.steps.step import StageStep, StepError

if TYPE_CHECKING:
    from schedule import BlockRV, LoopRV, Schedule


# ------------------------------------------------------------------------------------------- splits


@dataclass(frozen=True)
class SplitStep(StageStep):
    """Split a loop in one part more than there are `lengths`.

    `lengths` are those of all parts but the outermost, or the innermost unless `inner_to_outer`,
    from the outside in; None is open. `extent` is that of the loop, 0 where it was not known.
    """

    code: ClassVar[str] = "SP"
    iterator: int
    extent: int
    lengths: tuple[int | None, ...]
    inner_to_outer: bool

    def apply(self, state: State, at: int) -> State:
        """Split; StepError where the step was made for a loop of another extent."""
        stage = state.stage_with_loops(self.stage)
        it = iterator_at(stage, self.iterator)
        # Only of an operation's own loop does the extent say what program the step was made for:
        # that of a part is not brought up to date when a search changes the split before it.
        if self.extent and it in stage.axes and it.extent not in (None, self.extent):
            raise StepError(
                f"it splits a loop of {self.extent} iterations, but {it.name} of {stage.name} has "
                f"{it.extent}: the steps are those of another workload"
            )
        return split(state, self.stage, self.iterator, self.lengths, self.inner_to_outer, at)


@dataclass(frozen=True)
class FollowSplitStep(StageStep):
    """Split a loop like another step did, in `n_split + 1` parts, the inner ones in one."""

    code: ClassVar[str] = "FSP"
    iterator: int
    source: int
    n_split: int

    def apply(self, state: State, at: int) -> State:
        """Split with the lengths of the other step."""
        lengths = _split_at(state, self.source).lengths
        if not 1 <= self.n_split <= len(lengths):
            raise StepError(
                f"n_split is {self.n_split}, but step {self.source} has {len(lengths)} lengths"
            )
        kept = self.n_split - 1
        followed = (*lengths[:kept], _product(lengths[kept:]))
        return split(state, self.stage, self.iterator, followed, True, at)


@dataclass(frozen=True)
class FollowFusedSplitStep(StageStep):
    """Split a loop in two like several other steps together did.

    The length is the product of the lengths number `level` of those steps; it is that of the inner
    part if `is_factor`, else that of the outer one.
    """

    code: ClassVar[str] = "FFSP"
    iterator: int
    sources: tuple[int, ...]
    level: int
    is_factor: bool

    def apply(self, state: State, at: int) -> State:
        """Split with the product of the lengths."""
        lengths: list[int | None] = []
        for source in self.sources:
            of_source = _split_at(state, source).lengths
            if not 0 <= self.level < len(of_source):
                raise StepError(
                    f"level is {self.level}, but step {source} has {len(of_source)} lengths"
                )
            lengths.append(of_source[self.level])
        return split(state, self.stage, self.iterator, [_product(lengths)], self.is_factor, at)


def _split_at(state: State, index: int) -> SplitStep:
    step = (
        state.transform_steps[index] if 0 <= index < len(state.transform_steps) else "not there yet"
    )
    if not isinstance(step, SplitStep):
        raise StepError(f"it follows step {index}, which is no SP: {step}")
    return step


def _product(lengths: tuple[int | None, ...] | list[int | None]) -> int | None:
    known = [length for length in lengths if length is not None]
    return prod(known) if len(known) == len(lengths) else None


# --------------------------------------------------------------------------------- fusion and order


@dataclass(frozen=True)
class FuseStep(StageStep):
    """Make one loop of neighbouring ones."""

    code: ClassVar[str] = "FU"
    iterators: tuple[int, ...]

    def apply(self, state: State, at: int) -> State:
        """Fuse."""
        return fuse(state, self.stage, self.iterators, at)


@dataclass(frozen=True)
class ReorderStep(StageStep):
    """Order the loops of a stage; `order[k]` is the position of the one that comes to place k."""

    code: ClassVar[str] = "RE"
    order: tuple[int, ...]

    def apply(self, state: State, at: int) -> State:
        """Reorder."""
        return reorder(state, self.stage, self.order, at)


# -------------------------------------------------------------------------------------------- marks


@dataclass(frozen=True)
class HintOnLoop(StageStep):
    """A step that says something of a loop; steps after it leave the loop as it is."""

    iterator: int

    @property
    def binds_thread(self) -> bool:
        """True if threads run the loop, which says what memory they share below it."""
        return False

    @property
    def mark_name(self) -> str:
        """The word that is printed in the place of `for`; empty for a loop without a mark."""
        return ""

    @property
    def note(self) -> str:
        """The note that is printed of the stage; empty for none."""
        return ""

    def mark(self, sch: Schedule, block: BlockRV, loop: LoopRV, dimension: int | None) -> None:
        """Mark the loop of a schedule, or the block of its stage.

        `dimension` is that of the result which the loop runs over, None if it does not over one.
        """
        raise NotImplementedError

    def apply(self, state: State, at: int) -> State:
        """Note the hint."""
        stage = state.stage_with_loops(self.stage)
        it = iterator_at(stage, self.iterator)
        hint = Hint(at, self, it.name)
        return state.with_stage(self.stage, replace(stage, hints=(*stage.hints, hint)))


def _bind(tag: str) -> tuple[str, Callable[[Schedule, LoopRV], None]]:
    return tag, lambda sch, loop: sch.bind(loop, tag)


_ANNOTATIONS: Final[tuple[tuple[str, Callable[[Schedule, LoopRV], None] | None], ...]] = (
    ("for", None),
    ("unroll", lambda sch, loop: sch.unroll(loop)),
    ("vectorize", lambda sch, loop: sch.vectorize(loop)),
    ("parallel", lambda sch, loop: sch.parallel(loop)),
    _bind("vthread"),
    _bind("blockIdx.x"),
    _bind("threadIdx.x"),
    _bind("blockIdx.y"),
    _bind("threadIdx.y"),
    _bind("blockIdx.z"),
    _bind("threadIdx.z"),
    ("tensorize", None),
)
"""The word for each number of an annotation, and the call that does it; None if nothing is done."""


@dataclass(frozen=True)
class AnnotateStep(HintOnLoop):
    """Say how the iterations of a loop are run."""

    code: ClassVar[str] = "AN"
    annotation: int

    def apply(self, state: State, at: int) -> State:
        """Note the annotation; a loop has one."""
        if not 0 <= self.annotation < len(_ANNOTATIONS):
            raise StepError(
                f"there is no annotation {self.annotation}; "
                + ", ".join(f"{k} is {name}" for k, (name, _) in enumerate(_ANNOTATIONS))
            )
        if _ANNOTATIONS[self.annotation][0] == "tensorize":
            raise StepError(
                "tensorize is not replayed, because the step does not name its intrinsic; leave it "
                "out, and call Schedule.tensorize"
            )
        stage = state.stage_with_loops(self.stage)
        name = iterator_at(stage, self.iterator).name
        if not self.mark_name:
            return state
        for hint in stage.hints:
            if hint.iterator == name and hint.says.mark_name:
                raise StepError(f"step {hint.step} marked loop {name} {hint.says.mark_name} before")
        return super().apply(state, at)

    @property
    def binds_thread(self) -> bool:
        """True if the loop is bound to an axis of threads."""
        return self.mark_name.startswith(("vthread", "blockIdx", "threadIdx"))

    @property
    def mark_name(self) -> str:
        """The word for the annotation."""
        return _ANNOTATIONS[self.annotation][0] if self.annotation else ""

    def mark(self, sch: Schedule, block: BlockRV, loop: LoopRV, dimension: int | None) -> None:
        """Set the kind of the loop."""
        do = _ANNOTATIONS[self.annotation][1]
        assert do is not None
        do(sch, loop)


_UNROLL: Final = "auto_unroll_max_step"


@dataclass(frozen=True)
class PragmaStep(HintOnLoop):
    """Let what is below a loop be unrolled, up to a number of copies: `auto_unroll_max_step$N`."""

    code: ClassVar[str] = "PR"
    pragma: str

    @property
    def note(self) -> str:
        """The number of copies."""
        return f"auto_unroll: {_max_step(self.pragma)}"

    def apply(self, state: State, at: int) -> State:
        """Note the pragma."""
        _max_step(self.pragma)
        return super().apply(state, at)

    def mark(self, sch: Schedule, block: BlockRV, loop: LoopRV, dimension: int | None) -> None:
        """Annotate the loop."""
        sch.annotate(loop, f"pragma_{_UNROLL}", _max_step(self.pragma))
        sch.annotate(loop, "pragma_unroll_explicit", 1)


def _max_step(pragma: str) -> int:
    """Return the number of a pragma; StepError for one that is not known."""
    name, _, number = pragma.partition("$")
    if name != _UNROLL or not number.isdecimal():
        raise StepError(f"the only pragma is {_UNROLL}$N with a number N, got {pragma!r}")
    return int(number)


@dataclass(frozen=True)
class StorageAlignStep(HintOnLoop):
    """Ask that the stride of the dimension of a loop be `factor * k + offset` for some k."""

    code: ClassVar[str] = "SA"
    factor: int
    offset: int

    @property
    def note(self) -> str:
        """The request."""
        return f"storage_align: {self.factor}, {self.offset}"

    def apply(self, state: State, at: int) -> State:
        """Note the request; StepError where the loop does not run over a dimension."""
        stage = state.stage_with_loops(self.stage)
        name = iterator_at(stage, self.iterator).name
        if stage.dimension_of(name) is None:
            dimensions = ", ".join(it.name for it in stage.axes[: len(stage.shape)])
            raise StepError(
                f"loop {name} runs over no dimension of {stage.name}; its dimensions are "
                f"{dimensions}"
            )
        return super().apply(state, at)

    def mark(self, sch: Schedule, block: BlockRV, loop: LoopRV, dimension: int | None) -> None:
        """Note the request on the block."""
        assert dimension is not None
        sch.storage_align(block, 0, dimension, self.factor, self.offset)
