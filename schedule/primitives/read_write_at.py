"""Copying the part of a buffer that a loop's body touches, as one block."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from schedule.analysis.bindings import loop_range
from schedule.analysis.block_kind import require_pipeline
from schedule.analysis.buffer_definition import cache_buffer, checked_buffer
from schedule.analysis.empty_reductions import check_copied
from schedule.analysis.loops import nest_of_loops
from schedule.analysis.rebuild import RedirectBuffers
from schedule.analysis.regions import Region, bounding_box
from schedule.errors import Problem, check
from schedule.instruction import BlockArg, LoopArg, NewBlock, ReadIndex, WriteIndex, primitive
from schedule.sref import StmtSRef, is_ancestor, loops_above, loops_seen_through, scope_root
from schedule.staging.nests import Staged, Sweep
from schedule.staging.plan import StagingPlan
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IterVar, Var
from tensorir.nodes.ops import add
from tensorir.nodes.stmt import Block, BufferStore
from tensorir.rewriting.visit import collect_vars, substitute

NOT_ABOVE = Problem(
    "LoopPositionError",
    "{1} is not an ancestor of {0} in its scope",
    "give one of the loops around the block",
)
WRITTEN_LATER = Problem(
    "WriteAfterReadError",
    "{1} writes {buffer} below {0} after, or while, it is read there",
    "choose a loop below which the buffer is written before it is read, or is only read",
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

    One block, annotated `auto_copy`, copies before the first read; every read below the loop uses
    the copy `<buffer>_<scope>`, which has the shape of the buffer.

    TVM also copies elements beyond the buffer; that is refused here, unless the schedule was made
    with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotStagePipelineError, AliasedBufferError, BareAccessError, LoopPositionError,
    WriteAfterReadError, UnsafeStageError.
    """
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    plan = _plan(state, loop, block, buffer, storage_scope)
    start = min(plan.cursor.position(reader) for reader in plan.readers)
    for writer in plan.writers:
        early = plan.cursor.position(writer) < start
        check(early, WRITTEN_LATER, loop, writer, buffer=buffer.name)
    plan = replace(plan, cursor=plan.cursor.gap(start), users=plan.readers)
    held = _simplify_region(plan.read(plan.users))
    plan.check_inside(held)
    return plan.apply(_OneBlock(plan, storage_scope), held, None)[-1]


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

    One block, annotated `auto_copy`, copies after the last write; the copy `<buffer>_<scope>` has
    the shape of the buffer.

    If the blocks may read earlier contents of the buffer, or may not write all copied elements,
    another such block fills the copy before the first of them. TVM omits that, and so does a
    schedule made with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotStagePipelineError, AliasedBufferError, BareAccessError, LoopPositionError,
    ReadAfterWriteError, UnsafeStageError, EmptyReductionError.
    """
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    plan = _plan(state, loop, block, buffer, storage_scope)
    start = min(plan.cursor.position(user) for user in plan.users)
    end = max(plan.cursor.position(writer) for writer in plan.writers) + 1
    for reader in plan.readers:
        late = plan.cursor.position(reader) >= end
        check(not late, READ_LATER, loop, reader, buffer=buffer.name)
    plan = replace(plan, cursor=plan.cursor.span(start, end))
    written, held = _simplify_region(plan.written(plan.writers)), None
    if state.enable_check:
        check_copied(loop)
        if plan.must_be_filled(plan.stores_all(written)):
            read = plan.read(plan.readers)
            held = bounding_box([written, read and _simplify_region(read)], buffer)
    plan.check_inside(held or written)
    return plan.apply(_OneBlock(plan, storage_scope), held, written)[-1]


def _plan(
    state: ScheduleState, loop: StmtSRef, block: StmtSRef, buffer: Buffer, storage_scope: str
) -> StagingPlan:
    """Return the plan of a copy for all blocks below a loop that access the buffer."""
    scope, _ = require_pipeline(state, block, stays=True)
    above = scope_root(loop) is scope and is_ancestor(loop, block)
    check(above, NOT_ABOVE, block, loop)
    users = [
        child
        for child in state.child_blocks(loop)
        if any(r.buffer is buffer for r in (*child.block.reads, *child.block.writes))
    ]
    cursor = StmtCursor.below(loop, scope).around(*users)
    threads = storage_scope or "global"
    return StagingPlan(state, scope, loop, cursor, block, buffer, users, threads)


def _simplify_region(region: Region | None) -> Region:
    assert region is not None
    # The ranges of loops of one iteration are not bound, so that these loops stay visible in the
    # region.
    simplify = Analyzer().simplify
    return tuple(Range.from_min_extent(simplify(r.min), simplify(r.extent)) for r in region)


class _OneBlock:
    """A copy with the shape of the buffer, which one block fills."""

    def __init__(self, plan: StagingPlan, storage_scope: str) -> None:
        self._plan = plan
        self.copy = cache_buffer(plan.buffer, storage_scope)

    def copy_nest(self, region: Sequence[Range], *, back: bool) -> Staged:
        """Return a block that copies a region; its axes are the loops that move the region."""
        source, target = self._plan.buffer, self.copy
        if back:
            source, target = target, source
        scope, loop = self._plan.scope, self._plan.location
        outer = [*loops_seen_through(scope), *loops_above(loop), loop]
        around = {sref.loop.loop_var: sref.loop for sref in outer}
        axes: dict[Var, IterVar] = {}
        for dim in region:
            for var in collect_vars(dim):
                if var in around and var not in axes:
                    own = Var(f"v{len(axes)}", var.dtype)
                    axes[var] = IterVar(loop_range(around[var]), own, IterVar.DATA_PAR)
        values = {var: axis.var for var, axis in axes.items()}
        ranges = [substitute(dim, values) for dim in region]
        inner = [Var(f"ax{k}", dim.min.dtype) for k, dim in enumerate(ranges)]
        element = [add(dim.min, var) for dim, var in zip(ranges, inner, strict=True)]
        loops = [(var, Range(dim.extent)) for var, dim in zip(inner, ranges, strict=True)]
        body = nest_of_loops(loops, BufferStore(target, BufferLoad(source, element), element))
        reads, writes = [BufferRegion(source, ranges)], [BufferRegion(target, ranges)]
        sweep = Sweep((), list(axes.values()), list(axes))
        return sweep.around_block(body, reads, writes, self.copy.name, {"auto_copy": True})

    def redirecting_rewriter(self, blocks: Collection[Block]) -> RedirectBuffers:
        """Return the rewriter that lets blocks use the copy."""
        return RedirectBuffers({self._plan.buffer: self.copy}, blocks)
