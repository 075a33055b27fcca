"""Staging a buffer that a block reads or writes in another one."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schedule.analysis.block_kind import require_scope
from schedule.analysis.redirect import RedirectBuffers, RedirectToPart
from schedule.analysis.region_cover import covers_reads
from schedule.analysis.regions import Region, united
from schedule.analysis.staging_copy import (
    Staged,
    Sweep,
    add_stages,
    cache_buffer,
    checked_buffer,
)
from schedule.analysis.staging_place import (
    may_be_left_out,
    place_to_read,
    place_to_write,
)
from schedule.analysis.staging_region import is_filled, known_around, region_read, region_written
from schedule.analysis.staging_safety import check_sequential, relies_on_old_values
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, ConsumersArg, NewBlock, ReadIndex, WriteIndex, primitive
from schedule.sref import StmtSRef, loops_seen_through
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import TRUE, add, is_const_int, logical_and
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import uses_var

NOT_COVERED = Problem(
    "NotRegionCoverError",
    "the scope {0} has {1}, whose region cover does not hold: it reads more of {buffer} than is "
    "written before",
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
    it stands between the buffer's writer and its first reader, or at the start of the scope.
    Readers are those of the values that the block reads, which are not the buffer's last ones if
    its writer comes after the block; `consumer_blocks` restricts them.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError,
    NotRegionCoverError, NotSingleWriteBlock, NotConsumerError, InsertionPointNotFoundError,
    AliasedBufferError, BareAccessError.
    """
    # Preconditions.
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    scope, graph = require_scope(state, block)
    place = place_to_read(state, scope, graph, block, buffer, consumer_blocks or ())
    for user in place.users:
        covered = covers_reads(state, user, graph)
        check(covered, NOT_COVERED, scope, user, buffer=buffer.name)

    # Rewrite.
    region: Region | None
    if place.writer is not None:
        region = region_written([place.writer], buffer, place.location, buffer.scope())
    elif place.location is scope:
        declared = (r.region for r in scope.block.reads if r.buffer is buffer)
        region = next(declared, tuple(Range(n) for n in buffer.shape))
    else:
        region = region_read(place.users, buffer, place.location, buffer.scope())
    assert region is not None
    known = known_around(scope, place.location)
    cache = Cache(scope, place.location, buffer, storage_scope, region, known)
    fill = cache.filled(region)
    users = {user.block for user in place.users}
    redirect = cache.redirect(users)
    add_stages(state, scope, place.cursor, [fill], [], [cache.buffer], redirect)

    # Result.
    return state.get_sref(fill.block)


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
    copies back stands before the first reader, or at the end of the scope. `consumer_blocks` read
    the new buffer.

    A block that relies on what the buffer held before, or may leave out some of what is copied
    back, gets a second nest before it that fills the new buffer. TVM leaves that out, and so does a
    schedule made with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError,
    NotSingleWriteBlock, NotRegionCoverError, NotConsumerError, InsertionPointNotFoundError,
    AliasedBufferError, BareAccessError, UnsafeStageError.
    """
    # Preconditions.
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    scope, graph = require_scope(state, block)
    wanted = list(consumer_blocks or ())
    place = place_to_write(state, scope, graph, block, buffer, wanted)
    for consumer in wanted:
        covered = not state.enable_check or covers_reads(state, consumer, graph)
        check(covered, NOT_COVERED, scope, consumer, buffer=buffer.name)
    written = region_written([block], buffer, place.location, buffer.scope())
    assert written is not None
    held, before = written, False
    known = known_around(scope, place.location)
    if state.enable_check:
        whole = not may_be_left_out(scope, block, place.cursor) and is_filled(
            written, buffer, place.location, block, known
        )
        before = relies_on_old_values(block, buffer) or not whole
        if not whole:
            check_sequential(block, buffer, place.location)
        if before:
            read = region_read([block], buffer, place.location, buffer.scope())
            held = united([written, read], buffer)

    # Rewrite.
    cache = Cache(scope, place.location, buffer, storage_scope, held, known)
    fills = [cache.filled(held)] if before else []
    back = cache.copied_back(written)
    redirect = cache.redirect({user.block for user in place.users})
    add_stages(state, scope, place.cursor, fills, [back], [cache.buffer], redirect)

    # Result.
    return state.get_sref(back.block)


class Cache:
    """A buffer that holds a region of another one, at some place in a scope.

    `known` is what is known about all that the region may depend on there.
    Where that is the scope itself, the buffer has the extents of the region, below loops the shape
    of the whole.
    """

    def __init__(
        self,
        scope: StmtSRef,
        location: StmtSRef,
        original: Buffer,
        storage_scope: str,
        region: Region,
        known: Analyzer,
    ) -> None:
        self._original = original
        self._analyzer = known
        self._offsets: list[PrimExpr] | None = None
        self.buffer = cache_buffer(original, storage_scope)
        if location is scope and not _follows_outer_loops(scope, region):
            self._offsets = [dim.min for dim in region]
            self.buffer = self.buffer.with_(shape=tuple(dim.extent for dim in region))

    def filled(self, region: Region) -> Staged:
        """Return a nest that copies a region from the original."""
        return self._copied(region, back=False)

    def copied_back(self, region: Region) -> Staged:
        """Return a nest that copies a region to the original."""
        return self._copied(region, back=True)

    def _copied(self, region: Region, *, back: bool) -> Staged:
        shape = self._original.shape
        if self._offsets is None:
            sweep = Sweep.over(region, [Range(extent) for extent in shape])
            here: Sequence[PrimExpr] = sweep.places
            there = here
        else:
            sweep = Sweep.over([Range(dim.extent) for dim in region])
            starts = zip(region, self._offsets, sweep.places, strict=True)
            here = [
                var if dim.min is low else add(self._analyzer.simplify(dim.min - low), var)
                for dim, low, var in starts
            ]
            there = [add(dim.min, var) for dim, var in zip(region, sweep.places, strict=True)]
        inside: PrimExpr = TRUE
        for dim, (var, _), extent in zip(region, sweep.loops, shape, strict=True):
            index = add(dim.min, var)
            if not self._analyzer.can_prove(dim.min >= 0):
                inside = logical_and(inside, index >= 0)
            if not self._analyzer.can_prove(dim.min + dim.extent <= extent):
                inside = logical_and(inside, index < extent)
        cache, original = (self.buffer, here), (self._original, there)
        source, target = (cache, original) if back else (original, cache)
        return sweep.where(inside).copying(source, target, self.buffer.name)

    def redirect(self, blocks: Collection[Block]) -> RedirectBuffers:
        """Return the rewriter that lets blocks use the cache."""
        if self._offsets is None or all(is_const_int(o, 0) for o in self._offsets):
            return RedirectBuffers({self._original: self.buffer}, blocks)
        return RedirectToPart(self._original, self.buffer, blocks, self._offsets)


def _follows_outer_loops(scope: StmtSRef, region: Region) -> bool:
    """Say whether loops beyond the scope move the region; no block may use their variables."""
    outer = {sref.loop.loop_var for sref in loops_seen_through(scope)}
    return bool(outer) and any(uses_var(dim.min, outer.__contains__) for dim in region)
