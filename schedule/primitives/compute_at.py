"""Moving a block below a loop of the blocks that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from schedule.analysis.accesses import check_no_effect
from schedule.analysis.bindings import analyzer_with_ranges, loop_domain
from schedule.analysis.block_kind import (
    check_complete_or_reduction,
    check_uses_no_loop,
    is_spatial,
    require_pipeline,
)
from schedule.analysis.dependency import BlockScope, DepKind, dependencies
from schedule.analysis.domain_solving import (
    AxisDomain,
    Places,
    is_always_solvable,
    solve_axis_domains,
    solve_places,
    where_fixed_places_are_needed,
)
from schedule.analysis.insertion_place import check_place
from schedule.analysis.iteration_cover import left_out
from schedule.analysis.loops import nest_of_loops
from schedule.analysis.reduction_steps import Steps, loops_around, reductions_in
from schedule.analysis.region_cover import reads_covered
from schedule.analysis.regions import (
    Box,
    bound_region,
    box_of,
    path_domain,
    relax_by_intervals,
    union,
)
from schedule.analysis.step_order import check_steps_commute
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, LocationArg, primitive
from schedule.primitives.inline import compute_inline
from schedule.primitives.loop_kind import driven_axes
from schedule.primitives.reverse_inline import reverse_compute_inline
from schedule.sref import (
    INLINE_MARK,
    ROOT_MARK,
    StmtSRef,
    lone_loops,
    loops_above,
)
from schedule.staging.old_values import reads_old_values
from schedule.state import ScheduleState, memoize_on_state
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer, IntervalSet
from tensorir.errors import IRValueError
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, add, is_const_int, logical_and
from tensorir.nodes.stmt import BlockRealize, ForKind, Stmt
from tensorir.rewriting.visit import substitute

READS_AHEAD = Problem(
    "NotRegionCoverError",
    "{0} cannot move under {1}, because there it would read elements that its producers have not "
    "written yet",
    "choose a loop further out, one iteration of which produces everything that the block reads",
)
CONCURRENT = Problem(
    "WrongBlockIterTypeError",
    "{0} cannot move under {1}: that loop runs its iterations concurrently, but would drive its "
    "axis {axis}, which is not data-parallel",
    "move the block first and make another loop parallel, or choose a loop further out",
)
REPEATED = Problem(
    "RepeatedReductionError",
    "{0} cannot move under {1}: {where}, the steps of its reduction do not each run once with the "
    "initialising step first, because {reason}",
    "choose a loop further out",
)
CONTINUED = Problem(
    "RepeatedReductionError",
    "{0} cannot move, because its reduction starts from the earlier contents of {buffer}, and a "
    "repeated instance would start from its own result instead",
    "decompose the reduction first; its update can stay where it is",
)
MARKED = Problem(
    "LoopKindLostError",
    "{0} cannot move, because new loops would replace {1}, which is not a plain serial loop",
    "move the block first; then vectorize, unroll, parallelize, bind or annotate the new loops",
)
LEFT_OUT = Problem(
    "LeftOutInstancesError",
    "{0} cannot move under {1}, because the loops around it may skip values of its axis {axis}, "
    "which the new loops would run",
    "restrict the domain of the axis to the values of its loops",
)
NOT_RUN = Problem(
    "LostIterationError",
    "{0} cannot move under {1}: none of its axes uses {2}, which may have no iteration",
    "choose a loop further out",
)
LEFT_BEHIND = Problem(
    "LostIterationError",
    "{0} cannot move under {1}: its axis {axis} uses {2}, a loop around both, and would run "
    "through all its values in each iteration of that loop",
    "choose a loop further out",
)
UNDECLARED = Problem(
    "UndeclaredAccessError",
    "{0} cannot move under {1}, because {2} touches {buffer} without declaring it in T.reads or "
    "T.writes, so the part of {buffer} that is written before {0} reads it there is unknown",
    "move {0} before you apply loop_partition or cache_index, which leave accesses undeclared",
)
UNSOLVABLE = Problem(
    "DomainNotSolvableError",
    "the instances of {0} that {1} needs cannot be found: {reason}",
    "choose a loop further out, or write each index as a product, quotient or remainder of one "
    "axis",
)


@primitive("ComputeAt")
def compute_at(
    state: ScheduleState,
    block: BlockArg,
    loop: LocationArg,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Move a producer below a loop of its consumers, to compute only the elements needed there.

    Before: for i: B[i] = f(A[i]);  for i: C[i] = g(B[i])        # compute_at(B, i of C)
    After:  for i: { B[i] = f(A[i]);  C[i] = g(B[i]) }

    New loops `ax0`, `ax1`, ... run over the instances that are needed; those of extent 1 are left
    out unless `preserve_unit_loops`. `index` is the place among the statements below the loop: -1
    the latest, -2 the earliest. The loop may also be a mark from `sample_compute_location`, meaning
    to inline the block or to keep its place.

    Raises ScheduleError: RootBlockError, NotStagePipelineError, NotCompleteOrReductionBlockError,
    NotInSameScopeError, OutputBlockError, OnlyLeafError, InsertionPointNotFoundError,
    InvalidInsertionIndexError, NotAllRequiredBlocksAreVisitedError, DependencyOrderError,
    DomainNotSolvableError, RepeatedReductionError, LeftOutInstancesError, OpaqueBlockError,
    OpaqueCallError, DependentAxisError, OrderedReductionError, AliasedBufferError, BareAccessError,
    GuardedBlockError, LoopKindLostError.
    """
    if loop is INLINE_MARK:
        compute_inline(state, block)
    elif loop is not ROOT_MARK:
        plan_move(state, block, loop, index, preserve_unit_loops, to_consumers=True)(state)


