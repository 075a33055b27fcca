"""Moving a block below a loop of the blocks that depend on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedule.analysis.bindings import loop_domain
from schedule.analysis.block_kind import (
    check_complete_or_reduction,
    check_not_output,
    is_spatial,
    require_pipeline,
)
from schedule.analysis.dependency import BlockScope, DepKind, dependencies
from schedule.analysis.domain_solving import (
    AxisDomain,
    Box,
    is_always_solvable,
    solve_axis_domains,
)
from schedule.analysis.iteration_cover import left_out, stays_within
from schedule.analysis.known_cover import reads_covered
from schedule.analysis.reduction_steps import Steps, loops_around, reductions_in
from schedule.analysis.regions import bound_region, path_domain, relax_by_intervals, union
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, LoopArg, primitive
from schedule.primitives.inline import compute_inline
from schedule.primitives.loop_kind import driven_axes
from schedule.primitives.reverse_inline import reverse_compute_inline
from schedule.sref import (
    INLINE_MARK,
    ROOT_MARK,
    StmtSRef,
    is_ancestor,
    lies_in,
    loops_above,
    scope_root,
)
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer, BufferRegion, Range
from tensorir.errors import IRValueError
from tensorir.expr import IterVar, PrimExpr, Var
from tensorir.ops import TRUE, add, const, is_const_int, logical_and
from tensorir.stmt import Block, BlockRealize, For, ForKind, SeqStmt, Stmt, sequence
from tensorir.visit import walk

NOT_SAME_SCOPE = Problem(
    "NotInSameScopeError",
    "{0} and {1} are not in the same block scope",
    "give a loop between the block's scope root and another block of that scope",
)
LOOP_ABOVE = Problem(
    "NotInSameScopeError",
    "{1} is an ancestor of {0}, which is below it already",
    "give a loop around another block",
)
ONLY_LEAF = Problem(
    "OnlyLeafError",
    "cannot remove {0}, because it is the only leaf of {1}, which would become empty",
)
NOT_VISITED = Problem(
    "NotAllRequiredBlocksAreVisitedError",
    "the primitive requires all the {kind}(s) of {0} to be under {1}, but these are not: {names}",
    "choose a loop around all of them",
)
NO_PLACE = Problem(
    "InsertionPointNotFoundError",
    "there is no insertion point for {0} under {1}, because its last producer there comes after "
    "its first consumer",
)
WRONG_INDEX = Problem(
    "InvalidInsertionIndexError",
    "the insertion index {index} is not in the valid range [{first}, {last}] below {1}",
    "-1 is the latest place, -2 the earliest",
)
WRONG_ORDER = Problem(
    "DependencyOrderError",
    "{0} cannot move under {1}, because {2}, which depends on it or which it depends on, would end "
    "up on the wrong side of it",
    "choose a loop that lies between the block's producers and consumers",
)
READS_AHEAD = Problem(
    "NotRegionCoverError",
    "{0} cannot move under {1}, because there it would read more than its producers have written "
    "by then",
    "choose a loop further out, one iteration of which produces all that the block reads",
)
RUNS_FURTHER = Problem(
    "NotRegionCoverError",
    "{0} cannot move under {1}, because it runs further than {2} stores, and would not from there",
    "leave it where it is, or move the producer with compute_at",
)
CONCURRENT = Problem(
    "WrongBlockIterTypeError",
    "{0} cannot move under {1}: that loop would drive its axis {axis}, which is not data-parallel, "
    "and its iterations run at the same time",
    "move the block first and make another loop parallel, or choose a loop further out",
)
REPEATED = Problem(
    "RepeatedReductionError",
    "{0} cannot move under {1}: {where}, the steps of its reduction do not run once, beginning "
    "with the one that initialises, because {reason}",
    "choose a loop further out",
)
LEFT_OUT = Problem(
    "LeftOutInstancesError",
    "{0} cannot move under {1}, because the loops around it may leave out values of its axis "
    "{axis}, and would not from there",
    "give the axis a domain of the values that it takes",
)
USES_LOOP = Problem(
    "OpaqueBlockError",
    "{0} cannot move, because it has no axes and uses the variable of {1} inside",
    "move the blocks inside, or give it axes with blockize",
)
UNSOLVABLE = Problem(
    "DomainNotSolvableError", "the instances of {0} that {1} needs cannot be found: {reason}"
)


@primitive("ComputeAt")
def compute_at(
    state: ScheduleState,
    block: BlockArg,
    loop: LoopArg,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Move a producer below a loop of its consumers, computing what they need there only.

    Before: for i: B[i] = f(A[i]);  for i: C[i] = g(B[i])        # compute_at(B, i of C)
    After:  for i: { B[i] = f(A[i]);  C[i] = g(B[i]) }

    New loops `ax0`, `ax1`, ... run over the instances that are needed; those of extent 1 are left
    out unless `preserve_unit_loops`. `index` is the place among the statements below the loop: -1
    the latest, -2 the earliest. A compute location that `sample_compute_location` gave may also
    mean to inline the block, or to leave it.

    Raises ScheduleError: RootBlockError, NotStagePipelineError, NotCompleteOrReductionBlockError,
    NotInSameScopeError, OutputBlockError, OnlyLeafError, InsertionPointNotFoundError,
    InvalidInsertionIndexError, NotAllRequiredBlocksAreVisitedError, DependencyOrderError,
    DomainNotSolvableError, RepeatedReductionError, LeftOutInstancesError, OpaqueBlockError.
    """
    if loop is ROOT_MARK:
        return
    if loop is INLINE_MARK:
        compute_inline(state, block)
        return
    graph = require_movable(state, block)
    move = plan_move(state, graph, block, loop, index, preserve_unit_loops, to_consumers=True)
    move.apply(state)


