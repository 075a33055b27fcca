"""Staging the elements that a block touches in a buffer that its axes, or a map of them, index."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import axis_domain, axis_values, knowing
from schedule.analysis.block_kind import require_pipeline
from schedule.analysis.buffer_definition import accessed_buffer
from schedule.analysis.empty_reductions import own_loops
from schedule.analysis.layout_map import check_injective
from schedule.analysis.opaque_access import check_no_opaque, is_opaque
from schedule.analysis.predicates import without_variables
from schedule.analysis.redirect import RedirectToPoint
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
from schedule.primitives.loop_problems import check_starts_at_zero
from schedule.sref import StmtSRef, is_ancestor, loops_above
from schedule.staging.buffers import cache_buffer, checked_buffer, stage_buffer
from schedule.staging.nests import Staged, Sweep
from schedule.staging.old_values import loads_only, stores_surely, values_taken
from schedule.staging.places import place_to_read, place_to_write
from schedule.staging.plan import UNSAFE, StagingPlan
from schedule.state import ScheduleState
from schedule.stmt_cursor import lone_nest
from tensorir.arith import Analyzer
from tensorir.comparison.equal import expr_deep_equal
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import collect_vars, substitute, walk

NOT_LEAF = Problem("NotLeafBlockError", "{0} is not a leaf block: it has blocks in it")
BAD_ACCESS = Problem(
    "InvalidBufferAccessError",
    "{0} does not load or store exactly one element of {buffer} in each instance: {reason}",
)
NOT_A_CHAIN = Problem(
    "NotSingleChildChainError",
    "{0} is not alone in its loops, down from the scope {1}",
    "the copy stands beside the whole loop nest, which may hold nothing but the block",
)
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


@primitive("ReIndex")
def reindex(state: ScheduleState, block: BlockArg, buffer: BufferArg) -> NewBlock:
    """Copy a buffer to one that is indexed by the axes of a block, and let the block use that.

    Before: for i, j: C[i] = f(A[i + j])                    # reindex(C, ("read", 0))
    After:  for i, j: A_reindex[i, j] = A[i + j];  for i, j: C[i] = f(A_reindex[i, j])

    The new buffer has a dimension for each axis that the block's indices use, in the order of the
    axes. A buffer that is read is copied before the block's loops, one that is written after them.

    What is written is copied back for the values that the loops give the axes. If the block may
    leave out some of it, or relies on what the buffer held before, the copy is filled first.

    TVM does not check that the copy touches only what the block itself does; what cannot be shown
    to be harmless is refused here, unless the schedule was made with `enable_check=False`.

    Raises ScheduleError: BufferIndexOutOfRangeError, NotStagePipelineError, NotLeafBlockError,
    InvalidBufferAccessError, NotSingleChildChainError, UnsafeStageError.
    """
    old = accessed_buffer(block, *buffer)
    reading = buffer[0] == "read"
    scope, _ = require_pipeline(state, block, stays=True)
    check(not state.child_blocks(block), NOT_LEAF, block)
    touched = _common_indices(block, old)
    nest = lone_nest(block, scope)
    if nest is None:
        fail(NOT_A_CHAIN, block, scope)
    plan = StagingPlan(state, scope, scope, nest, block, old, [block])
    known = _known_but_units(block)
    original = [known.simplify(index) for index in touched]
    points = _Points(plan, original, [axis.var for axis in _axes_in(block, original)])
    runs, filled = points.domains, reading
    if state.enable_check:
        plan.check_fixed(points.region)
        points.check_inside()
        if reading:
            _check_not_written(block, old)
        else:
            points.check_apart(points.original)
            taken = values_taken(block, [axis.var for axis in points.axes])
            whole = taken is not None and stores_surely(block.block, old)
            filled = plan.must_be_filled(whole and plan.surely_runs(block))
            runs = taken or runs
    shape = [known.simplify(dom.min + dom.extent) for dom in points.domains]
    copy = stage_buffer(old, f"{old.name}_reindex", old.scope(), shape)
    fills, backs = [], []
    if filled:
        sweep = Sweep.over(runs, points.domains)
        fills.append(points.copied(sweep, copy, f"{copy.name}_reindex", back=False))
    if not reading:
        sweep = Sweep.over(runs, points.domains)
        backs.append(points.copied(sweep, copy, f"{old.name}_reindex", back=True))
    return plan.apply(copy, points.redirect(copy), fills, backs)[-1]


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
    buffer = checked_buffer(block, read_buffer_index, storage_scope, "read")
    scope, graph = require_pipeline(state, block, stays=True)
    _check_not_written(block, buffer)
    plan = place_to_read(state, scope, graph, block, buffer, [block])
    points, shape = _mapped(plan, block.block.reads[read_buffer_index], index_map)
    points.check_inside()
    copy = cache_buffer(buffer, storage_scope, shape)
    fill = points.copied(_own_sweep(points), copy, copy.name, back=False)
    return plan.apply(copy, points.redirect(copy), [fill], [])[-1]


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
    buffer = checked_buffer(block, write_buffer_index, storage_scope, "write")
    scope, graph = require_pipeline(state, block, stays=True)
    plan = place_to_write(state, scope, graph, block, buffer)
    points, shape = _mapped(plan, block.block.writes[write_buffer_index], index_map)
    copy = cache_buffer(buffer, storage_scope, shape)
    fills = []
    if state.enable_check:
        same = loads_only(block.block.body, buffer, points.original)
        reason = "it reads other elements than it writes"
        check(same, UNSAFE, block, buffer=buffer.name, reason=reason)
        whole = stores_surely(block.block, buffer) and plan.surely_runs(block)
        if plan.must_be_filled(whole):
            fills.append(points.copied(_own_sweep(points), copy, copy.name, back=False))
        if not whole:
            points.check_inside()
    back = points.copied(_own_sweep(points), copy, copy.name, back=True)
    return plan.apply(copy, points.redirect(copy), fills, [back])[-1]


class _Points:
    """The element that a block touches in each instance, and its place in a copy, by the axes."""

    def __init__(
        self, plan: StagingPlan, original: Sequence[PrimExpr], mapped: Sequence[PrimExpr]
    ) -> None:
        self.plan = plan
        self.original = original
        self.mapped = mapped
        self.axes = _axes_in(plan.block, mapped)
        self.domains = [axis.dom for axis in self.axes if axis.dom is not None]
        self.region = [Range.point(index) for index in original]

    def check_inside(self) -> None:
        """Raise if the copy may touch what lies beyond the buffer."""
        axes = self.plan.block.block.iter_vars
        self.plan.check_inside(self.region, knowing(axis_domain(axes)))

    def check_apart(self, indices: Sequence[PrimExpr]) -> None:
        """Raise if two values of the axes may give the same indices."""
        try:
            check_injective(IndexMap([axis.var for axis in self.axes], indices), self.domains)
        except IRValueError as error:
            fail(UNSAFE, self.plan.block, buffer=self.plan.buffer.name, reason=error)

    def copied(self, sweep: Sweep, copy: Buffer, name: str, *, back: bool) -> Staged:
        """Return a nest that copies the element at each place of a sweep over the axes."""
        fresh = dict(zip((axis.var for axis in self.axes), sweep.places, strict=True))
        source = (self.plan.buffer, [substitute(index, fresh) for index in self.original])
        target = (copy, [substitute(index, fresh) for index in self.mapped])
        if back:
            source, target = target, source
        return sweep.copying(source, target, name)

    def redirect(self, copy: Buffer) -> RedirectToPoint:
        """Return the rewriter that lets the block use the copy."""
        return RedirectToPoint({self.plan.buffer: copy}, {self.plan.block.block}, self.mapped)


def _axes_in(block: StmtSRef, indices: Sequence[PrimExpr]) -> list[IterVar]:
    """Return the axes of a block that occur in indices."""
    used = {v for index in indices for v in collect_vars(index)}
    return [axis for axis in block.block.iter_vars if axis.var in used]


def _known_but_units(block: StmtSRef) -> Analyzer:
    """Return what is known of a block's axes but for those of one value, which keep their names."""
    domains = axis_domain(block.block.iter_vars)
    return knowing({a: r for a, r in domains.items() if not is_const_int(r.extent, 1)})


