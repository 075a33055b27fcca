"""Steps that say where a stage is computed, and steps that make another stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from search.auto_scheduler.steps.state import Iterator, IterKind, Place, Stage, State
from search.auto_scheduler.steps.step import StageStep, StepError

if TYPE_CHECKING:
    from schedule import BlockRV, Schedule
    from search.auto_scheduler.steps.replay import Replay


# ------------------------------------------------------------------------------------------- places


@dataclass(frozen=True)
class ComputeAtStep(StageStep):
    """Compute a stage in a loop of a later one, what is needed there only."""

    code: ClassVar[str] = "CA"
    target: int
    iterator: int

    def apply(self, state: State, at: int) -> State:
        """Move the stage; how far its loops run is then for the whole program to say."""
        state.computed_stage(self.stage)
        target = state.stage_with_loops(self.target)
        if self.target <= self.stage:
            raise StepError(
                f"stage {self.target}, {target.name}, comes before it; a stage is computed in a "
                "loop of a later one, which reads it"
            )
        name = target.iterator(self.iterator).name
        return _placed(state, self.stage, Place(at, self.target, name))


@dataclass(frozen=True)
class ComputeInlineStep(StageStep):
    """Compute a stage wherever it is read."""

    code: ClassVar[str] = "CI"

    def apply(self, state: State, at: int) -> State:
        """Inline the stage, which must be as it was made."""
        stage = state.computed_stage(self.stage)
        for k, _ in state.attached_to(self.stage):
            other = state.stages[k].name
            raise StepError(f"{other} is computed in a loop of {stage.name}; compute it elsewhere")
        if stage.changes or stage.hints:
            raise StepError(f"the loops of {stage.name} were changed, and would not be there")
        if any(it.kind is IterKind.REDUCE for it in stage.axes):
            raise StepError(f"{stage.name} is a reduction, which cannot be inlined")
        return state.with_stage(self.stage, replace(stage, place=Place(at)))


@dataclass(frozen=True)
class ComputeRootStep(StageStep):
    """Compute a stage outside of all others."""

    code: ClassVar[str] = "CR"

    def apply(self, state: State, at: int) -> State:
        """Move the stage out."""
        state.computed_stage(self.stage)
        return _placed(state, self.stage, None)


def _placed(state: State, index: int, place: Place | None) -> State:
    """Return a state with a stage elsewhere; only of a stage as it was made are extents known."""
    stage = state.stages[index]
    known = place is None and not stage.changes
    iters = stage.axes if known else tuple(replace(it, extent=None) for it in stage.iters)
    return state.with_stage(index, replace(stage, place=place, iters=iters))


# --------------------------------------------------------------------------------------- new stages


@dataclass(frozen=True)
class CacheReadStep(StageStep):
    """Let stages read a copy of a stage or an input; the copy is the next stage."""

    code: ClassVar[str] = "CHR"
    scope: str
    readers: tuple[int, ...]

    def apply(self, state: State, at: int) -> State:
        """Add the copy."""
        stage = state.stage(self.stage)
        if not self.readers:
            raise StepError("there are no readers; name the stages that are to read the copy")
        for reader in self.readers:
            name = state.computed_stage(reader).name
            if reader <= self.stage:
                raise StepError(f"stage {reader}, {name}, comes before it and cannot read the copy")
        axes = [Iterator(f"ax{k}", extent) for k, extent in enumerate(stage.shape)]
        copy = Stage.fresh(f"{stage.name}.{self.scope}", axes, stage.shape)
        return state.with_new_stage(self.stage + 1, copy)

    def restructure(self, program: Replay) -> None:
        """Copy what the first reader reads, for all readers."""
        readers = [program.block(reader) for reader in self.readers]
        buffer = program.buffer(self.stage)
        copy = program.sch.cache_read(readers[0], buffer, self.scope, readers)
        program.insert(self.stage + 1, copy)


@dataclass(frozen=True)
class CacheWriteStep(StageStep):
    """Compute a stage in a buffer of its own, and copy that.

    The stage that computes takes the place of the old one; the next stage is the copy.
    """

    code: ClassVar[str] = "CHW"
    scope: str

    def apply(self, state: State, at: int) -> State:
        """Divide the stage, which must be as it was made."""
        stage = state.stage_with_loops(self.stage)
        if stage.changes:
            raise StepError(
                f"the loops of {stage.name} were changed by step {stage.changes[0].step}; a stage "
                "is divided before that"
            )
        _check_alone(state, self.stage)
        if not stage.shape or len(stage.axes) < len(stage.shape):
            raise StepError(f"{stage.name} has no loops over its elements to divide")
        rank = len(stage.shape)
        spatial = stage.axes[:rank]
        computing = [replace(it, name=f"{it.name}_c") for it in spatial]
        axes = (*computing, *stage.axes[rank:])
        cache = Stage.fresh(f"{stage.name}.{self.scope}", axes, stage.shape)
        state = state.with_stage(self.stage, Stage.fresh(stage.name, spatial, stage.shape))
        return state.with_new_stage(self.stage, cache)

    def restructure(self, program: Replay) -> None:
        """Let the block write to the cache, so that the new block is the copy."""
        block = program.block(self.stage)
        copy = program.sch.cache_write(block, program.buffer(self.stage), self.scope)
        program.insert(self.stage + 1, copy)


@dataclass(frozen=True)
class RfactorStep(StageStep):
    """Compute partial results of a reduction, for each iteration of one of its loops.

    The stage that does takes the place of the old one; its new dimension comes to place `position`
    among the others, or last where that is negative. The next stage reduces the partial results.
    """

    code: ClassVar[str] = "RF"
    iterator: int
    position: int

    def apply(self, state: State, at: int) -> State:
        """Divide the stage, of which only loops of the reduction may have been changed."""
        stage = state.stage_with_loops(self.stage)
        rank = len(stage.shape)
        loop = stage.iterator(self.iterator)
        if loop.kind is not IterKind.REDUCE:
            raise StepError(f"loop {loop.name} is no loop of the reduction; {stage.loops}")
        _check_alone(state, self.stage)
        if stage.iters[:rank] != stage.axes[:rank]:
            raise StepError(
                f"the loops over elements of {stage.name} were changed; divide the reduction first"
            )
        if self.position > rank:
            raise StepError(
                f"position {self.position} is beyond the {rank} dimensions of {stage.name}"
            )
        place = self.factor_axis(stage)
        factored = replace(loop, kind=IterKind.SPATIAL)
        kept = [it for it in stage.iters[rank:] if it is not loop]
        axes = (*stage.iters[:place], factored, *stage.iters[place:rank], *kept)
        shape = (*stage.shape[:place], loop.extent, *stage.shape[place:])
        partial = Stage.fresh(f"{stage.name}.rf", axes, shape)
        spatial = [Iterator(f"ax{k}", it.extent) for k, it in enumerate(stage.axes[:rank])]
        over = Iterator(f"{loop.name}_v", loop.extent, IterKind.REDUCE)
        final = Stage.fresh(f"{stage.name}.repl", (*spatial, over), stage.shape)
        return state.with_stage(self.stage, final).with_new_stage(self.stage, partial)

    def factor_axis(self, stage: Stage) -> int:
        """Return the dimension that the partial results of a stage have more."""
        return self.position if self.position >= 0 else len(stage.shape)

    def restructure(self, program: Replay) -> None:
        """Bring the loops of the reduction into shape, and factor one."""
        sch, stage = program.sch, program.state.stage(self.stage)
        block, loops = program.block(self.stage), program.nest(self.stage)
        for change in stage.changes:
            loops = change.says.replay(sch, block, loops)
        place, rank = self.factor_axis(stage), len(stage.shape)
        partial = sch.rfactor(loops[self.iterator], place)
        kept = [k for k in range(rank, len(loops)) if k != self.iterator]
        nest = sch.get_loops(partial)
        ordered = [nest[k] for k in (*range(place), self.iterator, *range(place, rank), *kept)]
        if ordered != nest:
            sch.reorder(*ordered)
        program.insert(self.stage, partial)
        for one in (partial, block):
            _axes_in_order(sch, stage, one)


def _axes_in_order(sch: Schedule, stage: Stage, block: BlockRV) -> None:
    """Give a block its axes in the order of the loops, in which `compute_at` makes new ones."""
    bound = list(sch.get_sref(block).block_realize.iter_values)
    variables = [sch.get(loop).loop_var for loop in sch.get_loops(block)]
    try:
        order = [bound.index(var) for var in variables]
    except ValueError:
        order = []
    if sorted(order) != list(range(len(bound))):
        raise StepError(
            f"the loops of the reduction {stage.name} that remain are not its axes; fuse all of "
            "them before they are split"
        )
    if order != sorted(order):
        sch.reorder_block_iter_var(block, order)


def _check_alone(state: State, index: int) -> None:
    """Raise if a stage was moved or marked, or another one is computed in its loops."""
    stage = state.stages[index]
    attached = state.attached_to(index)
    if stage.place is not None or stage.hints or attached:
        raise StepError(
            f"{stage.name} was moved or marked, or has stages in its loops; a stage is divided "
            "before that"
        )