@primitive("ReverseComputeAt")
def reverse_compute_at(
    state: ScheduleState,
    block: BlockArg,
    loop: LoopArg,
    preserve_unit_loops: bool = False,
    index: int = -1,
) -> None:
    """Move a consumer below a loop of its producers, using what they give as soon as it is there.

    Before: for i: B[i] = f(A[i]);  for i: C[i] = g(B[i])        # reverse_compute_at(C, i of B)
    After:  for i: { B[i] = f(A[i]);  C[i] = g(B[i]) }

    The arguments are those of `compute_at`.

    Raises ScheduleError: RootBlockError, NotStagePipelineError, NotCompleteOrReductionBlockError,
    NotInSameScopeError, OnlyLeafError, InsertionPointNotFoundError, InvalidInsertionIndexError,
    NotAllRequiredBlocksAreVisitedError, DependencyOrderError, NotRegionCoverError,
    DomainNotSolvableError, WrongBlockIterTypeError, RepeatedReductionError,
    LeftOutInstancesError, OpaqueBlockError.
    """
    if loop is ROOT_MARK:
        return
    if loop is INLINE_MARK:
        reverse_compute_inline(state, block)
        return
    graph = require_movable(state, block)
    move = plan_move(state, graph, block, loop, index, preserve_unit_loops, to_consumers=False)
    before = block.block, loop.loop
    move.apply(state)
    covered = reads_covered(state, block, dependencies(state, state.scope_root(block)))
    # The move is taken back if this fails, so the error marks what the program has again then.
    check(covered, READS_AHEAD, *before)


@dataclass(slots=True)
class Move:
    """A block, the loop it moves below, the place there and the nest it moves in."""

    block: StmtSRef
    loop: StmtSRef
    position: int
    nest: Stmt

    def apply(self, state: ScheduleState) -> None:
        """Move the block; its handle stays valid."""
        node, sref = self.block.block, self.block
        before = _children(self.loop.loop)
        holder = next((k for k, s in enumerate(before) if lies_in(s, sref)), None)
        state.replace(sref, None)
        parts = list(_children(self.loop.loop))
        position = self.position
        if holder is not None and len(parts) < len(before) and holder < position:
            position -= 1
        parts.insert(position, self.nest)
        moved = self.loop.loop.with_(body=sequence(parts))
        state.replace(self.loop, moved, revive={node: sref})


def require_movable(state: ScheduleState, block: StmtSRef) -> BlockScope:
    """Check what moving a block needs wherever it moves; return the dependencies of its scope."""
    _, graph = require_pipeline(state, block)
    check_complete_or_reduction(state, block, graph)
    if not block.block.iter_vars:
        # What is inside may use the loops around it directly, and would leave them.
        for sref in loops_above(block):
            var = sref.loop.loop_var
            bound = any(node is var for node in walk(block.block))
            check(not bound, USES_LOOP, block, sref)
    return graph


