"""Steps on the loops of one stage: splits, fusions, orders, and marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, ClassVar, Final

from search.auto_scheduler.steps.state import Iterator, IterKind, State, Taken
from search.auto_scheduler.steps.step import StageStep, StepError
from tensorir.nodes.expr import IntImm

if TYPE_CHECKING:
    from schedule import BlockRV, LoopRV, Schedule


class LoopStep(StageStep):
    """A step that gives a stage other loops."""

    def replay(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Change the loops of a block, and return those that there are then, outermost first."""
        raise NotImplementedError


# ------------------------------------------------------------------------------------------- splits


@dataclass(frozen=True)
class SplitStep(LoopStep):
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
        """Split; StepError where the step was made for a loop of another extent.

        Stages that are computed at the loop are so at its innermost part.
        """
        stage = state.stage_with_loops(self.stage)
        it = stage.iterator(self.iterator)
        # Only of an operation's own loop does the extent say what program the step was made for:
        # that of a part is not brought up to date when a search changes the split before it.
        if self.extent and it in stage.axes and it.extent not in (None, self.extent):
            raise StepError(
                f"it splits a loop of {self.extent} iterations, but {it.name} of {stage.name} has "
                f"{it.extent}: the steps are those of another workload"
            )
        stage.free_iterator(self.iterator)
        for length in self.lengths:
            if length is not None and length < 1:
                raise StepError(f"a length is {length}; lengths are at least 1")
        length = _product(self.lengths)
        rest = None if it.extent is None or length is None else -(-it.extent // length)
        extents = [rest, *self.lengths] if self.inner_to_outer else [*self.lengths, rest]
        parts = [Iterator(f"{it.name}.{k}", extent, it.kind) for k, extent in enumerate(extents)]
        iters = [*stage.iters[: self.iterator], *parts, *stage.iters[self.iterator + 1 :]]
        return state.with_loops(self.stage, iters, Taken(at, self), it.name, parts[-1].name)

    def replay(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Split the loop. Lengths beyond what there is to run are cut, from the inside out.

        A stage that is computed in a loop of another runs over what is needed there, which may be
        less than its steps expect.
        """
        if None in self.lengths:
            raise StepError("its lengths are open: a sketch is no program before they are filled")
        loop = loops[self.iterator]
        lengths = [length for length in self.lengths if length is not None]
        extent = sch.get(loop).extent
        factors: list[int | None] = list(lengths)
        if isinstance(extent, IntImm):
            factors = list(_cut(lengths, extent.value, self.inner_to_outer))
        open_at = 0 if self.inner_to_outer else len(factors)
        parts = sch.split(loop, [*factors[:open_at], None, *factors[open_at:]])
        return [*loops[: self.iterator], *parts, *loops[self.iterator + 1 :]]


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
        return SplitStep(self.stage, self.iterator, 0, followed, True).apply(state, at)


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
        length = (_product(lengths),)
        return SplitStep(self.stage, self.iterator, 0, length, self.is_factor).apply(state, at)


def _split_at(state: State, index: int) -> SplitStep:
    step = (
        state.transform_steps[index] if 0 <= index < len(state.transform_steps) else "not there yet"
    )
    if not isinstance(step, SplitStep):
        raise StepError(f"it follows step {index}, which is no SP: {step}")
    return step


def _product(lengths: Sequence[int | None]) -> int | None:
    """Return the product of numbers, None where one is not known."""
    known = [length for length in lengths if length is not None]
    return prod(known) if len(known) == len(lengths) else None


def _cut(lengths: Sequence[int], extent: int, inner_to_outer: bool) -> list[int]:
    """Return lengths, each at most what those before it leave of an extent."""
    cut: list[int] = []
    for length in reversed(lengths) if inner_to_outer else lengths:
        cut.append(max(1, min(length, extent)))
        extent = -(-extent // cut[-1])
    return cut[::-1] if inner_to_outer else cut


# --------------------------------------------------------------------------------- fusion and order


@dataclass(frozen=True)
class FuseStep(LoopStep):
    """Make one loop of neighbouring ones; of none, a loop of one iteration."""

    code: ClassVar[str] = "FU"
    iterators: tuple[int, ...]

    def apply(self, state: State, at: int) -> State:
        """Fuse."""
        stage = state.stage_with_loops(self.stage)
        old = [stage.iterator(position) for position in self.iterators]
        if not old:
            if stage.iters:
                raise StepError(f"it fuses no loops; {stage.loops}")
            unit = Iterator("unit", 1)
            return state.with_loops(self.stage, [unit], Taken(at, self), unit.name, unit.name)
        if any(b != a + 1 for a, b in pairwise(self.iterators)):
            raise StepError(f"only loops that follow one another can be fused; {stage.loops}")
        used = {place.iterator: k for k, place in state.attached_to(self.stage)}
        for position, it in zip(self.iterators, old, strict=True):
            stage.free_iterator(position)
            if it.name in used and it is not old[-1]:
                other = state.stages[used[it.name]].name
                raise StepError(
                    f"{other} is computed at loop {it.name}, which would no longer be there; fuse "
                    "the loops inside or outside of it"
                )
        kinds = {it.kind for it in old}
        fused = Iterator(
            "".join(f"{it.name}@" for it in old),
            _product([it.extent for it in old]),
            kinds.pop() if len(kinds) == 1 else IterKind.MIXED,
        )
        first = self.iterators[0]
        iters = [*stage.iters[:first], fused, *stage.iters[first + len(old) :]]
        return state.with_loops(self.stage, iters, Taken(at, self), old[-1].name, fused.name)

    def replay(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Fuse the loops."""
        if not self.iterators:
            return [sch.add_unit_loop(block), *loops]
        first, end = self.iterators[0], self.iterators[-1] + 1
        return [*loops[:first], sch.fuse(*loops[first:end]), *loops[end:]]


@dataclass(frozen=True)
class ReorderStep(LoopStep):
    """Order the loops of a stage; `order[k]` is the position of the one that comes to place k."""

    code: ClassVar[str] = "RE"
    order: tuple[int, ...]

    def apply(self, state: State, at: int) -> State:
        """Reorder."""
        stage = state.stage_with_loops(self.stage)
        if sorted(self.order) != list(range(len(stage.iters))):
            raise StepError(
                f"the order {list(self.order)} does not name each of the {len(stage.iters)} loops "
                f"once; {stage.loops}"
            )
        iters = [stage.iters[k] for k in self.order]
        return state.with_loops(self.stage, iters, Taken(at, self), "", "")

    def replay(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Reorder the loops."""
        ordered = [loops[k] for k in self.order]
        if ordered != loops:
            sch.reorder(*ordered)
        return ordered


# -------------------------------------------------------------------------------------------- marks


@dataclass(frozen=True)
class HintOnLoop(StageStep):
    """A step that says something of a loop; steps after it leave the loop as it is."""

    iterator: int

    @property
    def mark_name(self) -> str:
        """The word that is printed in the place of `for`; empty for a loop without a mark."""
        return ""

    @property
    def note(self) -> str:
        """The note that is printed of the stage; empty for none."""
        return ""

    @property
    def binds_thread(self) -> bool:
        """True if threads run the loop, which says what memory they share below it."""
        return self.mark_name.startswith(("vthread", "blockIdx", "threadIdx"))

    def mark(self, sch: Schedule, block: BlockRV, loop: LoopRV, dimension: int | None) -> None:
        """Mark the loop of a schedule, or the block of its stage.

        `dimension` is that of the result which the loop runs over, None if it does not over one.
        """
        raise NotImplementedError

    def apply(self, state: State, at: int) -> State:
        """Note the hint."""
        stage = state.stage_with_loops(self.stage)
        hint = Taken(at, self, stage.iterator(self.iterator).name)
        return state.with_stage(self.stage, replace(stage, hints=(*stage.hints, hint)))


_ANNOTATIONS: Final = (
    *("for", "unroll", "vectorize", "parallel", "vthread", "blockIdx.x", "threadIdx.x"),
    *("blockIdx.y", "threadIdx.y", "blockIdx.z", "threadIdx.z", "tensorize"),
)
"""The word for each number of an annotation."""


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
                + ", ".join(f"{k} is {name}" for k, name in enumerate(_ANNOTATIONS))
            )
        if self.mark_name == "tensorize":
            raise StepError(
                "tensorize is not replayed, because the step does not name its intrinsic; leave it "
                "out, and call Schedule.tensorize"
            )
        stage = state.stage_with_loops(self.stage)
        name = stage.iterator(self.iterator).name
        if not self.mark_name:
            return state
        for hint in stage.hints:
            if hint.iterator == name and hint.says.mark_name:
                raise StepError(f"step {hint.step} marked loop {name} {hint.says.mark_name} before")
        return super().apply(state, at)

    @property
    def mark_name(self) -> str:
        """The word for the annotation."""
        return _ANNOTATIONS[self.annotation] if self.annotation else ""

    def mark(self, sch: Schedule, block: BlockRV, loop: LoopRV, dimension: int | None) -> None:
        """Set the kind of the loop."""
        if self.binds_thread:
            sch.bind(loop, self.mark_name)
        else:
            {"unroll": sch.unroll, "vectorize": sch.vectorize, "parallel": sch.parallel}[
                self.mark_name
            ](loop)


_UNROLL: Final = "auto_unroll_max_step"


@dataclass(frozen=True)
class PragmaStep(HintOnLoop):
    """Let what is below a loop be unrolled, up to a number of copies: `auto_unroll_max_step$N`."""

    code: ClassVar[str] = "PR"
    pragma: str

    @property
    def max_step(self) -> int:
        """The number of copies; StepError for a pragma that is not known."""
        name, _, number = self.pragma.partition("$")
        if name != _UNROLL or not number.isdecimal():
            raise StepError(f"the only pragma is {_UNROLL}$N with a number N, got {self.pragma!r}")
        return int(number)

    @property
    def note(self) -> str:
        """The number of copies."""
        return f"auto_unroll: {self.max_step}"

    def apply(self, state: State, at: int) -> State:
        """Note the pragma, which must be known."""
        self.max_step  # noqa: B018 - a pragma that is not known is refused here
        return super().apply(state, at)

    def mark(self, sch: Schedule, block: BlockRV, loop: LoopRV, dimension: int | None) -> None:
        """Annotate the loop."""
        sch.annotate(loop, f"pragma_{_UNROLL}", self.max_step)
        sch.annotate(loop, "pragma_unroll_explicit", 1)


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
        name = stage.iterator(self.iterator).name
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
