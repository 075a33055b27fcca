"""From the stages after all steps to the program that they stand for.

Steps on loops and places cannot be replayed one after another: they say `compute_at` before the
loops of the consumer are what they will be, and bounds follow from all of them together. What
counts is the state at the end: each stage, consumers before what they read, takes its place, which
gives it loops over what is needed there, and its loops are changed; marks come last.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TypeAlias

from schedule import LoopRV
from search.compat.auto_scheduler.stages import Stage, State, blamed_on_step
from search.compat.auto_scheduler.steps import UNROLL

_Loops: TypeAlias = "dict[int, dict[str, LoopRV]]"
"""The loops of the stages that have their place, by name."""


def replay(state: State) -> None:
    """Make the program of a state; StepError for a step that cannot be replayed."""
    for stage in state.stages:
        _inline(state, stage)
    loops: _Loops = {}
    for index in reversed(range(len(state.stages))):
        _place(state, index, loops)
    for index, stage in enumerate(state.stages):
        for hint in stage.hints:
            loop = loops[index][hint.loop]
            with _blamed(state, hint.step):
                if isinstance(hint.value, str):
                    getattr(state.sch, hint.value)(loop)
                else:
                    state.sch.annotate(loop, f"pragma_{UNROLL}", hint.value)
                    state.sch.annotate(loop, "pragma_unroll_explicit", 1)


def _inline(state: State, stage: Stage) -> None:
    if stage.place is None or not stage.is_inlined:
        return
    with _blamed(state, stage.place.step):
        if isinstance(stage.source, tuple):
            blocks = [state.sch.get_block(name, "main") for name in stage.source]
        else:
            blocks = [state.block(stage)]
        for block in blocks:
            state.sch.compute_inline(block)


def _place(state: State, index: int, loops: _Loops) -> None:
    """Compute a stage where it belongs, and change its loops."""
    stage = state.stages[index]
    place = stage.place
    own = [other.step for _, other in state.attached_to(index)]
    own += [change.step for change in stage.changes] + [hint.step for hint in stage.hints]
    if place is not None:
        own.append(place.step)
    if stage.is_inlined or not own:
        return
    with _blamed(state, min(own)):
        block = state.block(stage)
    if place is not None and place.target is not None:
        with _blamed(state, place.step):
            target = loops[place.target][place.loop]
            state.sch.compute_at(block, target, preserve_unit_loops=True)
    with _blamed(state, min(own)):
        nest = state.nest(stage)
    for change in stage.changes:
        with _blamed(state, change.step):
            nest = change.apply(state.sch, block, nest)
    loops[index] = dict(zip(stage.loops, nest, strict=True))


def _blamed(state: State, at: int) -> AbstractContextManager[None]:
    return blamed_on_step(at, state.steps[at])