def _check_not_written(block: StmtSRef, buffer: Buffer) -> None:
    writes = any(region.buffer is buffer for region in block.block.writes)
    check(not writes, UNSAFE, block, buffer=buffer.name, reason="it writes the buffer as well")


def _common_indices(block: StmtSRef, buffer: Buffer) -> Sequence[PrimExpr]:
    """Return the indices at which a block accesses a buffer, which must be the same everywhere."""
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
        fail(BAD_ACCESS, block, buffer=buffer.name, reason="there is no access")
    axes = {axis.var for axis in block.block.iter_vars}
    own = all(v in axes for index in found for v in collect_vars(index))
    check(own, BAD_ACCESS, block, buffer=buffer.name, reason="the indices use more than its axes")
    return found


def _mapped(
    plan: StagingPlan, region: BufferRegion, index_map: IndexMap
) -> tuple[_Points, Sequence[PrimExpr]]:
    """Return the places of a block's elements in a copy by an index map, and the copy's shape."""
    block, buffer, axes = plan.block, plan.buffer, plan.block.block.iter_vars
    point = all(is_const_int(dim.extent, 1) for dim in region.region)
    check(point, NOT_A_POINT, block, region=region, buffer=buffer.name)
    check_no_opaque(block, buffer)
    plan.check_fixed(region.region)
    given, count = len(index_map.initial_indices), len(axes)
    check(given == count, WRONG_ARITY, block, given=given, count=count)
    index_map = index_map.retyped([axis.var.dtype for axis in axes])
    names = dict(zip(index_map.initial_indices, (a.var for a in axes), strict=True))
    mapped = [substitute(index, names) for index in index_map.final_indices]
    points = _Points(plan, [dim.min for dim in region.region], mapped)
    there = _axes_in(block, points.original)
    for axis in axes:
        sides = [f"indices of {buffer.name}", "index map"]
        where, missing = reversed(sides) if axis in points.axes else sides
        both = (axis in points.axes) == (axis in there)
        values = {"axis": axis.var.name, "where": where, "missing": missing}
        check(both, OTHER_AXES, block, **values, buffer=buffer.name)
    known = _known_but_units(block)
    used = IndexMap([axis.var for axis in points.axes], mapped)
    ranges = used.bijective_ranges(points.domains)
    loses_nothing = ranges is not None
    if ranges is None:
        ranges = index_map.map_ranges(list(axis_domain(axes).values()))
    above = all(known.can_prove(r.min >= 0) for r in ranges)
    check(above, BELOW_ZERO, block, index_map=index_map)
    if plan.state.enable_check and not loses_nothing:
        points.check_apart(mapped)
    return points, [known.simplify(r.min + r.extent) for r in ranges]


def _own_sweep(points: _Points) -> Sweep:
    """Return copies of those loops of a block that a copy of what it touches needs."""
    plan = points.plan
    block, realize = plan.block, plan.block.block_realize
    bound = axis_values(realize)
    bindings = [bound[axis.var] for axis in points.axes]
    predicate = realize.predicate
    if realize.block.init is not None:
        # Where conditions exclude each step, the init stores all the same; what is copied step
        # by step is what those that run touch.
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
    axes = [IterVar(axis.dom, axis.var, IterVar.DATA_PAR) for axis in points.axes]
    return Sweep.like(loops, axes, bindings, predicate)[0]