def plan_move(
    state: ScheduleState,
    graph: BlockScope,
    block: StmtSRef,
    loop: StmtSRef,
    index: int,
    preserve_unit_loops: bool,
    *,
    to_consumers: bool,
) -> Move:
    """Check that a block may move below a loop, and work out how; nothing is changed.

    `graph` is what `require_movable` gave for the block.
    """
    position, required = check_place(state, graph, block, loop, index, to_consumers=to_consumers)
    analyzer = Analyzer()
    for var, values in loop_domain([*loops_above(loop), loop]).items():
        analyzer.bind(var, values)
    try:
        domains = _axis_domains(block, loop, required, analyzer, to_consumers)
    except IRValueError as error:
        fail(UNSOLVABLE, block, loop, reason=error)
    nest = _nest(block, domains, preserve_unit_loops, analyzer)
    if state.enable_check:
        _check_concurrent(block, loop, nest)
        _check_steps(block, loop, nest)
        _check_all_run(block, loop, to_consumers=to_consumers)
    return Move(block, loop, position, nest)


def check_place(
    state: ScheduleState,
    graph: BlockScope,
    block: StmtSRef,
    loop: StmtSRef,
    index: int,
    *,
    to_consumers: bool,
) -> tuple[int, list[StmtSRef]]:
    """Check that there is a place for a block below a loop.

    Returns the position among the statements there, and the blocks whose needs it must meet. Where
    `needs_plan` says no, a block may move wherever it has a place.
    """
    scope = state.scope_root(block)
    check(scope_root(loop) is scope, NOT_SAME_SCOPE, block, loop)
    check(not is_ancestor(loop, block), LOOP_ABOVE, block, loop)
    if to_consumers:
        check_not_output(state, block)
    check(len(graph.children) > 1, ONLY_LEAF, block, scope)
    producers = _linked(graph, block, forward=False)
    consumers = _linked(graph, block, forward=True)
    position = _position(block, loop, producers, consumers, index)
    required = consumers if to_consumers else producers
    outside = [b for b in required if not is_ancestor(loop, b)]
    if outside:
        kind = "consumer" if to_consumers else "producer"
        names = ", ".join(b.block.name_hint for b in outside)
        fail(NOT_VISITED, block, loop, kind=kind, names=names)
    _check_order(graph, block, loop)
    if not to_consumers:
        _check_followed(block, loop, producers)
    return position, required


def needs_plan(block: StmtSRef) -> bool:
    """Say whether only `plan_move` can tell if a block may move to a place for it."""
    reduces = next(reductions_in(block.block_realize), None) is not None
    return reduces or not (is_spatial(block) and is_always_solvable(block.block.writes))


def _check_followed(block: StmtSRef, loop: StmtSRef, producers: list[StmtSRef]) -> None:
    """Raise if the block runs further than its producers: it would not from their loops."""
    node = block.block
    for producer in producers:
        written = {r.buffer: r for r in producer.block.writes}
        for read in node.reads:
            region = written.get(read.buffer)
            if region is None:
                continue
            within = stays_within(
                read.region, node.iter_vars, region.region, producer.block.iter_vars
            )
            check(within, RUNS_FURTHER, block, loop, producer)


def _check_concurrent(block: StmtSRef, loop: StmtSRef, nest: Stmt) -> None:
    """Raise if iterations that run at the same time would add to the same elements."""
    for above in (*loops_above(loop), loop):
        if above.loop.kind not in (ForKind.PARALLEL, ForKind.VECTORIZED):
            continue
        for _, axis in driven_axes(nest, above.loop.loop_var):
            independent = axis.iter_type == IterVar.DATA_PAR
            check(independent, CONCURRENT, block, above, axis=axis.var.name)


def _check_steps(block: StmtSRef, loop: StmtSRef, nest: Stmt) -> None:
    """Raise unless loops run the steps of the reductions in a block in passes, here and there."""
    below = [*loops_around(loop), loop.loop]
    places = (("there", nest, below), ("here", block.block_realize, loops_around(block)))
    for where, stmt, around in places:
        for instances, inside in reductions_in(stmt):
            loops = [*around, *inside]
            reason = Steps(instances, loops).problem(loops)
            check(reason is None, REPEATED, block, loop, where=where, reason=reason)


def _check_all_run(block: StmtSRef, loop: StmtSRef, *, to_consumers: bool) -> None:
    """Raise if a predicate leaves out instances, which would run from the new place.

    Those of which nobody needs the result are left out there, too, but not those of a reduction.
    """
    axes = block.block.iter_vars
    if to_consumers:
        axes = tuple(axis for axis in axes if axis.iter_type != IterVar.DATA_PAR)
    axis = left_out(block, axes) if axes else None
    if axis is not None:
        fail(LEFT_OUT, block, loop, axis=axis.var.name)


