"""From a state to the program that it stands for.

Steps cannot be replayed one after another: they say `compute_at` before the loops of the consumer
are what they will be, and bounds follow from all of them together. What counts is the state at the
end, so stages are divided first, on the program as it was written; then each one, consumers before
what they read, takes its place, which gives it loops over what is needed there, and its loops are
changed; marks come last.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from schedule import BlockRV, LoopRV, Schedule, TraceError
from search.auto_scheduler.steps.state import State
from search.auto_scheduler.steps.step import StepError, TraceStep, blamed_on_step
from search.postproc.rewrite_layout import RewriteLayout
from search.postproc.rewrite_reduction_block import RewriteReductionBlock
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IntImm
from tensorir.te import PlaceholderOp

if TYPE_CHECKING:
    from search.auto_scheduler.steps.compute_dag import ComputeDAG


def schedule_of(
    dag: ComputeDAG, state: State, *, seed: int, rewrite_layouts: RewriteLayout | None = None
) -> Schedule:
    """Return the schedule of a state; StepError names the step that cannot be replayed, and why."""
    if state.is_trace:
        return _of_trace(dag, state, seed)
    sch = Replay(dag, state, seed).sch
    sch.enter_postproc()
    RewriteReductionBlock().apply(sch)
    if rewrite_layouts is not None and not rewrite_layouts.apply(sch):
        raise StepError("after all steps, layouts cannot be rewritten")
    return sch


def with_extents(dag: ComputeDAG, state: State) -> State:
    """Return a state with the extents of all loops, as the whole program gives them."""
    if state.is_trace:
        return state
    made = Replay(dag, state, 1)
    for index, loops in made.loops.items():
        stage = state.stages[index]
        extents = [made.sch.get(loop).extent for loop in loops]
        iters = [
            replace(it, extent=extent.value if isinstance(extent, IntImm) else None)
            for it, extent in zip(stage.iters, extents, strict=True)
        ]
        state = state.with_stage(index, replace(stage, iters=tuple(iters)))
    return state


def _of_trace(dag: ComputeDAG, state: State, seed: int) -> Schedule:
    step = state.transform_steps[-1]
    assert isinstance(step, TraceStep)
    sch = Schedule(dag.func, seed=seed, error_render_level="fast")
    with blamed_on_step(0, step):
        try:
            step.trace.apply_to_schedule(sch, remove_postproc=False)
        except TraceError as error:
            raise StepError(f"its trace is one of another program: {error}") from error
    return sch


class Replay:
    """The schedule of a state: which block computes which stage, and the loops of each.

    StepError for a step that cannot be replayed.
    """

    def __init__(self, dag: ComputeDAG, state: State, seed: int) -> None:
        self.sch = Schedule(dag.func, seed=seed, error_render_level="fast")
        arguments = zip(dag.tensors, dag.func.buffer_map.values(), strict=True)
        inputs = {t.op: buffer for t, buffer in arguments if isinstance(t.op, PlaceholderOp)}
        self._sources: list[Buffer | tuple[str, ...] | BlockRV] = [
            inputs[op] if op in inputs else dag.block_names[op] for op in dag.ops
        ]
        self._steps = state.transform_steps
        self.state = dag.init_state()
        for at, step in enumerate(self._steps):
            with blamed_on_step(at, step):
                step.restructure(self)
            self.state = self.state.then(step)
        self.state = state
        self.loops: dict[int, list[LoopRV]] = {}
        self._inline()
        for index in reversed(range(len(state.stages))):
            self._place(index)
        self._mark(range(len(state.stages)), threads=False)

    # -------------------------------------------------------------------- the blocks of the stages

    def block(self, index: int) -> BlockRV:
        """Return the block of a stage; StepError unless it has one whose loops are its axes."""
        source = self._sources[index]
        if isinstance(source, tuple):
            if len(source) != 1:
                raise StepError(
                    f"{self.state.stages[index].name} gives {len(source)} tensors, which are "
                    "computed in a nest each; steps on it cannot be replayed"
                )
            source = self._sources[index] = self.sch.get_block(source[0], "main")
        assert isinstance(source, BlockRV)
        return source

    def buffer(self, index: int) -> Buffer:
        """Return the buffer of a stage or an input."""
        source = self._sources[index]
        if isinstance(source, Buffer):
            return source
        writes = self.sch.get(self.block(index)).writes
        if len(writes) != 1:
            name = self.state.stages[index].name
            raise StepError(f"{name} gives {len(writes)} tensors, not one")
        return writes[0].buffer

    def insert(self, index: int, block: BlockRV) -> None:
        """Let a block be that of a new stage; those from `index` on move up."""
        self._sources.insert(index, block)

    def nest(self, index: int) -> list[LoopRV]:
        """Return the loops of a stage where it is, in the order of its axes."""
        stage = self.state.stages[index]
        loops = self.sch.get_loops(self.block(index))
        count = len(stage.axes)
        if len(loops) < count:
            raise StepError(
                f"{stage.name} has {count} axes but {len(loops)} loops around its block, because "
                "the range of one depends on another; steps on it cannot be replayed"
            )
        return loops[len(loops) - count :]

    # ------------------------------------------------------------------------------------ the state

    def _inline(self) -> None:
        for index, stage in enumerate(self.state.stages):
            if stage.place is not None and stage.is_inlined:
                source = self._sources[index]
                with self._blamed(stage.place.step):
                    if isinstance(source, tuple) and len(source) != 1:
                        blocks = [self.sch.get_block(name, "main") for name in source]
                    else:
                        blocks = [self.block(index)]
                    for block in blocks:
                        self.sch.compute_inline(block)

    def _place(self, index: int) -> None:
        stage = self.state.stages[index]
        own = [place.step for _, place in self.state.attached_to(index)]
        own += [change.step for change in stage.changes] + [hint.step for hint in stage.hints]
        if stage.place is not None:
            own.append(stage.place.step)
        if stage.is_inlined or not own:
            return
        with self._blamed(min(own)):
            block = self.block(index)
        if (place := stage.place) is not None and place.target is not None:
            with self._blamed(place.step):
                target = self.state.stages[place.target].index_of(place.iterator)
                loop = self.loops[place.target][target]
                self.sch.compute_at(block, loop, preserve_unit_loops=True)
        with self._blamed(min(own)):
            loops = self.nest(index)
        for change in stage.changes:
            with self._blamed(change.step):
                loops = change.says.replay(self.sch, block, loops)
        self.loops[index] = loops
        # What threads share is more than one of them needs, so they are there before producers.
        self._mark([index], threads=True)

    def _mark(self, stages: Iterable[int], threads: bool) -> None:
        for index in stages:
            stage = self.state.stages[index]
            for hint in stage.hints:
                if hint.says.binds_thread == threads:
                    loop = self.loops[index][stage.index_of(hint.iterator)]
                    dimension = stage.dimension_of(hint.iterator)
                    with self._blamed(hint.step):
                        hint.says.mark(self.sch, self.block(index), loop, dimension)

    def _blamed(self, at: int) -> AbstractContextManager[None]:
        return blamed_on_step(at, self._steps[at])
