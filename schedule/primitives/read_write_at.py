"""Copying the part of a buffer that a loop's body touches, as one block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from schedule.analysis.bindings import loop_domain, loop_range
from schedule.analysis.block_kind import require_scope
from schedule.analysis.loop_nest import nest_of_loops
from schedule.analysis.rebuild import RedirectBuffers
from schedule.analysis.region_cover import written_below
from schedule.analysis.regions import (
    bound_region,
    path_domain,
    relax_by_intervals,
    union,
)
from schedule.analysis.staging_safety import UNSAFE, check_fills_before_reading, check_inside
from schedule.analysis.sure_writes import holds, surely_written
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, LoopArg, NewBlock, ReadIndex, WriteIndex, primitive
from schedule.primitives.cache import cache_buffer, checked_buffer
from schedule.sref import StmtSRef, is_ancestor, loops_above, loops_seen_through, scope_root
from schedule.state import ScheduleState
from tensorir.arith import Analyzer, IntervalSet
from tensorir.buffer import Buffer, BufferRegion, Range
from tensorir.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.ops import TRUE, add
from tensorir.stmt import Block, BlockRealize, BufferStore, SeqStmt, Stmt, sequence
from tensorir.visit import collect_vars, substitute

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
    """Copy what is read of a buffer below a loop to a new buffer, in each of its iterations.

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
    scope = require_scope(state, block, pipeline=True)
    above = scope_root(loop) is scope and is_ancestor(loop, block)
    check(above, NOT_ABOVE, block, loop)
    body = _Body(state, loop, buffer)
    start = body.first(_reads)
    for position, writer in body.accesses(_writes):
        check(position < start, WRITTEN_LATER, loop, writer, buffer=buffer.name)
    region = body.region(_reads, storage_scope)
    check_inside(state, block, buffer, region, body.analyzer)

    # Rewrite.
    cache = cache_buffer(buffer, storage_scope)
    realize = _copying_block(loop, buffer, cache, region, cache.name)
    return body.insert(scope, realize, start, range(start, body.count), cache)


@primitive("WriteAt")
def write_at(
    state: ScheduleState,
    loop: LoopArg,
    block: BlockArg,
    write_buffer_index: WriteIndex,
    storage_scope: str,
) -> NewBlock:
    """Let the body of a loop write to a new buffer, and copy that back in each iteration.

    Before: for i: { for j: C[i, j] = f(A[i, j]) }
    After:  for i: { for j: C_s[i, j] = f(A[i, j]);  C[i, 0:n] = C_s[i, 0:n] }

    One block, annotated `auto_copy`, does the copying after the last write; the copy
    `<buffer>_<scope>` has the shape of the buffer.

    Blocks that rely on what the buffer held before, or leave out some of what would be copied back,
    are refused, unlike in TVM, unless the schedule was made with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotStagePipelineError, LoopPositionError, ReadAfterWriteError, UnsafeStageError.
    """
    # Preconditions.
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    scope = require_scope(state, block, pipeline=True)
    above = scope_root(loop) is scope and is_ancestor(loop, block)
    check(above, NOT_ABOVE, block, loop)
    body = _Body(state, loop, buffer)
    end = max(position for position, _ in body.accesses(_writes)) + 1
    for position, reader in body.accesses(_reads):
        check(position < end, READ_LATER, loop, reader, buffer=buffer.name)
    region = body.region(_writes, storage_scope)
    check_inside(state, block, buffer, region, body.analyzer)
    body.check_filled(region)

    # Rewrite.
    cache = cache_buffer(buffer, storage_scope)
    realize = _copying_block(loop, cache, buffer, region, cache.name)
    return body.insert(scope, realize, end, range(end), cache)


Regions = Callable[[Block], Sequence[BufferRegion]]


def _reads(block: Block) -> Sequence[BufferRegion]:
    return block.reads


def _writes(block: Block) -> Sequence[BufferRegion]:
    return block.writes


