"""Splitting, fusing and reordering the loops of a stage: on the books, and in a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from search.auto_scheduler.steps.state import (
    Iterator,
    IterKind,
    LoopChange,
    Stage,
    State,
    iterator_at,
    loops_of,
)
from search.auto_scheduler.steps.step import StepError
from tensorir.nodes.expr import IntImm

if TYPE_CHECKING:
    from schedule import BlockRV, LoopRV, Schedule


@dataclass(frozen=True, slots=True)
class SplitLoop:
    """A loop becomes a nest; all extents but the outermost, or the innermost, are given."""

    step: int
    position: int
    lengths: tuple[int | None, ...]
    inner_to_outer: bool

    def replay(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Split the loop. Lengths beyond what there is to run are cut, from the inside out.

        A stage that is computed in a loop of another runs over what is needed there, which may be
        less than its steps expect.
        """
        if None in self.lengths:
            raise StepError("its lengths are open: a sketch is no program before they are filled")
        loop = loops[self.position]
        lengths = [length for length in self.lengths if length is not None]
        extent = sch.get(loop).extent
        factors: list[int | None] = list(lengths)
        if isinstance(extent, IntImm):
            factors = list(_cut(lengths, extent.value, self.inner_to_outer))
        open_at = 0 if self.inner_to_outer else len(factors)
        parts = sch.split(loop, [*factors[:open_at], None, *factors[open_at:]])
        return [*loops[: self.position], *parts, *loops[self.position + 1 :]]


@dataclass(frozen=True, slots=True)
class FuseLoops:
    """Neighbouring loops become one; of none, in a nest without loops, a loop of one iteration."""

    step: int
    first: int
    count: int

    def replay(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Fuse the loops."""
        end = self.first + self.count
        fused = sch.fuse(*loops[self.first : end]) if self.count else sch.add_unit_loop(block)
        return [*loops[: self.first], fused, *loops[end:]]


@dataclass(frozen=True, slots=True)
class ReorderLoops:
    """All loops take new places: `order[k]` says which one comes to place k."""

    step: int
    order: tuple[int, ...]

    def replay(self, sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[LoopRV]:
        """Reorder the loops."""
        ordered = [loops[k] for k in self.order]
        if ordered != loops:
            sch.reorder(*ordered)
        return ordered


def split(
    state: State,
    index: int,
    position: int,
    lengths: Sequence[int | None],
    inner_to_outer: bool,
    at: int,
) -> State:
    """Return a state where a loop is split in one part more than there are lengths.

    Stages that are computed at the loop are so at its innermost part.
    """
    stage = state.stage_with_loops(index)
    it = iterator_at(stage, position)
    _check_unmarked(stage, it)
    for length in lengths:
        if length is not None and length < 1:
            raise StepError(f"a length is {length}; lengths are at least 1")
    parts = [
        Iterator(f"{it.name}.{k}", extent, it.kind)
        for k, extent in enumerate(_extents(it.extent, lengths, inner_to_outer))
    ]
    iters = (*stage.iters[:position], *parts, *stage.iters[position + 1 :])
    change = SplitLoop(at, position, tuple(lengths), inner_to_outer)
    state = state.with_stage(index, _changed(stage, iters, change))
    return _attached_elsewhere(state, index, it.name, parts[-1].name)


def fuse(state: State, index: int, positions: Sequence[int], at: int) -> State:
    """Return a state where neighbouring loops, outermost first, are one."""
    stage = state.stage_with_loops(index)
    old = [iterator_at(stage, position) for position in positions]
    if not old:
        if stage.iters:
            raise StepError(f"it fuses no loops; {loops_of(stage)}")
        unit = Iterator("unit", 1)
        return state.with_stage(index, _changed(stage, (unit,), FuseLoops(at, 0, 0)))
    if any(b != a + 1 for a, b in pairwise(positions)):
        raise StepError(f"only loops that follow one another can be fused; {loops_of(stage)}")
    used = {place.iterator: k for k, place in state.attached_to(index)}
    for it in old:
        _check_unmarked(stage, it)
        if it.name in used and it is not old[-1]:
            other = state.stages[used[it.name]].name
            raise StepError(
                f"{other} is computed at loop {it.name}, which would no longer be there; fuse the "
                "loops inside or outside of it"
            )
    extents = [it.extent for it in old]
    known = [extent for extent in extents if extent is not None]
    kinds = {it.kind for it in old}
    fused = Iterator(
        "".join(f"{it.name}@" for it in old),
        prod(known) if len(known) == len(old) else None,
        kinds.pop() if len(kinds) == 1 else IterKind.MIXED,
    )
    first = positions[0]
    iters = (*stage.iters[:first], fused, *stage.iters[first + len(old) :])
    changed = _changed(stage, iters, FuseLoops(at, first, len(old)))
    state = state.with_stage(index, changed)
    return _attached_elsewhere(state, index, old[-1].name, fused.name)


def reorder(state: State, index: int, order: Sequence[int], at: int) -> State:
    """Return a state where loop `order[k]` of a stage has place k."""
    stage = state.stage_with_loops(index)
    if sorted(order) != list(range(len(stage.iters))):
        raise StepError(
            f"the order {list(order)} does not name each of the {len(stage.iters)} loops once; "
            f"{loops_of(stage)}"
        )
    iters = tuple(stage.iters[k] for k in order)
    return state.with_stage(index, _changed(stage, iters, ReorderLoops(at, tuple(order))))


def _changed(stage: Stage, iters: tuple[Iterator, ...], change: LoopChange) -> Stage:
    return replace(stage, iters=iters, changes=(*stage.changes, change))


def _check_unmarked(stage: Stage, it: Iterator) -> None:
    marks = [hint for hint in stage.hints if hint.iterator == it.name]
    if marks:
        raise StepError(
            f"loop {it.name} of {stage.name} was marked by step {marks[0].step}; mark it after it "
            "is split and fused"
        )


def _attached_elsewhere(state: State, index: int, old: str, new: str) -> State:
    for k, place in state.attached_to(index):
        if place.iterator == old:
            moved = replace(state.stages[k], place=replace(place, iterator=new))
            state = state.with_stage(k, moved)
    return state


def _extents(
    extent: int | None, lengths: Sequence[int | None], inner_to_outer: bool
) -> list[int | None]:
    """Return the extents of the parts of a loop, outermost first; None where one is not known."""
    known = [length for length in lengths if length is not None]
    rest = -(-extent // prod(known)) if extent is not None and len(known) == len(lengths) else None
    return [rest, *lengths] if inner_to_outer else [*lengths, rest]


def _cut(lengths: Sequence[int], extent: int, inner_to_outer: bool) -> list[int]:
    """Return lengths, each at most what those before it leave of an extent."""
    cut: list[int] = []
    for length in reversed(lengths) if inner_to_outer else lengths:
        cut.append(max(1, min(length, extent)))
        extent = -(-extent // cut[-1])
    return cut[::-1] if inner_to_outer else cut