def _check_order(graph: BlockScope, block: StmtSRef, loop: StmtSRef) -> None:
    """Raise if the block would pass a block that it depends on, or that depends on it."""
    order = {child: k for k, child in enumerate(graph.children)}
    below = [order[c] for c in graph.children if c is not block and is_ancestor(loop, c)]
    first, last = min(below), max(below)
    for edge in graph.out_of(block):
        misplaced = not is_ancestor(loop, edge.dst) and order[edge.dst] < last
        check(not misplaced, WRONG_ORDER, block, loop, edge.dst)
    for edge in graph.into(block):
        misplaced = not is_ancestor(loop, edge.src) and order[edge.src] > first
        check(not misplaced, WRONG_ORDER, block, loop, edge.src)


def _linked(graph: BlockScope, block: StmtSRef, *, forward: bool) -> list[StmtSRef]:
    edges = graph.out_of(block) if forward else graph.into(block)
    kinds = (DepKind.RAW, DepKind.WAW)
    ends = [d.dst if forward else d.src for d in edges if d.kind in kinds]
    return list(dict.fromkeys(ends))


def _children(loop: For) -> Sequence[Stmt]:
    return loop.body.seq if isinstance(loop.body, SeqStmt) else (loop.body,)


def _position(
    block: StmtSRef,
    loop: StmtSRef,
    producers: list[StmtSRef],
    consumers: list[StmtSRef],
    index: int,
) -> int:
    """Return where among the statements below the loop the block goes."""
    parts = _children(loop.loop)
    last_producer, first_consumer = -1, len(parts)
    for k, part in enumerate(parts):
        if any(lies_in(part, p) for p in producers):
            last_producer = k
        if first_consumer == len(parts) and any(lies_in(part, c) for c in consumers):
            first_consumer = k
    check(last_producer < first_consumer, NO_PLACE, block, loop)
    if index == -1:
        return first_consumer
    if index == -2:
        return last_producer + 1
    valid = last_producer < index <= first_consumer
    check(
        valid,
        WRONG_INDEX,
        block,
        loop,
        index=index,
        first=last_producer + 1,
        last=first_consumer,
    )
    return index


def _axis_domains(
    block: StmtSRef,
    loop: StmtSRef,
    required: list[StmtSRef],
    analyzer: Analyzer,
    to_consumers: bool,
) -> list[AxisDomain]:
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
                boxes.setdefault(region.buffer, []).append(_simplified(box, analyzer))
    needed: Mapping[Buffer, Box] = {
        buffer: joined
        for buffer, parts in boxes.items()
        if (joined := union(parts, analyzer)) is not None
    }
    return solve_axis_domains(node.iter_vars, provided, needed, analyzer, must_cover=to_consumers)


def _simplified(box: Box, analyzer: Analyzer) -> Box:
    return tuple(
        type(d)(
            None if d.min_value is None else analyzer.simplify(d.min_value),
            None if d.max_value is None else analyzer.simplify(d.max_value),
        )
        for d in box
    )


def _nest(
    block: StmtSRef, domains: list[AxisDomain], preserve_unit_loops: bool, analyzer: Analyzer
) -> Stmt:
    """Return the loops over the needed instances, with the block inside."""
    node: Block = block.block
    loops: list[tuple[Var, PrimExpr]] = []
    bindings: list[PrimExpr] = []
    predicate: PrimExpr = TRUE
    for axis, domain in zip(node.iter_vars, domains, strict=True):
        low = domain.dom.min_value
        extent = analyzer.simplify(domain.dom.max_value - low + 1)
        value = low
        if preserve_unit_loops or not is_const_int(extent, 1):
            var = Var(f"ax{len(loops)}", extent.dtype)
            loops.append((var, extent))
            analyzer.bind(var, Range(extent))
            value = add(low, var)
        bindings.append(value.astype(axis.var.dtype))
        if domain.bound is not None:
            for limit in (
                value >= domain.bound.min_value,
                value < domain.bound.max_value + 1,
            ):
                predicate = logical_and(predicate, analyzer.simplify(limit))
    nest: Stmt = BlockRealize(bindings, predicate, node)
    for var, extent in reversed(loops):
        nest = For(var, const(0, var.dtype), extent, ForKind.SERIAL, nest)
    return nest
