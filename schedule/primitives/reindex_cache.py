"""Staging the elements that a block touches in a buffer with another layout."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.accesses import check_no_opaque
from schedule.analysis.bindings import axis_domain, axis_values
from schedule.analysis.block_kind import require_pipeline
from schedule.analysis.empty_reductions import own_loops
from schedule.analysis.layout_map import check_injective
from schedule.analysis.loops import check_starts_at_zero
from schedule.analysis.predicates import without_variables
from schedule.analysis.redirect import RedirectToPoint
from schedule.analysis.reduction_steps import instances_of, loops_around
from schedule.analysis.staging_copy import (
    Element,
    Staged,
    Sweep,
    add_stages,
    cache_buffer,
    checked_buffer,
)
from schedule.analysis.staging_place import may_be_left_out, place_to_read, place_to_write
from schedule.analysis.staging_safety import (
    UNSAFE,
    check_inside,
    check_place_is_fixed,
    check_sequential,
    loads_only,
    relies_on_old_values,
    stores_surely,
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
from schedule.sref import StmtSRef, is_ancestor, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import IterVar, PrimExpr
from tensorir.nodes.ops import is_const_int
from tensorir.rewriting.visit import collect_vars, substitute

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
    scope, graph = require_pipeline(state, block, stays=True)
    writes = any(region.buffer is buffer for region in block.block.writes)
    check(not writes, UNSAFE, block, buffer=buffer.name, reason="it writes the buffer as well")
    place = place_to_read(state, scope, graph, block, buffer, [block])
    layout = _Layout(state, block, buffer, block.block.reads[read_buffer_index], index_map)
    layout.check_inside()

    # Rewrite.
    cache = cache_buffer(buffer, storage_scope, layout.shape)
    fill = layout.copied(place.location, (buffer, layout.original), (cache, layout.mapped))
    redirect = RedirectToPoint(buffer, cache, {block.block}, layout.mapped)
    add_stages(state, scope, place.cursor, [fill], [], [cache], redirect)

    # Result.
    return state.get_sref(fill.block)


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
    `cache_write`, and like there the copy may have to be filled first.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError,
    NotStagePipelineError, NotSingleWriteBlock, NotSinglePointAccess,
    IndexMapNotApplicableToBlockIterError, ReindexCacheReadWriteNotMatchError, NegativeIndexError,
    OpaqueAccessError, UnsafeStageError.
    """
    # Preconditions.
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    scope, graph = require_pipeline(state, block, stays=True)
    place = place_to_write(state, scope, graph, block, buffer)
    layout = _Layout(state, block, buffer, block.block.writes[write_buffer_index], index_map)
    node = block.block
    filled_first = False
    if state.enable_check:
        layout.check_same_element()
        left_out = may_be_left_out(scope, block, place.cursor)
        # What blocks inside the block store is as they declare.
        inner = bool(state.child_blocks(block))
        whole = not left_out and (inner or stores_surely(node.init or node.body, buffer))
        if not whole:
            check_sequential(block, buffer, place.location)
            layout.check_inside()
        filled_first = relies_on_old_values(block, buffer) or not whole

    # Rewrite.
    cache = cache_buffer(buffer, storage_scope, layout.shape)
    here, there = (cache, layout.mapped), (buffer, layout.original)
    fills = [layout.copied(place.location, there, here)] if filled_first else []
    back = layout.copied(place.location, here, there)
    redirect = RedirectToPoint(buffer, cache, {node}, layout.mapped)
    add_stages(state, scope, place.cursor, fills, [back], [cache], redirect)

    # Result.
    return state.get_sref(back.block)


