"""From a state to the program that it stands for.

Steps cannot be replayed one after another: they say `compute_at` before the loops of the consumer
are what they will be, and bounds follow from all of them together. What counts is the state at the
end, so stages are divided first, on the program as it was written; then each one, consumers before
what they read, takes its place, which gives it loops over what is needed there, and its loops are
changed; marks come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

from schedule import LoopRV, Schedule, TraceError
from search.auto_scheduler.steps.staged_program import StagedProgram
from search.auto_scheduler.steps.state import ComputedAt, Hint, Inlined, State
from search.auto_scheduler.steps.step import Step, StepError, blamed_on_step
from search.auto_scheduler.steps.trace_step import TraceStep
from search.postproc.rewrite_layout import RewriteLayout
from search.postproc.rewrite_reduction_block import RewriteReductionBlock
from tensorir.nodes.expr import IntImm

if TYPE_CHECKING:
    from search.auto_scheduler.steps.compute_dag import ComputeDAG


def schedule_of(
    dag: ComputeDAG, state: State, *, seed: int, rewrite_layouts: RewriteLayout | None = None
) -> Schedule:
    """Return the schedule of a state; StepError names the step that cannot be replayed, and why."""
    if state.is_trace:
        return _of_trace(dag, state, seed)
    replay = _Replay(dag, state, seed)
    replay.run()
    sch = replay.sch
    sch.enter_postproc()
    RewriteReductionBlock().apply(sch)
    if rewrite_layouts is not None and not rewrite_layouts.apply(sch):
        raise StepError("after all steps, layouts cannot be rewritten")
    return sch


def with_extents(dag: ComputeDAG, state: State) -> State:
    """Return a state with the extents of all loops, as the whole program gives them."""
    if state.is_trace:
        return state
    replay = _Replay(dag, state, 1)
    replay.run()
    for index, loops in replay.loops.items():
        stage = state.stages[index]
        extents = [replay.sch.get(loop).extent for loop in loops]
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


class _Replay:
    """A schedule in the making, and the loops of each stage in it."""

    def __init__(self, dag: ComputeDAG, state: State, seed: int) -> None:
        self._state = state
        self._steps: Sequence[Step] = state.transform_steps
        self._start = dag.init_state()
        self._program = StagedProgram(dag, seed)
        self.sch = self._program.sch
        self.loops: dict[int, list[LoopRV]] = {}

    def run(self) -> None:
        """Make the schedule; StepError for a step that cannot be replayed."""
        self._divide(self._start)
        self._inline()
        for index in reversed(range(len(self._state.stages))):
            self._place(index)
        for index, stage in enumerate(self._state.stages):
            for hint in stage.hints:
                if not hint.says.binds_thread:
                    self._mark(index, hint)

    def _divide(self, state: State) -> None:
        for at, step in enumerate(self._steps):
            with blamed_on_step(at, step):
                step.restructure(state, self._program)
            state = state.then(step)

    def _inline(self) -> None:
        for index, stage in enumerate(self._state.stages):
            if isinstance(stage.place, Inlined):
                with self._blamed(stage.place.step):
                    for block in self._program.blocks(self._state, index):
                        self.sch.compute_inline(block)

    def _place(self, index: int) -> None:
        state, program = self._state, self._program
        stage = state.stages[index]
        attached = state.attached_to(index)
        if isinstance(stage.place, Inlined) or (stage.is_fresh and not attached):
            return
        first = self._first_step(index)
        with self._blamed(first):
            block = program.block(state, index)
        if isinstance(place := stage.place, ComputedAt):
            with self._blamed(place.step):
                target = state.stages[place.target].index_of(place.iterator)
                loop = self.loops[place.target][target]
                self.sch.compute_at(block, loop, preserve_unit_loops=True)
        with self._blamed(first):
            loops = program.nest(state, index)
        for change in stage.changes:
            with self._blamed(change.step):
                loops = change.replay(self.sch, block, loops)
        self.loops[index] = loops
        # What threads share is more than one of them needs, so they are there before producers.
        for hint in stage.hints:
            if hint.says.binds_thread:
                self._mark(index, hint)

    def _mark(self, index: int, hint: Hint) -> None:
        stage = self._state.stages[index]
        loop = self.loops[index][stage.index_of(hint.iterator)]
        with self._blamed(hint.step):
            block = self._program.block(self._state, index)
            hint.says.mark(self.sch, block, loop, stage.dimension_of(hint.iterator))

    def _first_step(self, index: int) -> int:
        """Return the first step that has to do with a stage."""
        stage = self._state.stages[index]
        own = [change.step for change in stage.changes] + [hint.step for hint in stage.hints]
        places = [stage.place, *(place for _, place in self._state.attached_to(index))]
        return min(own + [place.step for place in places if place is not None])

    def _blamed(self, at: int) -> AbstractContextManager[None]:
        return blamed_on_step(at, self._steps[at])
