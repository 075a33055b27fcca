"""Staging a buffer that a block reads, writes or updates in a copy of its boxes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schedule.analysis.block_kind import require_scope
from schedule.analysis.buffer_definition import cache_buffer, checked_buffer
from schedule.analysis.dependency import BlockScope
from schedule.analysis.rebuild import RedirectBuffers, RedirectToPart
from schedule.analysis.region_cover import covers_reads
from schedule.analysis.regions import Region, bounding_box
from schedule.errors import Problem, check
from schedule.instruction import (
    BlockArg,
    ConsumersArg,
    NewBlock,
    NewBlocks,
    ReadIndex,
    WriteIndex,
    primitive,
)
from schedule.sref import StmtSRef, loops_seen_through
from schedule.staging.nests import Staged, Sweep
from schedule.staging.places import place_to_read, place_to_write
from schedule.staging.plan import StagingPlan
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import TRUE, add, is_const_int, logical_and
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import uses_var

NOT_COVERED = Problem(
    "NotRegionCoverError",
    "the scope {0} has {1}, whose region cover does not hold: it reads more of {buffer} than is "
    "written before",
    "fill the buffer before it is read, or cache it at the block that writes it with cache_write",
)
NOT_READ_WRITE = Problem(
    "NotReadWriteError",
    "{0} does not both read and write {buffer}",
    "use cache_read or cache_write",
)


@primitive("CacheRead")
def cache_read(
    state: ScheduleState,
    block: BlockArg,
    read_buffer_index: ReadIndex,
    storage_scope: str,
    consumer_blocks: ConsumersArg = None,
) -> NewBlock:
    """Copy a buffer that a block reads to a new one, and let readers use the copy.

    The copy has storage scope `storage_scope` and the name `<buffer>_<scope>`; the block that fills
    it is inserted between the buffer's writer and its first reader, or at the start of the scope.
    The copy replaces the buffer in all blocks that read the same values as `block`; if the writer
    comes after the block, these are the values before the write. `consumer_blocks` restricts the
    readers.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotRegionCoverError, NotSingleWriteBlock, NotConsumerError, InsertionPointNotFoundError,
    AliasedBufferError, BareAccessError.
    """
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    scope, graph = require_scope(state, block)
    plan = place_to_read(state, scope, graph, block, buffer, consumer_blocks or ())
    _check_covered(state, scope, graph, plan.users, buffer)
    if plan.source is not None:
        region = plan.written([plan.source])
    elif plan.location is scope:
        declared = (r.region for r in scope.block.reads if r.buffer is buffer)
        region = next(declared, tuple(Range(n) for n in buffer.shape))
    else:
        region = bounding_box([plan.read(plan.users)], buffer)
    return plan.apply(_Box(plan, storage_scope, region), region, None)[-1]


@primitive("CacheWrite")
def cache_write(
    state: ScheduleState,
    block: BlockArg,
    write_buffer_index: WriteIndex,
    storage_scope: str,
    consumer_blocks: ConsumersArg = None,
) -> NewBlock:
    """Let a block write to a new buffer, and copy that to the original one afterwards.

    The new buffer has storage scope `storage_scope` and the name `<buffer>_<scope>`; the block that
    copies back is inserted before the first reader, or at the end of the scope. `consumer_blocks`
    read the new buffer.

    If the block relies on earlier contents of the buffer, or may not write all copied elements, a
    second nest before it fills the new buffer. TVM omits that nest, and so does a schedule made
    with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotSingleWriteBlock, NotRegionCoverError, NotConsumerError, InsertionPointNotFoundError,
    AliasedBufferError, BareAccessError, UnsafeStageError.
    """
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    scope, graph = require_scope(state, block)
    wanted = list(consumer_blocks or ())
    plan = place_to_write(state, scope, graph, block, buffer, wanted)
    if state.enable_check:
        _check_covered(state, scope, graph, wanted, buffer)
    written = plan.written([block])
    held = None
    if plan.must_be_filled(plan.stores_all(written)):
        held = bounding_box([written, plan.read([block])], buffer)
    return plan.apply(_Box(plan, storage_scope, held or written), held, written)[-1]


@primitive("CacheInplace")
def cache_inplace(
    state: ScheduleState, block: BlockArg, read_buffer_index: ReadIndex, storage_scope: str
) -> NewBlocks:
    """Let a block that updates a buffer in place work on a copy, and copy that back.

    Before: for i: A[i] = f(A[i])                              # cache_inplace(A, 0, "local")
    After:  for i: { A_local[i] = A[i];  A_local[i] = f(A_local[i]);  A[i] = A_local[i] }

    One copy is right before the block, the other right after it; returns the blocks of both copies.
    The first copies all elements that the block reads or writes, so that the second restores the
    elements that the block did not change.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotReadWriteError, NotRegionCoverError, AliasedBufferError, UnsafeStageError.
    """
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    scope, graph = require_scope(state, block)
    updates = any(region.buffer is buffer for region in block.block.writes)
    check(updates, NOT_READ_WRITE, block, buffer=buffer.name)
    _check_covered(state, scope, graph, [block], buffer)
    location = block.parent
    assert location is not None
    cursor = StmtCursor.below(location, scope).around(block)
    plan = StagingPlan(state, scope, location, cursor, block, buffer, [block])
    written = plan.written([block])
    held = bounding_box([written, plan.read([block])], buffer)
    plan.check_inside(held)
    return plan.apply(_Box(plan, storage_scope, held), held, written)


def _check_covered(
    state: ScheduleState,
    scope: StmtSRef,
    graph: BlockScope,
    readers: Sequence[StmtSRef],
    buffer: Buffer,
) -> None:
    """Raise unless all elements that some blocks read are written before."""
    for reader in readers:
        covered = covers_reads(state, reader, graph)
        check(covered, NOT_COVERED, scope, reader, buffer=buffer.name)


class _Box:
    """A buffer that holds a region of another one.

    A copy in the scope itself has the extents of the region, a copy below loops the shape of the
    original.
    """

    def __init__(self, plan: StagingPlan, storage_scope: str, region: Region) -> None:
        self._plan = plan
        self._offsets: list[PrimExpr] | None = None
        self.copy = cache_buffer(plan.buffer, storage_scope)
        if plan.location is plan.scope and not _follows_outer_loops(plan.scope, region):
            self._offsets = [dim.min for dim in region]
            self.copy = self.copy.with_(shape=tuple(dim.extent for dim in region))

    def copy_nest(self, region: Sequence[Range], *, back: bool) -> Staged:
        """Return a nest that copies a region to or from the original."""
        original, known = self._plan.buffer, self._plan.known
        if self._offsets is None:
            sweep = Sweep.over(region, [Range(extent) for extent in original.shape])
            here: Sequence[PrimExpr] = sweep.places
            there = here
        else:
            sweep = Sweep.over([Range(dim.extent) for dim in region])
            starts = zip(region, self._offsets, sweep.places, strict=True)
            here = [
                var if dim.min is low else add(known.simplify(dim.min - low), var)
                for dim, low, var in starts
            ]
            there = [add(dim.min, var) for dim, var in zip(region, sweep.places, strict=True)]
        inside: PrimExpr = TRUE
        for dim, (var, _), extent in zip(region, sweep.loops, original.shape, strict=True):
            index = add(dim.min, var)
            if not known.can_prove(dim.min >= 0):
                inside = logical_and(inside, index >= 0)
            if not known.can_prove(dim.min + dim.extent <= extent):
                inside = logical_and(inside, index < extent)
        source, target = (original, there), (self.copy, here)
        if back:
            source, target = target, source
        return sweep.where(inside).copying_nest(source, target, self.copy.name)

    def redirecting_rewriter(self, blocks: Collection[Block]) -> RedirectBuffers:
        """Return the rewriter that lets blocks use the copy."""
        buffers = {self._plan.buffer: self.copy}
        if self._offsets is None or all(is_const_int(o, 0) for o in self._offsets):
            return RedirectBuffers(buffers, blocks)
        return RedirectToPart(buffers, blocks, self._offsets)


def _follows_outer_loops(scope: StmtSRef, region: Region) -> bool:
    """Return True if loops outside of the scope move the region.

    A new block cannot use their variables.
    """
    outer = {sref.loop.loop_var for sref in loops_seen_through(scope)}
    return bool(outer) and any(uses_var(dim.min, outer.__contains__) for dim in region)
