"""Staging what a block touches in a buffer of a layout of its own."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import substitute_loops
from schedule.analysis.block_kind import require_pipeline
from schedule.analysis.layout_map import check_injective
from schedule.analysis.loop_nest import nest_of_loops
from schedule.analysis.opaque_access import check_no_opaque
from schedule.analysis.redirect_point import RedirectPoint
from schedule.analysis.staging_safety import (
    UNSAFE,
    axis_ranges,
    check_fills_before_reading,
    check_inside,
)
from schedule.errors import Problem, check, fail
from schedule.instruction import (
    BlockArg,
    IndexMapArg,
    NewBlock,
    ReadIndex,
    WriteIndex,
    primitive,
)
from schedule.primitives.cache import (
    SEVERAL_WRITERS,
    Insertion,
    cache_buffer,
    checked_buffer,
    raw_consumers,
)
from schedule.primitives.loop_problems import check_starts_at_zero
from schedule.sref import StmtSRef, lowest_common_ancestor
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer, BufferRegion, Range
from tensorir.errors import IRValueError
from tensorir.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.index_map import IndexMap
from tensorir.ops import is_const_int
from tensorir.stmt import Block, BlockRealize, BufferStore, Stmt
from tensorir.visit import collect_vars, substitute

NOT_A_POINT = Problem(
    "NotSinglePointAccess",
    "{0} touches the region {region} of {buffer}, which is not a single point",
    "the primitive needs a block each instance of which touches one element",
)
WRONG_ARITY = Problem(
    "IndexMapNotApplicableToBlockIterError",
    "the index map takes {given} indices, but {0} has {count} axes",
)
OTHER_AXES = Problem(
    "ReindexCacheReadWriteNotMatchError",
    "axis {axis} of {0} occurs in the {where}, but not in the {missing}",
    "the indices of the copy must use the axes that the indices of {buffer} use, and no other",
)
BELOW_ZERO = Problem(
    "NegativeIndexError", "the index map {index_map} may give indices of the copy below 0"
)


@primitive("ReindexCacheRead")
def reindex_cache_read(
    state: ScheduleState,
    block: BlockArg,
    read_buffer_index: ReadIndex,
    storage_scope: str,
    index_map: IndexMapArg,
) -> NewBlock:
    """Copy what a block reads to a new buffer, indexed by a map of the block's axes.

    Before: for i, j: C[i, j] = f(A[i, j])       # reindex_cache_read(C, 0, s, lambda i, j: (j, i))
    After:  for i, j: A_s[j, i] = A[i, j];  for i, j: C[i, j] = f(A_s[j, i])

    The copy `<buffer>_<scope>` is filled as in `cache_read`, by a block with the axes and loops
    that the indices use; only `block` reads it.

    What cannot be shown to keep the result (two elements in one place of the copy, a copy of what
    the block reads under a condition only) is refused, unlike in TVM, unless the schedule was made
    with `enable_check=False`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError,
    NotStagePipelineError, NotSingleWriteBlock, NotSinglePointAccess,
    IndexMapNotApplicableToBlockIterError, ReindexCacheReadWriteNotMatchError, NegativeIndexError,
    OpaqueAccessError, UnsafeStageError.
    """
    # Preconditions.
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    scope, graph = require_pipeline(state, block)
    writers = graph.buffer_writers.get(buffer, [])
    check(len(writers) <= 1, SEVERAL_WRITERS, scope, buffer=buffer.name, count=len(writers))
    stage = _Stage(state, block, buffer, block.block.reads[read_buffer_index], index_map)
    if state.enable_check:
        stage.check_inside()
        writes = block in writers
        check(not writes, UNSAFE, block, buffer=buffer.name, reason="it writes the buffer as well")

    # Rewrite.
    location = lowest_common_ancestor([writers[0], block]) if writers else scope
    before = block if writers else None
    cache = cache_buffer(buffer, storage_scope).with_(shape=stage.shape, axis_separators=())
    nest, copy = stage.copy_nest(buffer, cache, location)
    insertion = Insertion(location, before, not writers, nest)
    return stage.insert(scope, insertion, cache, copy)


@primitive("ReindexCacheWrite")
def reindex_cache_write(
    state: ScheduleState,
    block: BlockArg,
    write_buffer_index: WriteIndex,
    storage_scope: str,
    index_map: IndexMapArg,
) -> NewBlock:
    """Let a block write to a new buffer indexed by a map of its axes, and copy that back.

    Before: for i, j: C[i, j] = f(A[i, j])      # reindex_cache_write(C, 0, s, lambda i, j: (j, i))
    After:  for i, j: C_s[j, i] = f(A[i, j]);  for i, j: C[i, j] = C_s[j, i]

    The arguments and the checks are those of `reindex_cache_read`; the place is that of
    `cache_write`.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError,
    NotStagePipelineError, NotSingleWriteBlock, NotSinglePointAccess,
    IndexMapNotApplicableToBlockIterError, ReindexCacheReadWriteNotMatchError, NegativeIndexError,
    OpaqueAccessError, UnsafeStageError.
    """
    # Preconditions.
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    scope, graph = require_pipeline(state, block)
    writers = graph.buffer_writers.get(buffer, [])
    check(writers == [block], SEVERAL_WRITERS, scope, buffer=buffer.name, count=len(writers))
    stage = _Stage(state, block, buffer, block.block.writes[write_buffer_index], index_map)
    check_fills_before_reading(state, block, buffer)

    # Rewrite.
    consumers = raw_consumers(graph, block, buffer)
    before = consumers[0] if consumers else None
    location = lowest_common_ancestor([block, before]) if before is not None else scope
    cache = cache_buffer(buffer, storage_scope).with_(shape=stage.shape, axis_separators=())
    nest, copy = stage.copy_nest(cache, buffer, location)
    return stage.insert(scope, Insertion(location, before, False, nest), cache, copy)


class _Stage:
    """The copy of a buffer in terms of a block's axes, with what has been checked about it."""

    def __init__(
        self,
        state: ScheduleState,
        block: StmtSRef,
        buffer: Buffer,
        region: BufferRegion,
        index_map: IndexMap,
    ) -> None:
        self._state = state
        self._block = block
        self._buffer = buffer
        self._analyzer = Analyzer()
        axes = block.block.iter_vars
        point = all(is_const_int(dim.extent, 1) for dim in region.region)
        check(point, NOT_A_POINT, block, region=region, buffer=buffer.name)
        check_no_opaque(block, buffer)
        given, count = len(index_map.initial_indices), len(axes)
        check(given == count, WRONG_ARITY, block, given=given, count=count)
        index_map = index_map.retyped([axis.var.dtype for axis in axes])
        self._original: Sequence[PrimExpr] = [dim.min for dim in region.region]
        domains = axis_ranges(block.block)
        names = dict(zip(index_map.initial_indices, (a.var for a in axes), strict=True))
        self._mapped: Sequence[PrimExpr] = [
            substitute(index, names) for index in index_map.final_indices
        ]
        self._axes = self._used_axes()
        for axis, values in domains.items():
            # An axis of one value keeps its name in the indices.
            if not is_const_int(values.extent, 1):
                self._analyzer.bind(axis, values)
        used = IndexMap([axis.var for axis in self._axes], self._mapped)
        used_ranges = [domains[axis.var] for axis in self._axes]
        ranges = used.bijective_ranges(used_ranges)
        loses_nothing = ranges is not None
        if ranges is None:
            ranges = index_map.map_ranges([domains[axis.var] for axis in axes])
        above = all(self._analyzer.can_prove(r.min >= 0) for r in ranges)
        check(above, BELOW_ZERO, block, index_map=index_map)
        self.shape = tuple(self._analyzer.simplify(r.min + r.extent) for r in ranges)
        if state.enable_check and not loses_nothing:
            try:
                check_injective(used, used_ranges)
            except IRValueError as error:
                fail(UNSAFE, block, buffer=buffer.name, reason=error)

    def _used_axes(self) -> list[IterVar]:
        there = {v for index in self._original for v in collect_vars(index)}
        here = {v for index in self._mapped for v in collect_vars(index)}
        original, copied = f"indices of {self._buffer.name}", "index map"
        for axis in self._block.block.iter_vars:
            where, missing = (copied, original) if axis.var in here else (original, copied)
            both = (axis.var in here) == (axis.var in there)
            names = {"axis": axis.var.name, "where": where, "missing": missing}
            check(both, OTHER_AXES, self._block, **names, buffer=self._buffer.name)
        return [axis for axis in self._block.block.iter_vars if axis.var in here]

    def check_inside(self) -> None:
        """Raise if the copy may read beyond the buffer."""
        analyzer = Analyzer()
        for axis, values in axis_ranges(self._block.block).items():
            analyzer.bind(axis, values)
        region = [Range.point(index) for index in self._original]
        check_inside(self._state, self._block, self._buffer, region, analyzer)

    def copy_nest(self, source: Buffer, target: Buffer, location: StmtSRef) -> tuple[Stmt, Block]:
        """Return the loops that copy, to stand at `location`, and the block in them."""
        realize = self._block.block_realize
        fresh = {axis.var: axis.var.with_name(axis.var.name) for axis in self._axes}
        there = [substitute(index, fresh) for index in self._original]
        here = [substitute(index, fresh) for index in self._mapped]
        reading, writing = (there, here) if source is self._buffer else (here, there)
        cache = target if source is self._buffer else source
        copy = Block(
            [IterVar(axis.dom, fresh[axis.var], IterVar.DATA_PAR) for axis in self._axes],
            [BufferRegion.from_point(source, reading)],
            [BufferRegion.from_point(target, writing)],
            cache.name,
            BufferStore(target, BufferLoad(source, reading), writing),
        )
        bound = dict(
            zip((a.var for a in realize.block.iter_vars), realize.iter_values, strict=True)
        )
        bindings = [bound[axis.var] for axis in self._axes]
        used = {v for value in (*bindings, realize.predicate) for v in collect_vars(value)}
        values: dict[Var, PrimExpr] = {}
        loops: list[tuple[Var, PrimExpr]] = []
        for sref in self._loops_below(location):
            loop = sref.loop
            if loop.loop_var in used:
                check_starts_at_zero(sref)
                var = loop.loop_var.with_name(loop.loop_var.name)
                loops.append((var, substitute(loop.extent, values)))
                values[loop.loop_var] = var
        inside = substitute_loops(BlockRealize(bindings, realize.predicate, copy), values)
        return nest_of_loops(loops, inside), copy

    def _loops_below(self, location: StmtSRef) -> list[StmtSRef]:
        loops: list[StmtSRef] = []
        current = self._block.parent
        while current is not None and current is not location:
            loops.append(current)
            current = current.parent
        loops.reverse()
        return loops

    def insert(self, scope: StmtSRef, insertion: Insertion, cache: Buffer, copy: Block) -> StmtSRef:
        """Put the copy in place, let the block use it, and return the block that copies."""
        redirect = RedirectPoint(self._block.block, self._buffer, cache, self._mapped)
        old = scope.block
        body = redirect(insertion.into_scope(scope))
        new = old.with_(body=body, alloc_buffers=(*old.alloc_buffers, cache))
        self._state.replace(scope, new, redirect.reuse)
        return self._state.get_sref(copy)