@primitive("ReverseComputeAt")
def reverse_compute_at(
    state: ScheduleState,
    block: BlockArg,
    loop: LocationArg,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Move a consumer below a loop of its producers, to use their results soon after.

    Before: for i: B[i] = f(A[i]);  for i: C[i] = g(B[i])        # reverse_compute_at(C, i of B)
    After:  for i: { B[i] = f(A[i]);  C[i] = g(B[i]) }

    The arguments are those of `compute_at`.

    Raises ScheduleError: RootBlockError, NotStagePipelineError, NotCompleteOrReductionBlockError,
    NotInSameScopeError, OnlyLeafError, InsertionPointNotFoundError, InvalidInsertionIndexError,
    NotAllRequiredBlocksAreVisitedError, DependencyOrderError, NotRegionCoverError,
    DomainNotSolvableError, WrongBlockIterTypeError, RepeatedReductionError, LeftOutInstancesError,
    OpaqueBlockError, UndeclaredAccessError, OpaqueCallError, DependentAxisError,
    OrderedReductionError, AliasedBufferError, BareAccessError, GuardedBlockError,
    LostIterationError, LoopKindLostError.
    """
    if loop is INLINE_MARK:
        reverse_compute_inline(state, block)
    elif loop is not ROOT_MARK:
        move = plan_move(state, block, loop, index, preserve_unit_loops, to_consumers=False)
        before = block.block, loop.loop
        move(state)
        covered = reads_covered(state, block, dependencies(state, state.scope_root(block)))
        # If this fails, the move is rolled back, and the error marks loops of the restored program.
        check(covered, READS_AHEAD, *before)


@memoize_on_state
def require_movable(state: ScheduleState, block: StmtSRef) -> BlockScope:
    """Check the preconditions of moving a block anywhere; return the dependencies of its scope."""
    _, graph = require_pipeline(state, block)
    check_complete_or_reduction(state, block, graph)
    if state.enable_check:
        check_no_effect(block)
        check_steps_commute(block)
        for region in block.block.writes if block.block.init is not None else ():
            starts = not reads_old_values(block.block, region.buffer)
            check(starts, CONTINUED, block, buffer=region.buffer.name)
    check_uses_no_loop(block)
    for sref in lone_loops(block):  # new loops will replace them
        is_plain = sref.loop.kind is ForKind.SERIAL and not sref.loop.annotations
        check(is_plain, MARKED, block, sref)
    return graph


@memoize_on_state
def plan_move(
    state: ScheduleState,
    block: StmtSRef,
    loop: StmtSRef,
    index: int,
    preserve_unit_loops: bool,
    *,
    to_consumers: bool,
) -> Callable[[ScheduleState], None]:
    """Check that a block may move below a loop, and return the function that moves it."""
    graph = require_movable(state, block)
    position, required = check_place(state, graph, block, loop, index, to_consumers=to_consumers)
    if not to_consumers:
        _check_declared(graph, block, loop, required)
    analyzer = analyzer_with_ranges(loop_domain([*loops_above(loop), loop]))
    try:
        needed = _needed(graph, block, loop, required, analyzer, to_consumers)
    except IRValueError as error:
        fail(UNSOLVABLE, block, loop, reason=error)
    nest = _nest(block, needed, preserve_unit_loops, analyzer)
    if state.enable_check:
        _check_concurrent(block, loop, nest)
        _check_follows(block, loop, nest)
        if not to_consumers:
            _check_runs(block, loop, nest)
        _check_steps(block, loop, nest)
        _check_all_run(block, loop, to_consumers=to_consumers)

    def move(state: ScheduleState) -> None:
        node = block.block
        state.replace(block, None)
        body = StmtCursor.below(loop).gap(position).replace(nest)
        state.replace(loop, loop.loop.with_body(body), revive={node: block})

    return move


def needs_plan(block: StmtSRef) -> bool:
    """Return True if deciding whether a block may move needs the checks of `plan_move`."""
    reduces = next(reductions_in(block.block_realize), None) is not None
    return reduces or not (is_spatial(block) and is_always_solvable(block.block.writes))


def _check_declared(
    graph: BlockScope, block: StmtSRef, loop: StmtSRef, producers: list[StmtSRef]
) -> None:
    """Raise if a block reads results of its producers through undeclared accesses."""
    for edge in graph.edges_to(block):
        if edge.kind is DepKind.RAW and edge.src in producers:
            name = edge.buffer.name
            check(_declares(block, edge.buffer), UNDECLARED, block, loop, block, buffer=name)
            check(bool(edge.src.block.writes), UNDECLARED, block, loop, edge.src, buffer=name)


def _declares(block: StmtSRef, buffer: Buffer) -> bool:
    return any(read.buffer is buffer for read in block.block.reads)


def _check_concurrent(block: StmtSRef, loop: StmtSRef, nest: Stmt) -> None:
    """Raise if concurrent iterations would update the same elements."""
    for above in (*loops_above(loop), loop):
        if above.loop.kind not in (ForKind.PARALLEL, ForKind.VECTORIZED):
            continue
        for _, axis in driven_axes(nest, above.loop.loop_var):
            independent = axis.iter_type == IterVar.DATA_PAR
            check(independent, CONCURRENT, block, above, axis=axis.var.name)


def _check_follows(block: StmtSRef, loop: StmtSRef, nest: Stmt) -> None:
    """Raise if an axis would lose a loop that is around the block before and after the move.

    The block would then run for all values of the axis in each iteration of the loop.
    """
    around = {above.loop for above in loops_above(block)}
    for above in (*loops_above(loop), loop):
        if above.loop not in around or is_const_int(above.loop.extent, 1):
            continue
        var = above.loop.loop_var
        kept = {axis for _, axis in driven_axes(nest, var)}
        for _, axis in driven_axes(block.block_realize, var):
            check(axis in kept, LEFT_BEHIND, block, loop, above, axis=axis.var.name)


def _check_runs(block: StmtSRef, loop: StmtSRef, nest: Stmt) -> None:
    """Raise if a consumer would move below a loop that none of its axes uses and that may be empty.

    A loop that data-parallel axes use together with a reduction may also have instances without a
    step.
    """
    around = {above.loop for above in loops_above(block)}
    analyzer = Analyzer()
    for above in (*loops_above(loop), loop):
        extent = above.loop.extent
        if above.loop in around or isinstance(extent, IntImm):
            continue
        kinds = {a.iter_type == IterVar.DATA_PAR for _, a in driven_axes(nest, above.loop.loop_var)}
        follows = len(kinds) == 1
        check(follows or analyzer.can_prove(extent >= 1), NOT_RUN, block, loop, above)


def _check_steps(block: StmtSRef, loop: StmtSRef, nest: Stmt) -> None:
    """Raise unless loops run the reductions in a block in passes, before and after the move."""
    below = [*loops_around(loop), loop.loop]
    places = (("there", nest, below), ("here", block.block_realize, loops_around(block)))
    for where, stmt, around in places:
        for instances, inside in reductions_in(stmt):
            loops = [*around, *inside]
            reason = Steps(instances, loops).problem(loops)
            check(reason is None, REPEATED, block, loop, where=where, reason=reason)


def _check_all_run(block: StmtSRef, loop: StmtSRef, *, to_consumers: bool) -> None:
    """Raise if a predicate skips instances that would run at the new place.

    Instances with unused results may be skipped, except the instances of a reduction.
    """
    axes = block.block.iter_vars
    if to_consumers:
        axes = tuple(axis for axis in axes if axis.iter_type != IterVar.DATA_PAR)
    axis = left_out(block, axes) if axes else None
    if axis is not None:
        fail(LEFT_OUT, block, loop, axis=axis.var.name)


@dataclass(frozen=True, slots=True)
class _Needed:
    """The instances of a block that a loop needs."""

    domains: list[AxisDomain]
    """The values of each axis."""
    places: Places | None = None
    """The axes that take only some combinations of values, and the indices that determine them."""
    predicate: PrimExpr = TRUE
    """The condition under which any instance is needed."""


def _needed(
    graph: BlockScope,
    block: StmtSRef,
    loop: StmtSRef,
    required: list[StmtSRef],
    analyzer: Analyzer,
    to_consumers: bool,
) -> _Needed:
    """Return the instances that the blocks `required` below a loop need."""
    node = block.block
    provided: dict[Buffer, list[BufferRegion]] = {}
    for region in node.writes if to_consumers else node.reads:
        provided.setdefault(region.buffer, []).append(region)
    boxes: dict[Buffer, list[Box]] = {}
    for dependent in required:
        regions = dependent.block.reads if to_consumers else dependent.block.writes
        realize = dependent.block_realize
        for region in regions:
            if region.buffer in provided:
                storage = region.buffer.scope() if to_consumers else "global"
                domain = path_domain(dependent, loop, storage)
                box = relax_by_intervals(bound_region(region, realize), domain, analyzer)
                boxes.setdefault(region.buffer, []).append(box)
    for edge in graph.out_of(block) if to_consumers else ():
        buffer = edge.buffer
        if edge.kind is DepKind.RAW and edge.dst in required and not _declares(edge.dst, buffer):
            boxes.setdefault(buffer, []).append(box_of([Range(size) for size in buffer.shape]))
    needed: Mapping[Buffer, Box] = {
        buffer: joined
        for buffer, parts in boxes.items()
        if (joined := union(parts, analyzer)) is not None
    }
    axes = node.iter_vars
    domains = solve_axis_domains(axes, provided, needed, analyzer, must_cover=to_consumers)
    if to_consumers:
        return _Needed(domains)
    places = solve_places(axes, domains, provided, needed, analyzer)
    fixed = where_fixed_places_are_needed(axes, provided, needed, analyzer)
    return _Needed(domains, places, fixed)


def _nest(
    block: StmtSRef,
    needed: _Needed,
    preserve_unit_loops: bool,
    analyzer: Analyzer,
) -> Stmt:
    """Return the loops over the needed instances, with the block inside."""
    loops: list[tuple[Var, Range]] = []
    bindings: list[PrimExpr] = []
    steps: list[tuple[Var, Range]] = []
    of_steps: list[PrimExpr] = []
    predicate = needed.predicate

    def value_in(values: IntervalSet, reduces: bool = False) -> PrimExpr:
        low: PrimExpr = values.min_value
        extent = analyzer.simplify(values.max_value - low + 1)
        if is_const_int(extent, 1) and not preserve_unit_loops:
            return low
        var = Var(f"ax{len(loops)}", extent.dtype)
        loops.append((var, Range(extent)))
        if reduces:
            steps.append(loops[-1])
        else:
            analyzer.bind(var, Range(extent))
        return add(low, var)

    follow: dict[Var, PrimExpr] = {}
    if needed.places is not None:
        index = {place: value_in(values) for place, values in needed.places.needed.items()}
        for var, value in needed.places.axes.items():
            follow[var] = analyzer.simplify(substitute(value, index))
    for axis, domain in zip(block.block.iter_vars, needed.domains, strict=True):
        reduces = axis.iter_type == IterVar.COMM_REDUCE
        value = follow[axis.var] if axis.var in follow else value_in(domain.dom, reduces)
        bindings.append(value.astype(axis.var.dtype))
        if domain.bound is not None:
            limits = value >= domain.bound.min_value, value < domain.bound.max_value + 1
            if reduces:
                of_steps.extend(limits)
                continue
            for limit in limits:
                predicate = logical_and(predicate, analyzer.simplify(limit))
    # Limits of data-parallel axes also apply to the init, which runs even without a step.
    for var, values in steps:
        analyzer.bind(var, values)
    for limit in of_steps:
        predicate = logical_and(predicate, analyzer.simplify(limit))
    return nest_of_loops(loops, BlockRealize(bindings, predicate, block.block))
