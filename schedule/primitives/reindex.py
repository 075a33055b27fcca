"""Staging the elements that a block touches in a buffer that its axes, or a map of them, index."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from schedule.analysis.accesses import check_no_opaque, is_opaque
from schedule.analysis.bindings import (
    analyzer_keeping_units,
    analyzer_with_ranges,
    axis_domain,
    axis_values,
    without_variables,
)
from schedule.analysis.block_kind import check_fixed_domains, require_pipeline
from schedule.analysis.buffer_definition import (
    cache_buffer,
    checked_buffer,
    checked_region,
    stage_buffer,
)
from schedule.analysis.empty_reductions import own_loops
from schedule.analysis.layout_map import check_injective, map_of_axes
from schedule.analysis.loops import check_starts_at_zero
from schedule.analysis.rebuild import RedirectToPoint
from schedule.analysis.reduction_steps import instances_of, loops_around
from schedule.errors import Problem, check, fail
from schedule.instruction import (
    BlockArg,
    BufferArg,
    IndexMapArg,
    NewBlock,
    ReadIndex,
    WriteIndex,
    primitive,
)
from schedule.sref import StmtSRef, is_ancestor, loops_above
from schedule.staging.nests import Staged, Sweep
from schedule.staging.old_values import loads_only, stores_surely, values_taken
from schedule.staging.places import place_to_read, place_to_write
from schedule.staging.plan import UNSAFE, StagingPlan
from schedule.state import ScheduleState
from schedule.stmt_cursor import lone_nest
from tensorir.comparison.equal import expr_deep_equal
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, BufferStore
from tensorir.rewriting.visit import collect_vars, substitute, walk

NOT_LEAF = Problem(
    "NotLeafBlockError",
    "{0} is not a leaf block: it has blocks in it",
    "name a block inside it, which get_child_blocks returns",
)
BAD_ACCESS = Problem(
    "InvalidBufferAccessError",
    "{0} does not load or store exactly one element of {buffer} in each instance: {reason}",
    "name a buffer that the block accesses at one place only, or use cache_read, which allows "
    "several",
)
NOT_A_CHAIN = Problem(
    "NotSingleChildChainError",
    "{0} is not alone in its loops, down from the scope {1}",
    "the copy is made next to the whole loop nest, which must contain only the block",
)
NOT_A_POINT = Problem(
    "NotSinglePointAccess",
    "{0} touches the region {region} of {buffer}, which is not a single point",
    "the primitive needs a block each instance of which touches one element",
)
OTHER_AXES = Problem(
    "ReindexCacheReadWriteNotMatchError",
    "axis {axis} of {0} occurs in the {where}, but not in the {missing}",
    "the indices of the copy must use exactly the axes that the indices of {buffer} use",
)
BELOW_ZERO = Problem(
    "NegativeIndexError",
    "the index map {index_map} may give indices of the copy below 0",
    "add an offset to the indices, so that the minimum is 0",
)


@primitive("ReIndex")
def reindex(state: ScheduleState, block: BlockArg, buffer: BufferArg) -> NewBlock:
    """Let a block use a copy of a buffer that is indexed by the axes of the block.

    Before: for i, j: C[i] = f(A[i + j])                    # reindex(C, ("read", 0))
    After:  for i, j: A_reindex[i, j] = A[i + j];  for i, j: C[i] = f(A_reindex[i, j])

    The new buffer has a dimension for each axis that the block's indices use, in the order of the
    axes. A read buffer is copied before the block's loops, a written buffer after them.

    Written elements are copied back for the values that the loops give the axes. If the block may
    skip some of these elements, or relies on earlier contents of the buffer, the copy is filled
    first.

    TVM does not check that the copy accesses only elements that the block accesses. Here a copy
    that is not proved harmless is refused, unless the schedule was made with `enable_check=False`.

    Raises ScheduleError: BufferIndexOutOfRangeError, RootBlockError, NotStagePipelineError,
    AliasedBufferError, BareAccessError, NotLeafBlockError, InvalidBufferAccessError,
    NotSingleChildChainError, DependentLoopError, UnsafeStageError.
    """
    old = checked_region(block, *buffer).buffer
    reading = buffer[0] == "read"
    scope, _ = require_pipeline(state, block, stays=True)
    check(not state.child_blocks(block), NOT_LEAF, block)
    touched = _common_indices(block, old)
    nest = lone_nest(block, scope)
    if nest is None:
        fail(NOT_A_CHAIN, block, scope)
    plan = StagingPlan(state, scope, scope, nest, block, old, [block])
    known = analyzer_keeping_units(block.block.iter_vars)
    original = [known.simplify(index) for index in touched]
    axes = _axes_in(block, original)
    check_fixed_domains(block, {axis.var for axis in axes})
    domains = [axis.dom for axis in axes if axis.dom is not None]
    shape = [known.simplify(dom.min + dom.extent) for dom in domains]
    copy = stage_buffer(old, f"{old.name}_reindex", old.scope(), shape)
    points = _Points(plan, copy, original, [axis.var for axis in axes])
    runs, filled = domains, reading
    if state.enable_check:
        plan.check_fixed(points.region)
        points.check_inside()
        if reading:
            _check_not_written(block, old)
        else:
            _check_apart(plan, original, axis_domain(axes))
            taken = values_taken(block, [axis.var for axis in axes])
            whole = taken is not None and stores_surely(block.block, old)
            filled = plan.must_be_filled(whole and plan.surely_runs(block))
            runs = taken or runs
    return plan.apply(points, runs if filled else None, None if reading else runs)[-1]


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

    Unlike in TVM, a call that is not proved to keep the result is refused, unless the schedule was
    made with `enable_check=False`. Examples are two elements in one place of the copy, and a copy
    of elements that the block reads only under a condition.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotStagePipelineError, AliasedBufferError, BareAccessError, NotSingleWriteBlock,
    NotConsumerError, InsertionPointNotFoundError, NotSinglePointAccess,
    IndexMapNotApplicableToBlockIterError, ReindexCacheReadWriteNotMatchError, NegativeIndexError,
    LoopNotStartWithZeroError, DependentLoopError, OpaqueAccessError, UnsafeStageError.
    """
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    scope, graph = require_pipeline(state, block, stays=True)
    _check_not_written(block, buffer)
    plan = place_to_read(state, scope, graph, block, buffer, [block])
    region = block.block.reads[read_buffer_index]
    points = _map_loops(plan, region, index_map, storage_scope)
    points.check_inside()
    return plan.apply(points, points.region, None)[-1]


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

    The arguments and the checks are those of `reindex_cache_read`. As in `cache_write`, the copy
    back is before the first reader, and the copy may have to be filled first.

    Raises ScheduleError: InvalidStorageScopeError, BufferIndexOutOfRangeError, RootBlockError,
    NotStagePipelineError, AliasedBufferError, BareAccessError, NotSingleWriteBlock,
    NotConsumerError, InsertionPointNotFoundError, NotSinglePointAccess,
    IndexMapNotApplicableToBlockIterError, ReindexCacheReadWriteNotMatchError, NegativeIndexError,
    LoopNotStartWithZeroError, DependentLoopError, OpaqueAccessError, UnsafeStageError.
    """
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    scope, graph = require_pipeline(state, block, stays=True)
    plan = place_to_write(state, scope, graph, block, buffer)
    region = block.block.writes[write_buffer_index]
    points = _map_loops(plan, region, index_map, storage_scope)
    filled = False
    if state.enable_check:
        same = loads_only(block.block.body, buffer, points.original)
        reason = "it reads elements that differ from those that it writes"
        check(same, UNSAFE, block, buffer=buffer.name, reason=reason)
        whole = stores_surely(block.block, buffer) and plan.surely_runs(block)
        filled = plan.must_be_filled(whole)
        if not whole:
            points.check_inside()
    return plan.apply(points, points.region if filled else None, points.region)[-1]


class _Points:
    """The element that each instance of a block accesses, and its place in a copy."""

    def __init__(
        self,
        plan: StagingPlan,
        copy: Buffer,
        original: Sequence[PrimExpr],
        mapped: Sequence[PrimExpr],
    ) -> None:
        self.plan = plan
        self.copy = copy
        self.original = original
        self.mapped = mapped
        self.axes = _axes_in(plan.block, mapped)
        self.region = tuple(Range.point(index) for index in original)

    def check_inside(self) -> None:
        """Raise if the copy may access elements beyond the buffer."""
        axes = self.plan.block.block.iter_vars
        self.plan.check_inside(self.region, analyzer_with_ranges(axis_domain(axes)))

    def copy_nest(self, region: Sequence[Range], *, back: bool) -> Staged:
        """Return a nest that copies an element for each value of the axes in a region."""
        sweep = self._sweep(region)
        fresh = dict(zip((axis.var for axis in self.axes), sweep.places, strict=True))
        source = (self.plan.buffer, [substitute(index, fresh) for index in self.original])
        target = (self.copy, [substitute(index, fresh) for index in self.mapped])
        if back:
            source, target = target, source
        return sweep.copying_nest(source, target, self._name(target[0]))

    def redirecting_rewriter(self, blocks: Collection[Block]) -> RedirectToPoint:
        """Return the rewriter that lets blocks use the copy."""
        return RedirectToPoint({self.plan.buffer: self.copy}, blocks, self.mapped)

    def _sweep(self, region: Sequence[Range]) -> Sweep:
        return Sweep.over(region, [axis.dom for axis in self.axes if axis.dom is not None])

    def _name(self, target: Buffer) -> str:
        return f"{target.name}_reindex"


class _OwnLoops(_Points):
    """A copy made by copies of the loops that run the block."""

    def _name(self, target: Buffer) -> str:
        return self.copy.name

    def _sweep(self, region: Sequence[Range]) -> Sweep:
        plan = self.plan
        block, realize = plan.block, plan.block.block_realize
        bound = axis_values(realize)
        bindings = [bound[axis.var] for axis in self.axes]
        predicate = realize.predicate
        if realize.block.init is not None:
            # If conditions exclude every step, the init still stores, but copies step by step would
            # access only the elements of the steps that run.
            own = own_loops(instances_of(block), loops_around(block))
            stepped = {v for value in bindings for v in collect_vars(value)}
            predicate = without_variables(predicate, {lp.loop_var for lp in own} - stepped)
        used = {v for value in (*bindings, predicate) for v in collect_vars(value)}
        loops = []
        for sref in loops_above(block):
            inside = sref is not plan.location and is_ancestor(plan.location, sref)
            if inside and sref.loop.loop_var in used:
                check_starts_at_zero(sref)
                loops.append(sref.loop)
        axes = [IterVar(axis.dom, axis.var, IterVar.DATA_PAR) for axis in self.axes]
        return Sweep.like(loops, axes, bindings, predicate)[0]


def _axes_in(block: StmtSRef, indices: Sequence[PrimExpr]) -> list[IterVar]:
    """Return the axes of a block that occur in indices."""
    used = {v for index in indices for v in collect_vars(index)}
    return [axis for axis in block.block.iter_vars if axis.var in used]


def _check_apart(
    plan: StagingPlan, indices: Sequence[PrimExpr], domains: Mapping[Var, Range]
) -> None:
    """Raise if two values of axes may give the same indices."""
    try:
        check_injective(IndexMap(list(domains), indices), list(domains.values()))
    except IRValueError as error:
        fail(UNSAFE, plan.block, buffer=plan.buffer.name, reason=error)


def _check_not_written(block: StmtSRef, buffer: Buffer) -> None:
    writes = any(region.buffer is buffer for region in block.block.writes)
    check(not writes, UNSAFE, block, buffer=buffer.name, reason="it writes the buffer as well")


def _common_indices(block: StmtSRef, buffer: Buffer) -> Sequence[PrimExpr]:
    """Return the indices at which a block accesses a buffer; raise if accesses differ."""
    found: Sequence[PrimExpr] | None = None
    for node in walk(block.block):
        opaque = is_opaque(node, buffer)
        check(not opaque, BAD_ACCESS, block, buffer=buffer.name, reason="an access is opaque")
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer:
            same = found is None or all(
                expr_deep_equal(a, b) for a, b in zip(found, node.indices, strict=True)
            )
            check(same, BAD_ACCESS, block, buffer=buffer.name, reason="the indices differ")
            found = node.indices
    if found is None:
        fail(BAD_ACCESS, block, buffer=buffer.name, reason="the block does not access it")
    axes = {axis.var for axis in block.block.iter_vars}
    own = all(v in axes for index in found for v in collect_vars(index))
    check(own, BAD_ACCESS, block, buffer=buffer.name, reason="the indices use other variables")
    return found


def _map_loops(
    plan: StagingPlan, region: BufferRegion, index_map: IndexMap, storage_scope: str
) -> _OwnLoops:
    """Return the places of a block's elements in a copy by an index map."""
    block, buffer, axes = plan.block, plan.buffer, plan.block.block.iter_vars
    point = all(is_const_int(dim.extent, 1) for dim in region.region)
    check(point, NOT_A_POINT, block, region=region, buffer=buffer.name)
    check_no_opaque(block, buffer)
    plan.check_fixed(region.region)
    index_map = map_of_axes(index_map, block)
    names = dict(zip(index_map.initial_indices, (a.var for a in axes), strict=True))
    original = [dim.min for dim in region.region]
    mapped = [substitute(index, names) for index in index_map.final_indices]
    here, there = (
        {v for index in side for v in collect_vars(index)} for side in (mapped, original)
    )
    sides = f"indices of {buffer.name}", "index map"
    for var in (axis.var for axis in axes):
        where, missing = reversed(sides) if var in here else sides
        values = {"axis": var.name, "where": where, "missing": missing, "buffer": buffer.name}
        check((var in here) == (var in there), OTHER_AXES, block, **values)
    check_fixed_domains(block, here)
    known, domains = analyzer_keeping_units(axes), axis_domain(axes)
    used = {var: run for var, run in domains.items() if var in here}
    dense = IndexMap(list(used), mapped).bijective_ranges(list(used.values()))
    ranges = index_map.map_ranges(list(domains.values())) if dense is None else dense
    above = all(known.can_prove(r.min >= 0) for r in ranges)
    check(above, BELOW_ZERO, block, index_map=index_map)
    if plan.state.enable_check and dense is None:
        _check_apart(plan, mapped, used)
    shape = [known.simplify(r.min + r.extent) for r in ranges]
    return _OwnLoops(plan, cache_buffer(buffer, storage_scope, shape), original, mapped)
