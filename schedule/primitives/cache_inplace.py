"""Staging a buffer that a block reads and writes."""

from __future__ import annotations

from schedule.analysis.block_kind import require_scope
from schedule.analysis.region_cover import covers_reads
from schedule.analysis.regions import united
from schedule.analysis.staging_copy import add_stages, checked_buffer
from schedule.analysis.staging_region import known_around, region_read, region_written
from schedule.analysis.staging_safety import check_inside
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, NewBlocks, ReadIndex, primitive
from schedule.primitives.cache import NOT_COVERED, Cache
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor

NOT_READ_WRITE = Problem(
    "NotReadWriteError",
    "{0} does not both read and write {buffer}",
    "use cache_read or cache_write",
)


@primitive("CacheInplace")
def cache_inplace(
    state: ScheduleState, block: BlockArg, read_buffer_index: ReadIndex, storage_scope: str
) -> NewBlocks:
    """Let a block that updates a buffer in place work on a copy, and copy that back.

    Before: for i: A[i] = f(A[i])                              # cache_inplace(A, 0, "local")
    After:  for i: { A_local[i] = A[i];  A_local[i] = f(A_local[i]);  A[i] = A_local[i] }

    The two copies stand right before and after the block; the results are their blocks. Everything
    that the block reads or writes is copied first, so that the way back restores what the block
    left alone.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, NotReadWriteError,
    NotRegionCoverError, UnsafeStageError.
    """
    # Preconditions.
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    scope, graph = require_scope(state, block)
    updates = any(region.buffer is buffer for region in block.block.writes)
    check(updates, NOT_READ_WRITE, block, buffer=buffer.name)
    covered = covers_reads(state, block, graph)
    check(covered, NOT_COVERED, scope, block, buffer=buffer.name)
    location = block.parent
    assert location is not None
    written = region_written([block], buffer, location, "global")
    held = united([written, region_read([block], buffer, location, "global")], buffer)
    assert written is not None
    known = known_around(scope, location)
    check_inside(state, block, buffer, held, known)

    # Rewrite.
    cache = Cache(scope, location, buffer, storage_scope, held, known)
    fill, back = cache.filled(held), cache.copied_back(written)
    cursor = StmtCursor.below(location, scope).around(block)
    redirect = cache.redirect({block.block})
    add_stages(state, scope, cursor, [fill], [back], [cache.buffer], redirect)

    # Result.
    return [state.get_sref(fill.block), state.get_sref(back.block)]