class _Layout:
    """The places of a block's elements in the copy of a buffer, as functions of its axes."""

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
        axes = block.block.iter_vars
        point = all(is_const_int(dim.extent, 1) for dim in region.region)
        check(point, NOT_A_POINT, block, region=region, buffer=buffer.name)
        check_no_opaque(block, buffer)
        check_place_is_fixed(state, block, buffer, region.region)
        given, count = len(index_map.initial_indices), len(axes)
        check(given == count, WRONG_ARITY, block, given=given, count=count)
        index_map = index_map.retyped([axis.var.dtype for axis in axes])
        self.original: Sequence[PrimExpr] = [dim.min for dim in region.region]
        domains = axis_domain(block.block.iter_vars)
        names = dict(zip(index_map.initial_indices, (a.var for a in axes), strict=True))
        self.mapped: Sequence[PrimExpr] = [
            substitute(index, names) for index in index_map.final_indices
        ]
        self._axes = self._used_axes()
        analyzer = Analyzer()
        for axis, values in domains.items():
            # An axis of one value keeps its name in the indices.
            if not is_const_int(values.extent, 1):
                analyzer.bind(axis, values)
        used = IndexMap([axis.var for axis in self._axes], self.mapped)
        used_ranges = [domains[axis.var] for axis in self._axes]
        ranges = used.bijective_ranges(used_ranges)
        loses_nothing = ranges is not None
        if ranges is None:
            ranges = index_map.map_ranges([domains[axis.var] for axis in axes])
        above = all(analyzer.can_prove(r.min >= 0) for r in ranges)
        check(above, BELOW_ZERO, block, index_map=index_map)
        self.shape = tuple(analyzer.simplify(r.min + r.extent) for r in ranges)
        if state.enable_check and not loses_nothing:
            try:
                check_injective(used, used_ranges)
            except IRValueError as error:
                fail(UNSAFE, block, buffer=buffer.name, reason=error)

    def _used_axes(self) -> list[IterVar]:
        there = {v for index in self.original for v in collect_vars(index)}
        here = {v for index in self.mapped for v in collect_vars(index)}
        original, copied = f"indices of {self._buffer.name}", "index map"
        for axis in self._block.block.iter_vars:
            where, missing = (copied, original) if axis.var in here else (original, copied)
            both = (axis.var in here) == (axis.var in there)
            names = {"axis": axis.var.name, "where": where, "missing": missing}
            check(both, OTHER_AXES, self._block, **names, buffer=self._buffer.name)
        return [axis for axis in self._block.block.iter_vars if axis.var in here]

    def check_same_element(self) -> None:
        """Raise if the block loads other elements of what it writes than the one it stores."""
        reason = "it reads other elements than it writes"
        same = loads_only(self._block.block.body, self._buffer, self.original)
        check(same, UNSAFE, self._block, buffer=self._buffer.name, reason=reason)

    def check_inside(self) -> None:
        """Raise if the copy may read beyond the buffer."""
        analyzer = Analyzer()
        for axis, values in axis_domain(self._block.block.iter_vars).items():
            analyzer.bind(axis, values)
        region = [Range.point(index) for index in self.original]
        check_inside(self._state, self._block, self._buffer, region, analyzer)

    def copied(self, location: StmtSRef, source: Element, target: Element) -> Staged:
        """Return a nest that copies what the block touches below `location`, in its loops."""
        realize = self._block.block_realize
        bound = axis_values(realize)
        bindings = [bound[axis.var] for axis in self._axes]
        predicate = realize.predicate
        if realize.block.init is not None:
            # Where conditions exclude each step, the init stores all the same; what is copied step
            # by step is what those that run touch.
            around = loops_around(self._block)
            own = own_loops(instances_of(self._block), around)
            stepped = {v for value in bindings for v in collect_vars(value)}
            predicate = without_variables(predicate, {lp.loop_var for lp in own} - stepped)
        used = {v for value in (*bindings, predicate) for v in collect_vars(value)}
        loops = []
        for sref in loops_above(self._block):
            inside = sref is not location and is_ancestor(location, sref)
            if inside and sref.loop.loop_var in used:
                check_starts_at_zero(sref)
                loops.append(sref.loop)
        axes = [IterVar(axis.dom, axis.var, IterVar.DATA_PAR) for axis in self._axes]
        sweep, fresh = Sweep.like(loops, axes, bindings, predicate)
        (a, there), (b, here) = source, target
        cache = a if b is self._buffer else b
        return sweep.copying(
            (a, [substitute(index, fresh) for index in there]),
            (b, [substitute(index, fresh) for index in here]),
            cache.name,
        )
