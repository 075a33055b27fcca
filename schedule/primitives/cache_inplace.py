"""Staging a buffer that a block reads and writes."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import loop_domain
from schedule.analysis.block_kind import require_scope
from schedule.analysis.dependency import dependencies
from schedule.analysis.rebuild import RedirectBuffers
from schedule.analysis.region_cover import covers_reads
from schedule.analysis.regions import bound_region, relax_by_intervals, union
from schedule.analysis.staging_safety import check_inside
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, NewBlocks, ReadIndex, primitive
from schedule.primitives.cache import NOT_COVERED, cache_buffer, checked_buffer, copy_nest
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer, Range
from tensorir.stmt import BlockRealize, sequence

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
    scope = require_scope(state, block)
    updates = any(region.buffer is buffer for region in block.block.writes)
    check(updates, NOT_READ_WRITE, block, buffer=buffer.name)
    covered = covers_reads(state, block, dependencies(state, scope))
    check(covered, NOT_COVERED, scope, block, buffer=buffer.name)
    analyzer = Analyzer()
    for var, values in loop_domain(loops_above(block)).items():
        analyzer.bind(var, values)
    written = _touched(block, buffer, analyzer, writes_only=True)
    touched = _touched(block, buffer, analyzer, writes_only=False)
    check_inside(state, block, buffer, touched, analyzer)

    # Rewrite.
    cache = cache_buffer(buffer, storage_scope)
    fill, first = copy_nest(buffer, cache, buffer, touched)
    restore, last = copy_nest(cache, buffer, buffer, written)
    old, realize = block.block, block.block_realize
    redirect = RedirectBuffers({buffer: cache}, None)
    new = redirect(old)
    inside = BlockRealize(realize.iter_values, realize.predicate, new)
    state.replace(block, sequence([fill, inside, restore]), {**redirect.reuse, old: new})
    outer = scope.block
    state.replace(scope, outer.with_(alloc_buffers=(*outer.alloc_buffers, cache)))

    # Result.
    return [state.get_sref(first), state.get_sref(last)]


def _touched(
    block: StmtSRef, buffer: Buffer, analyzer: Analyzer, *, writes_only: bool
) -> Sequence[Range]:
    """Return the box that one instance of a block may touch, in terms of the loops around it."""
    node, realize = block.block, block.block_realize
    regions = node.writes if writes_only else (*node.reads, *node.writes)
    boxes = [
        relax_by_intervals(bound_region(region, realize), {}, analyzer)
        for region in regions
        if region.buffer is buffer
    ]
    box = union(boxes, analyzer)
    assert box is not None
    return [
        dim.cover_range(Range(extent), analyzer)
        for dim, extent in zip(box, buffer.shape, strict=True)
    ]
