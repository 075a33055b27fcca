"""Choosing where a block is computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.insertion_place import check_place
from schedule.decisions.domain import ChoiceDomain, Decision, DecisionDomain
from schedule.errors import ScheduleError
from schedule.instruction import BlockArg, Sampled, SampledLoop, primitive
from schedule.primitives.compute_at import needs_plan, plan_move, require_movable
from schedule.primitives.inline import check_compute_inline, stays_short
from schedule.primitives.lookup import get_consumers
from schedule.random_state import RandomState
from schedule.sref import (
    INLINE_MARK,
    ROOT_MARK,
    StmtSRef,
    loops_above,
    lowest_common_ancestor,
)
from schedule.state import ScheduleState, memoize_on_state
from tensorir.nodes.expr import IterVar
from tensorir.nodes.ops import is_const_int

INLINE_INDEX = -2
ROOT_INDEX = -1
_MARKS = {INLINE_INDEX: "inline", ROOT_INDEX: "root"}


@dataclass(frozen=True)
class LocationDomain(ChoiceDomain):
    """The places to compute a block: inlined, at the root, at loops of its first consumer."""

    values: tuple[int, ...]

    def repair(self, decision: Any) -> Decision:
        """Return the decision if it is possible, else the nearest smaller one, else the root."""
        place = int(decision)
        if place in self.values:
            return place
        return max((k for k in self.values if k < place), default=ROOT_INDEX)

    def joined(self, other: DecisionDomain) -> DecisionDomain:
        """Return the places of both."""
        if isinstance(other, LocationDomain):
            return LocationDomain(tuple(sorted({*self.values, *other.values})))
        return super().joined(other)

    def label(self, decision: int) -> str:
        """Return "inline", "root" or the loop."""
        return _MARKS.get(decision, f"loop {decision}")

    def __str__(self) -> str:
        loops = [place for place in self.values if place not in _MARKS]
        texts = [_MARKS[place] for place in self.values if place in _MARKS]
        if loops:
            texts.append(f"{'loop' if len(loops) == 1 else 'loops'} {_ranges_text(loops)}")
        return ", ".join(texts)


def _ranges_text(numbers: Sequence[int]) -> str:
    """Return ascending numbers as text; `3 to 5` abbreviates three or more consecutive numbers."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )


def location_domain(state: ScheduleState, block: StmtSRef) -> LocationDomain:
    """Return the places at which a block can be computed.

    Inlining that makes the program much longer is not an alternative, but a given decision may
    choose it.
    """
    inlines = _can_be_inlined(state, block) and stays_short(block, get_consumers(state, block))
    marks = (INLINE_INDEX, ROOT_INDEX) if inlines else (ROOT_INDEX,)
    return LocationDomain((*marks, *reversed(list(_possible_loops(state, block)))))


def nearest_place(state: ScheduleState, block: StmtSRef, decision: int) -> int:
    """Return a place if a block can be computed there, else the nearest smaller one, or the root.

    The result is that of the domain, but fewer places are checked.
    """
    if decision == INLINE_INDEX and _can_be_inlined(state, block):
        return INLINE_INDEX
    return next(_possible_loops(state, block, decision), ROOT_INDEX)


@memoize_on_state
def _can_be_inlined(state: ScheduleState, block: StmtSRef) -> bool:
    with suppress(ScheduleError):
        check_compute_inline(state, block)
        return True
    return False


@memoize_on_state
def _can_move_to(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> bool:
    """Return whether a block that can move may be computed below a loop of its consumers."""
    with suppress(ScheduleError):
        if needs_plan(block):
            plan_move(state, block, loop, -1, True, to_consumers=True)
        else:
            check_place(state, require_movable(state, block), block, loop, -1, to_consumers=True)
        return True
    return False


def _possible_loops(
    state: ScheduleState, block: StmtSRef, most: int | None = None
) -> Iterator[int]:
    """Yield the loops below which a block can be computed, the inner ones first; up to `most`."""
    if most is not None and most < 0:
        return
    loops = consumer_loops(state, block)
    runs = np.array([[not is_const_int(loop.loop.extent, 1)] for loop in loops], bool)
    try:
        require_movable(state, block)
    except ScheduleError:
        return
    opened = open_places(loop_iter_types(state, loops), runs.reshape(-1, 1))
    for k in map(int, np.flatnonzero(opened)[::-1]):
        if (most is None or k <= most) and _can_move_to(state, block, loops[k]):
            yield k


def consumer_loops(state: ScheduleState, block: StmtSRef) -> list[StmtSRef]:
    """Return the loops around the first consumer that are also around all others."""
    consumers = get_consumers(state, block)
    boundary = consumers[0].parent if consumers else None
    if len(consumers) > 1:
        boundary = lowest_common_ancestor(consumers)
    if boundary is None or boundary.is_block:
        return []
    loops = loops_above(consumers[0])
    return loops[: loops.index(boundary) + 1]


def open_places(kinds: Sequence[int], runs: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the loops below which a block may be computed, for several extents of the loops.

    `runs` [loops, cases] is True for loops with more than one iteration, `kinds` has the kinds of
    the axes that they drive. Possible are loops with several iterations up to the last spatial
    one, and of the loops without spatial axes only the last.
    """
    found = np.zeros(runs.shape, bool)
    last_spatial = max((k for k, kind in enumerate(kinds) if kind == IterVar.DATA_PAR), default=-1)
    met_other = np.zeros(runs.shape[1:], bool)
    ended = np.zeros(runs.shape[1:], bool)
    for k, kind in enumerate(kinds):
        if kind == IterVar.DATA_PAR:
            ended |= runs[k] & met_other
        else:
            met_other |= runs[k]
            if k > last_spatial:
                ended |= runs[k]
        found[k] = runs[k] & ~ended
    return found


@primitive("SampleComputeLocation", pure=True, domain=location_domain)
def sample_compute_location(
    state: ScheduleState,
    block: BlockArg,
    *,
    rng: RandomState,
    decision: int | None = None,
) -> SampledLoop:
    """Choose a loop of the first consumer to compute a block at, for `compute_at`.

    The choice is uniform over the loops at which the block can be computed, staying at the root,
    and inlining where that is possible. The decision is -2 for inlining, -1 for the root, else the
    position of the loop; an impossible position becomes the nearest smaller possible one.

    Raises ScheduleError: RootBlockError.
    """
    if decision is None:
        place = location_domain(state, block).decide(rng, None)
    else:
        place = nearest_place(state, block, decision)
    assert isinstance(place, int)
    if place < 0:
        return Sampled(INLINE_MARK if place == INLINE_INDEX else ROOT_MARK, place)
    return Sampled(loops_above(get_consumers(state, block)[0])[place], place)