class _Body:
    """The statements below a loop, and what they do with a buffer."""

    def __init__(self, state: ScheduleState, loop: StmtSRef, buffer: Buffer) -> None:
        self._state = state
        self._loop = loop
        self._buffer = buffer
        body = loop.loop.body
        self._parts: Sequence[Stmt] = body.seq if isinstance(body, SeqStmt) else (body,)
        self.count = len(self._parts)
        self.analyzer = Analyzer()
        for var, values in loop_domain(_loops_around(loop)).items():
            self.analyzer.bind(var, values)
        self._blocks = [(self._position(child), child) for child in state.child_blocks(loop)]

    def _position(self, block: StmtSRef) -> int:
        """Return which statement a block lies in."""
        current = block
        while current.parent is not None and current.parent is not self._loop:
            current = current.parent
        stmt = current.realize if current.is_block else current.stmt
        return next((k for k, part in enumerate(self._parts) if part is stmt), 0)

    def accesses(self, kind: Regions) -> list[tuple[int, StmtSRef]]:
        """Return the blocks that read (or write) the buffer, with the statements they lie in."""
        return [
            (position, sref)
            for position, sref in self._blocks
            if any(region.buffer is self._buffer for region in kind(sref.block))
        ]

    def first(self, kind: Regions) -> int:
        """Return the first statement that reads (or writes) the buffer."""
        return min(position for position, _ in self.accesses(kind))

    def region(self, kind: Regions, storage_scope: str) -> list[Range]:
        """Return the box that one iteration of the loop reads (or writes)."""
        # Loops of one iteration stay visible in the region, so their ranges are left unsaid.
        analyzer = Analyzer()
        boxes = []
        for _, sref in self.accesses(kind):
            domain = path_domain(sref, self._loop, storage_scope or "global")
            for region in kind(sref.block):
                if region.buffer is self._buffer:
                    if kind is _writes:
                        written = surely_written(sref.block, region) or region.region
                        region = BufferRegion(self._buffer, written)
                    bound = bound_region(region, sref.block_realize)
                    boxes.append(relax_by_intervals(bound, domain, analyzer))
        box = union(boxes, analyzer)
        assert box is not None
        return [
            _simplified(dim.cover_range(Range(extent), analyzer), analyzer)
            for dim, extent in zip(box, self._buffer.shape, strict=True)
        ]

    def check_filled(self, region: Sequence[Range]) -> None:
        """Raise unless one iteration of the loop surely writes all of a region, and first."""
        if not self._state.enable_check:
            return
        writers = [sref for _, sref in self.accesses(_writes)]
        for _, reader in self.accesses(_reads):
            own = reader in writers
            reason = "it reads what the buffer held before"
            check(own, UNSAFE, reader, buffer=self._buffer.name, reason=reason)
        for writer in writers:
            check_fills_before_reading(self._state, writer, self._buffer)
        box = tuple(IntervalSet.from_range(dim) for dim in region)
        filled = any(
            holds(written_below(self._loop, self._buffer, [w], self.analyzer), box, self.analyzer)
            for w in writers
        )
        reason = "not all that would be copied back is surely written"
        check(filled, UNSAFE, writers[0], buffer=self._buffer.name, reason=reason)

    def insert(
        self, scope: StmtSRef, copy: BlockRealize, position: int, using: range, cache: Buffer
    ) -> StmtSRef:
        """Put the copy before the statement at `position`; those in `using` use the cache."""
        redirect = RedirectBuffers({self._buffer: cache}, None)
        parts = [redirect(p) if k in using else p for k, p in enumerate(self._parts)]
        parts.insert(position, copy)
        changed = self._loop.loop.with_(body=sequence(parts))
        self._state.replace(self._loop, changed, redirect.reuse)
        outer = scope.block
        self._state.replace(scope, outer.with_(alloc_buffers=(*outer.alloc_buffers, cache)))
        return self._state.get_sref(copy.block)


def _loops_around(loop: StmtSRef) -> list[StmtSRef]:
    """Return the loops whose variables may occur below a loop, itself included."""
    scope = scope_root(loop)
    assert scope is not None
    return [*loops_seen_through(scope), *loops_above(loop), loop]


def _simplified(values: Range, analyzer: Analyzer) -> Range:
    return Range.from_min_extent(analyzer.simplify(values.min), analyzer.simplify(values.extent))


def _copying_block(
    loop: StmtSRef, source: Buffer, target: Buffer, region: Sequence[Range], name: str
) -> BlockRealize:
    """Return a block that copies a region; its axes are the loops that the region depends on."""
    around = {sref.loop.loop_var: sref.loop for sref in _loops_around(loop)}
    axes: dict[Var, IterVar] = {}
    for dim in region:
        for var in (*collect_vars(dim.min), *collect_vars(dim.extent)):
            if var in around and var not in axes:
                own = Var(f"v{len(axes)}", var.dtype)
                axes[var] = IterVar(loop_range(around[var]), own, IterVar.DATA_PAR)
    values = {var: axis.var for var, axis in axes.items()}
    ranges = [substitute(dim, values) for dim in region]
    inner = [Var(f"ax{k}", dim.min.dtype) for k, dim in enumerate(ranges)]
    indices: list[PrimExpr] = [add(dim.min, var) for dim, var in zip(ranges, inner, strict=True)]
    loops = [(var, dim.extent) for var, dim in zip(inner, ranges, strict=True)]
    body = nest_of_loops(loops, BufferStore(target, BufferLoad(source, indices), indices))
    block = Block(
        list(axes.values()),
        [BufferRegion(source, ranges)],
        [BufferRegion(target, ranges)],
        name,
        body,
        annotations={"auto_copy": True},
    )
    return BlockRealize(list(axes), TRUE, block)
