"""The place of a block below a loop: between its producers and its consumers there."""

from __future__ import annotations

from schedule.analysis.block_kind import check_not_only_leaf, check_not_output
from schedule.analysis.dependency import BlockScope
from schedule.analysis.iteration_cover import stays_within
from schedule.analysis.surroundings import guard_text, guards
from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef, is_ancestor, scope_root
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor

NOT_SAME_SCOPE = Problem(
    "NotInSameScopeError",
    "{0} and {1} are not in the same block scope",
    "give a loop between the block's scope root and another block of that scope",
)
LOOP_ABOVE = Problem(
    "NotInSameScopeError",
    "{0} is already below {1}",
    "give a loop around another block",
)
NOT_VISITED = Problem(
    "NotAllRequiredBlocksAreVisitedError",
    "the primitive requires all the {kind}(s) of {0} to be under {1}, but these are not: {names}",
    "choose a loop around all of them",
)
NO_PLACE = Problem(
    "InsertionPointNotFoundError",
    "there is no insertion point for {0} under {1}, because its last producer there comes after "
    "its first consumer",
    "choose a loop around all of the last producer's consumers, or move that producer first",
)
WRONG_INDEX = Problem(
    "InvalidInsertionIndexError",
    "the insertion index {index} is not in the valid range [{first}, {last}] below {1}",
    "-1 is the latest place, -2 the earliest",
)
WRONG_ORDER = Problem(
    "DependencyOrderError",
    "{0} cannot move under {1}, because {2}, which depends on it or which it depends on, would end "
    "up on the wrong side of it",
    "choose a loop that lies between the block's producers and consumers",
)
GUARDED_PLACE = Problem(
    "GuardedBlockError",
    "{0} cannot move under {1}, which runs only under `{guard}`, but blocks that use {0} may run "
    "without this condition",
    "choose a loop outside of the condition",
)
RUNS_FURTHER = Problem(
    "NotRegionCoverError",
    "{0} cannot move under {1}, because some of its instances read elements that {2} does not "
    "store, and these instances would not run there",
    "keep the block in its place, or move the producer with compute_at",
)


def check_place(
    state: ScheduleState,
    graph: BlockScope,
    block: StmtSRef,
    loop: StmtSRef,
    index: int,
    *,
    to_consumers: bool,
) -> tuple[int, list[StmtSRef]]:
    """Check that a block can be inserted below a loop.

    Returns the position among the statements there, and the blocks whose required regions it must
    cover. If `needs_plan` returns False, this check alone decides.
    """
    scope = state.scope_root(block)
    check(scope_root(loop) is scope, NOT_SAME_SCOPE, block, loop)
    check(not is_ancestor(loop, block), LOOP_ABOVE, block, loop)
    if to_consumers:
        check_not_output(state, block)
    check_not_only_leaf(graph, block, scope)
    producers = graph.producers_of(block)
    consumers = graph.consumers_of(block)
    position = _position(block, loop, producers, consumers, index)
    required = consumers if to_consumers else producers
    outside = [b for b in required if not is_ancestor(loop, b)]
    if outside:
        kind = "consumer" if to_consumers else "producer"
        names = ", ".join(b.block.name_hint for b in outside)
        fail(NOT_VISITED, block, loop, kind=kind, names=names)
    _check_order(graph, block, loop)
    if not to_consumers:
        for guard, _ in guards(loop, scope):
            fail(GUARDED_PLACE, block, loop, guard=guard_text(guard))
        _check_producers_run_all(block, loop, producers)
    return position, required


def _check_producers_run_all(block: StmtSRef, loop: StmtSRef, producers: list[StmtSRef]) -> None:
    """Raise if the block has instances that the loops of its producers would not run."""
    node = block.block
    for producer in producers:
        written = {r.buffer: r for r in producer.block.writes}
        for read in node.reads:
            region = written.get(read.buffer)
            if region is None:
                continue
            within = stays_within(
                read.region, node.iter_vars, region.region, producer.block.iter_vars
            )
            check(within, RUNS_FURTHER, block, loop, producer)


def _check_order(graph: BlockScope, block: StmtSRef, loop: StmtSRef) -> None:
    """Raise if the block would move past a block that it depends on, or that depends on it."""
    order = {child: k for k, child in enumerate(graph.children)}
    below = [order[c] for c in graph.children if c is not block and is_ancestor(loop, c)]
    first, last = min(below), max(below)
    for edge in graph.out_of(block):
        misplaced = not is_ancestor(loop, edge.dst) and order[edge.dst] < last
        check(not misplaced, WRONG_ORDER, block, loop, edge.dst)
    for edge in graph.edges_to(block):
        misplaced = not is_ancestor(loop, edge.src) and order[edge.src] > first
        check(not misplaced, WRONG_ORDER, block, loop, edge.src)


def _position(
    block: StmtSRef,
    loop: StmtSRef,
    producers: list[StmtSRef],
    consumers: list[StmtSRef],
    index: int,
) -> int:
    """Return the position of the block among the statements below the loop."""
    below = StmtCursor.below(loop)
    made = [below.position(p) for p in producers if is_ancestor(loop, p)]
    used = [below.position(c) for c in consumers if is_ancestor(loop, c)]
    last_producer = max(made, default=-1)
    first_consumer = min(used, default=len(below.parts))
    check(last_producer < first_consumer, NO_PLACE, block, loop)
    if index == -1:
        return first_consumer
    if index == -2:
        return last_producer + 1
    valid = last_producer < index <= first_consumer
    check(
        valid,
        WRONG_INDEX,
        block,
        loop,
        index=index,
        first=last_producer + 1,
        last=first_consumer,
    )
    return index
