"""The place in a scope where a copy of a buffer is made, and the blocks that may use it.

A copy has the contents of the buffer at the time of copying. So a block may read the copy instead
of the buffer if nothing overwrites the buffer in between, including earlier iterations of a loop
around both. It may write the copy if all readers of the buffer run after the copy back.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.dependency import BlockScope
from schedule.analysis.surroundings import check_touched_in_blocks, guards, guards_of_place
from schedule.errors import Problem, check
from schedule.sref import StmtSRef, lowest_common_ancestor
from schedule.staging.plan import StagingPlan
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var
from tensorir.nodes.stmt import Allocate, AllocateConst, DeclBuffer, For, Stmt, While

SEVERAL_WRITERS = Problem(
    "NotSingleWriteBlock",
    "the buffer {buffer} is expected to be written by a single block in the scope, but {count} "
    "write it",
    "name a block that reads the buffer before it is written, or give each writer its own "
    "buffer; call decompose_reduction after caching",
)
NO_CONSUMER = Problem(
    "NotConsumerError",
    "none of the consumer_blocks reads {buffer}, so no block would read the cache of {0}",
    "omit consumer_blocks, or give blocks that get_consumers returns",
)
OTHER_VALUES = Problem(
    "NotConsumerError",
    "{1} reads values of {buffer} that the cache of {0} does not hold, because {2} overwrites them",
    "remove it from consumer_blocks",
)
NO_PLACE = Problem(
    "InsertionPointNotFoundError",
    "there is no place for a copy of {buffer} between {0} and {1}: {reason}",
    "cache the buffer before these blocks are moved below conditions or loops",
)


def place_to_read(
    state: ScheduleState,
    scope: StmtSRef,
    graph: BlockScope,
    block: StmtSRef,
    buffer: Buffer,
    wanted: Sequence[StmtSRef] = (),
) -> StagingPlan:
    """Return the plan of a copy of a buffer that `block` reads, for the readers of its values.

    `wanted` restricts the readers. The place is right before the first reader after the writer, or
    the start of the scope if the initial contents are read.
    """
    writers = graph.buffer_writers.get(buffer, [])
    check(len(writers) <= 1, SEVERAL_WRITERS, scope, buffer=buffer.name, count=len(writers))
    check_touched_in_blocks(state, scope, block, read=[buffer])
    chosen = [
        child
        for child in graph.children
        if child not in writers
        and any(region.buffer is buffer for region in child.block.reads)
        and (not wanted or child in wanted)
    ]
    check(bool(chosen), NO_CONSUMER, block, buffer=buffer.name)
    start = _first_place(scope, chosen, buffer)
    threads = buffer.scope()
    if not writers:
        return StagingPlan(state, scope, scope, start, block, buffer, chosen, threads)
    (writer,) = writers
    order = {child: k for k, child in enumerate(graph.children)}
    source: StmtSRef | None = writer
    loop: Stmt | None = None
    if order[block] < order[writer]:
        source, loop = None, _repeating_statement(_common_place(scope, block, writer))
    users = [
        reader
        for reader in chosen
        if (order[reader] < order[writer]) is (source is None)
        and (source is writer or _repeating_statement(_common_place(scope, reader, writer)) is loop)
    ]
    for reader in chosen:
        check(
            reader in users or not wanted, OTHER_VALUES, block, reader, writer, buffer=buffer.name
        )
    check(bool(users), NO_CONSUMER, block, buffer=buffer.name)
    if source is not None:
        location, span = _statements_between(scope, writer, users[0], buffer)
        cursor = span.after
    elif loop is None:
        location, cursor = scope, start
    else:
        # Earlier iterations have overwritten the values from before the loop.
        location = lowest_common_ancestor([block, writer])
        cursor = StmtCursor.below(location, scope).around(*users).before
    plan = StagingPlan(state, scope, location, cursor, block, buffer, users, threads, source)
    _check_reached(plan)
    return plan


def place_to_write(
    state: ScheduleState,
    scope: StmtSRef,
    graph: BlockScope,
    block: StmtSRef,
    buffer: Buffer,
    wanted: Sequence[StmtSRef] = (),
) -> StagingPlan:
    """Return the plan of a copy that a block, the only writer of a buffer, writes instead of it.

    The `wanted` readers use the copy as well. The end is right before the first other reader, or
    the end of the scope.
    """
    writers = graph.buffer_writers.get(buffer, [])
    check(writers == [block], SEVERAL_WRITERS, scope, buffer=buffer.name, count=len(writers))
    check_touched_in_blocks(state, scope, block, written=[buffer])
    order = {child: k for k, child in enumerate(graph.children)}
    readers = [reader for reader in graph.buffer_readers.get(buffer, ()) if reader is not block]
    for reader in wanted:
        late = reader not in readers or order[reader] > order[block]
        check(late, OTHER_VALUES, block, reader, block, buffer=buffer.name)
    location, end = scope, StmtCursor.of_scope(scope)
    end = end.span(end.position(block), len(end.parts))
    rest = [r for r in readers if r not in wanted]
    after = next((r for r in rest if order[r] > order[block]), None)
    if after is not None:
        location, end = _statements_between(scope, block, after, buffer)
    for reader in rest:
        if order[reader] < order[block]:
            # The block reads results of an earlier iteration, so they must be copied back before.
            shared = _common_place(scope, block, reader)
            deeper = len(list(shared.wrappers())) > len(list(end.wrappers()))
            if deeper and _repeating_statement(shared) is not None:
                location = lowest_common_ancestor([block, reader])
                first = shared.position(block)
                end = shared.span(first, first + 1)
    users, threads = [block, *wanted], buffer.scope()
    plan = StagingPlan(state, scope, location, end, block, buffer, users, threads)
    _check_reached(plan)
    return plan


def _first_place(scope: StmtSRef, users: Sequence[StmtSRef], buffer: Buffer) -> StmtCursor:
    """Return the first place in a scope at which a buffer is defined."""
    whole = StmtCursor.of_scope(scope)
    cursor: StmtCursor | None = whole.around(*users)
    while cursor is not None and cursor.outer is not None:
        wrapper = cursor.outer.stmt
        defined: Buffer | Var | None = None
        if isinstance(wrapper, DeclBuffer):
            defined = wrapper.buffer
        elif isinstance(wrapper, (Allocate, AllocateConst)):
            defined = wrapper.buffer_var
        if defined is buffer or defined is buffer.data:
            return cursor.gap(0)
        cursor = cursor.outer
    return whole.gap(0)


def _common_place(scope: StmtSRef, a: StmtSRef, b: StmtSRef) -> StmtCursor:
    """Return the place of the fewest statements in a scope that contain two of its blocks."""
    return StmtCursor.below(lowest_common_ancestor([a, b]), scope).around(a, b)


def _statements_between(
    scope: StmtSRef, writer: StmtSRef, reader: StmtSRef, buffer: Buffer
) -> tuple[StmtSRef, StmtCursor]:
    """Return the place of the statements from a block's to the one before a later block's."""
    shared = _common_place(scope, writer, reader)
    first, last = shared.position(writer), shared.position(reader)
    reason = "they are in different cases of one condition"
    check(first < last, NO_PLACE, writer, reader, buffer=buffer.name, reason=reason)
    return lowest_common_ancestor([writer, reader]), shared.span(first, last)


def _repeating_statement(cursor: StmtCursor) -> Stmt | None:
    """Return the innermost loop around a place."""
    return next((w for w, _ in cursor.wrappers() if type(w) in (For, While)), None)


def _check_reached(plan: StagingPlan) -> None:
    """Raise unless the copy is made wherever its users run."""
    needed = guards_of_place(plan.cursor)
    for user in plan.users if needed else ():
        own = guards(user, plan.scope)
        reason = "the second also runs where a condition around the first does not hold"
        reached = all(guard in own for guard in needed)
        check(reached, NO_PLACE, plan.block, user, buffer=plan.buffer.name, reason=reason)
