"""Choosing where a block is computed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.dependency import BlockScope, DepKind, dependencies
from schedule.analysis.insertion_place import check_place
from schedule.errors import ScheduleError
from schedule.instruction import BlockArg, Sampled, SampledLoop, primitive
from schedule.primitives.compute_at import needs_plan, plan_move, require_movable
from schedule.primitives.inline import check_compute_inline
from schedule.random_state import RandomState
from schedule.sref import (
    INLINE_MARK,
    ROOT_MARK,
    StmtSRef,
    loops_above,
    lowest_common_ancestor,
)
from schedule.state import ScheduleState
from tensorir.expr import IterVar
from tensorir.ops import is_const_int

INLINE_INDEX = -2
ROOT_INDEX = -1


@primitive("SampleComputeLocation", pure=True)
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
    position of the loop; one that is not possible becomes the nearest smaller one.
    """
    candidates = compute_locations(state, block)
    if decision is None:
        index = list(candidates)[rng.uniform_int(0, len(candidates))]
    elif decision in candidates:
        index = decision
    else:
        index = max((k for k in candidates if k < decision), default=ROOT_INDEX)
    return Sampled(candidates[index], index)


def compute_locations(state: ScheduleState, block: StmtSRef) -> dict[int, StmtSRef]:
    """Return where a block can be computed, by decision."""
    found: dict[int, StmtSRef] = {}
    if _succeeds(lambda: check_compute_inline(state, block)):
        found[INLINE_INDEX] = INLINE_MARK
    found[ROOT_INDEX] = ROOT_MARK
    scope = state.scope_root(block)
    edges = dependencies(state, scope, declared_only=True).out_of(block)
    kinds = (DepKind.RAW, DepKind.WAW)
    consumers = list(dict.fromkeys(d.dst for d in edges if d.kind in kinds))
    if not consumers:
        return found
    boundary = consumers[0].parent
    if len(consumers) > 1:
        boundary = lowest_common_ancestor(consumers)
    if boundary is None or boundary.is_block:
        return found
    loops = loops_above(consumers[0])
    reachable = loops[: loops.index(boundary) + 1]
    try:
        graph = require_movable(state, block)
    except ScheduleError:
        return found
    attempt = _attempt(state, graph, block)
    kinds_of = loop_iter_types(state, reachable)
    spatial = [k for k, kind in enumerate(kinds_of) if kind == IterVar.DATA_PAR]
    last_spatial = max(spatial, default=-1)
    met_other = False
    for k, loop in enumerate(reachable):
        if is_const_int(loop.loop.extent, 1):
            continue
        if kinds_of[k] == IterVar.DATA_PAR:
            if met_other:
                break
        else:
            met_other = True
            if k > last_spatial:
                break
        if _succeeds(partial(attempt, loop)):
            found[k] = loop
    return found


def _attempt(
    state: ScheduleState, graph: BlockScope, block: StmtSRef
) -> Callable[[StmtSRef], object]:
    """Return what raises if the block cannot move below a loop."""
    if needs_plan(block):
        return lambda loop: plan_move(state, graph, block, loop, -1, True, to_consumers=True)
    return lambda loop: check_place(state, graph, block, loop, -1, to_consumers=True)


def _succeeds(attempt: Callable[[], object]) -> bool:
    """Say whether the checks of a primitive pass."""
    try:
        attempt()
    except ScheduleError:
        return False
    return True
