"""Copying the part of a buffer that a loop's body touches, as one block."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import loop_range
from schedule.analysis.block_kind import require_pipeline
from schedule.analysis.empty_reductions import check_copied
from schedule.analysis.loops import nest_of_loops
from schedule.analysis.redirect import RedirectBuffers
from schedule.analysis.regions import Region, united
from schedule.analysis.staging_copy import (
    Staged,
    Sweep,
    add_stages,
    cache_buffer,
    checked_buffer,
)
from schedule.analysis.staging_place import may_be_left_out
from schedule.analysis.staging_region import is_filled, known_around, region_read, region_written
from schedule.analysis.staging_safety import check_inside, check_sequential, relies_on_old_values
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, LoopArg, NewBlock, ReadIndex, WriteIndex, primitive
from schedule.sref import StmtSRef, is_ancestor, loops_above, loops_seen_through, scope_root
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IterVar, Var
from tensorir.nodes.ops import add
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import collect_vars, substitute

NOT_ABOVE = Problem(
    "LoopPositionError",
    "{1} is not an ancestor of {0} in its scope",
    "give one of the loops around the block",
)
WRITTEN_LATER = Problem(
    "WriteAfterReadError",
    "{1} writes {buffer} below {0} after, or while, it is read there",
    "choose a loop below which the buffer is written before it is read, or only read",
)
READ_LATER = Problem(
    "ReadAfterWriteError",
    "{1} reads {buffer} below {0} after its last write there",
    "choose a loop below which nothing reads the buffer after it is written",
)


@primitive("ReadAt")
def read_at(
    state: ScheduleState,
    loop: LoopArg,
    block: BlockArg,
    read_buffer_index: ReadIndex,
    storage_scope: str,
) -> NewBlock:
    """Copy the part of a buffer that each iteration of a loop reads to a new buffer.

    Before: for i: { for j: C[i, j] = f(A[i, j]) }
    After:  for i: { A_s[i, 0:n] = A[i, 0:n];  for j: C[i, j] = f(A_s[i, j]) }

    One block, annotated `auto_copy`, does the copying before the first read; every read below the
    loop uses the copy `<buffer>_<scope>`, which has the shape of the buffer.

    TVM also copies what lies beyond the buffer; that is refused here, unless the schedule was made
    with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotStagePipelineError, LoopPositionError, WriteAfterReadError, UnsafeStageError.
    """
    # Preconditions.
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    body = _Body(state, loop, block, buffer, storage_scope)
    start = min(body.position(reader) for reader in body.readers)
    for writer in body.writers:
        check(body.position(writer) < start, WRITTEN_LATER, loop, writer, buffer=buffer.name)
    region = body.region_read()
    body.check_inside(region)

    # Rewrite.
    fill = body.copied(region, back=False)
    body.insert(start, start, [fill], [], body.readers)

    # Result.
    return state.get_sref(fill.block)


@primitive("WriteAt")
def write_at(
    state: ScheduleState,
    loop: LoopArg,
    block: BlockArg,
    write_buffer_index: WriteIndex,
    storage_scope: str,
) -> NewBlock:
    """Let the body of a loop write to a new buffer, which each iteration copies back.

    Before: for i: { for j: C[i, j] = f(A[i, j]) }
    After:  for i: { for j: C_s[i, j] = f(A[i, j]);  C[i, 0:n] = C_s[i, 0:n] }

    One block, annotated `auto_copy`, does the copying after the last write; the copy
    `<buffer>_<scope>` has the shape of the buffer.

    Where the blocks may read what the buffer held before, or leave out some of what is copied back,
    another such block fills the copy before the first of them. TVM leaves that out, and so does a
    schedule made with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotStagePipelineError, LoopPositionError, ReadAfterWriteError, UnsafeStageError,
    EmptyReductionError.
    """
    # Preconditions.
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    body = _Body(state, loop, block, buffer, storage_scope)
    end = max(body.position(writer) for writer in body.writers) + 1
    for reader in body.readers:
        check(body.position(reader) < end, READ_LATER, loop, reader, buffer=buffer.name)
    written = body.region_written()
    held = None
    if state.enable_check:
        check_copied(loop)
        whole = body.is_filled(written)
        if not whole:
            check_sequential(block, buffer, loop)
        if body.relies_on_old_values() or not whole:
            read = body.region_read() if body.readers else None
            held = united([written, read], buffer)
    body.check_inside(held or written)

    # Rewrite.
    fills = [] if held is None else [body.copied(held, back=False)]
    back = body.copied(written, back=True)
    users = [*body.readers, *body.writers]
    start = min(body.position(user) for user in users)
    body.insert(start, end, fills, [back], users)

    # Result.
    return state.get_sref(back.block)


class _Body:
    """The blocks below a loop that touch a buffer, and the copy that they are to use."""

    def __init__(
        self,
        state: ScheduleState,
        loop: StmtSRef,
        block: StmtSRef,
        buffer: Buffer,
        storage_scope: str,
    ) -> None:
        self._state = state
        self._loop = loop
        self._block = block
        self._buffer = buffer
        self._storage_scope = storage_scope or "global"
        self._cache = cache_buffer(buffer, storage_scope)
        self.scope, _ = require_pipeline(state, block, stays=True)
        above = scope_root(loop) is self.scope and is_ancestor(loop, block)
        check(above, NOT_ABOVE, block, loop)
        self._known = known_around(self.scope, loop)
        children = state.child_blocks(loop)
        self.readers = [c for c in children if any(r.buffer is buffer for r in c.block.reads)]
        self.writers = [c for c in children if any(r.buffer is buffer for r in c.block.writes)]
        self._order = [c for c in children if c in self.readers or c in self.writers]
        self._cursor = StmtCursor.below(loop, self.scope).around(*self._order)

    def position(self, block: StmtSRef) -> int:
        """Return the position of the statement that a block lies in."""
        return self._cursor.position(block)

    def region_read(self) -> Region:
        """Return the box that one iteration of the loop reads."""
        return self._simplified(
            region_read(self.readers, self._buffer, self._loop, self._storage_scope)
        )

    def region_written(self) -> Region:
        """Return the box that one iteration of the loop writes."""
        return self._simplified(
            region_written(self.writers, self._buffer, self._loop, self._storage_scope)
        )

    def _simplified(self, region: Region | None) -> Region:
        assert region is not None
        # Loops of one iteration stay visible in the region, so their ranges are left unsaid.
        simplify = Analyzer().simplify
        return tuple(Range.from_min_extent(simplify(r.min), simplify(r.extent)) for r in region)

    def check_inside(self, region: Region) -> None:
        """Raise if the copy may touch what lies beyond the buffer."""
        check_inside(self._state, self._block, self._buffer, region, self._known)

    def is_filled(self, region: Region) -> bool:
        """Say whether one block surely writes all of a region in one iteration of the loop."""
        return any(
            not may_be_left_out(self.scope, writer, self._cursor)
            and is_filled(region, self._buffer, self._loop, writer, self._known)
            for writer in self.writers
        )

    def relies_on_old_values(self) -> bool:
        """Say whether something in an iteration may use what the buffer held before it.

        In a stage pipeline, what is written before a reader covers all that it declares to read.
        """
        relying = [w for w in self.writers if relies_on_old_values(w, self._buffer)]
        first = self._order[0]
        undeclared = any(w not in self.readers for w in relying)
        return first not in self.writers or first in relying or undeclared

    def copied(self, region: Region, *, back: bool) -> Staged:
        """Return a block that copies a region; its axes are the loops that move it."""
        source, target = self._buffer, self._cache
        if back:
            source, target = target, source
        outer = [*loops_seen_through(self.scope), *loops_above(self._loop), self._loop]
        around = {sref.loop.loop_var: sref.loop for sref in outer}
        axes: dict[Var, IterVar] = {}
        for dim in region:
            for var in (*collect_vars(dim.min), *collect_vars(dim.extent)):
                if var in around and var not in axes:
                    own = Var(f"v{len(axes)}", var.dtype)
                    axes[var] = IterVar(loop_range(around[var]), own, IterVar.DATA_PAR)
        values = {var: axis.var for var, axis in axes.items()}
        ranges = [substitute(dim, values) for dim in region]
        inner = [Var(f"ax{k}", dim.min.dtype) for k, dim in enumerate(ranges)]
        element = [add(dim.min, var) for dim, var in zip(ranges, inner, strict=True)]
        loops = [(var, dim.extent) for var, dim in zip(inner, ranges, strict=True)]
        body = nest_of_loops(loops, BufferStore(target, BufferLoad(source, element), element))
        return Sweep((), list(axes.values()), list(axes)).running(
            body,
            [BufferRegion(source, ranges)],
            [BufferRegion(target, ranges)],
            self._cache.name,
            {"auto_copy": True},
        )

    def insert(
        self,
        start: int,
        end: int,
        before: Sequence[Staged],
        after: Sequence[Staged],
        users: Sequence[StmtSRef],
    ) -> None:
        """Put copies around the statements from `start` to `end`; let blocks use the cache."""
        redirect = RedirectBuffers({self._buffer: self._cache}, {user.block for user in users})
        add_stages(
            self._state,
            self.scope,
            self._cursor.span(start, end),
            before,
            after,
            [self._cache],
            redirect,
        )
