"""Classification of blocks (complete, reduction, output), and checks of stage pipelines.

Error messages cite the conditions by their numbers.
"""

from __future__ import annotations

from collections.abc import Collection

from schedule.analysis.accesses import Memory
from schedule.analysis.axis_independence import check_any_order, conflict_in
from schedule.analysis.bindings import is_affine_binding, is_one_to_one
from schedule.analysis.dependency import BlockScope, DepKind, dependencies
from schedule.analysis.region_cover import reads_covered
from schedule.analysis.surroundings import (
    check_dependencies_show,
    check_one_name,
    check_unguarded,
)
from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from schedule.stmt_cursor import top_nests
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import IterVar, Var
from tensorir.nodes.stmt import BlockRealize, BufferStore, Stmt
from tensorir.rewriting.visit import uses_var, walk

COMPLETE_CONDITIONS = (
    "A complete block has (1) data-parallel axes only, (2) is dominant: the only writer of what it "
    "writes in its scope, (3) reads none of the buffers that it writes"
)
REDUCTION_CONDITIONS = (
    "A reduction block has (1) an init, (2) an affine binding, (3) data-parallel and reduction "
    "axes only, (4) is dominant: the only writer of what it writes in its scope, (5) does not use "
    "reduction axes to index what it writes"
)
NOT_COMPLETE = Problem(
    "IncompleteBlockError",
    "{0} is not a complete block: it violates condition #{condition}. " + COMPLETE_CONDITIONS,
    "decompose_reduction, cache_write or reindex may give it this form: the first separates an "
    "init, the others give the block its own buffer",
)
NOT_REDUCTION = Problem(
    "NotReductionBlockError",
    "{0} is not a reduction block: it violates condition #{condition}. " + REDUCTION_CONDITIONS,
    "name the block that has the init, before decompose_reduction, and split loops so that each "
    "axis is an affine function of them",
)
NOT_COMPLETE_OR_REDUCTION = Problem(
    "NotCompleteOrReductionBlockError",
    "{0} is neither a complete block (it violates condition #{complete}) nor a reduction block "
    "(it violates condition #{reduction}). " + COMPLETE_CONDITIONS + ". " + REDUCTION_CONDITIONS,
    "decompose_reduction separates an init; a buffer with several writers, or a buffer that the "
    "block also reads, needs a copy, which cache_write or cache_inplace makes",
)
ONLY_LEAF = Problem(
    "OnlyLeafError",
    "cannot remove {0}, because it is the only leaf of {1}, which would be empty",
    "name another block; the scope would be empty without this block",
)
NOT_COMPACT = Problem(
    "NotCompactDataFlowError",
    "the subtree below {0} has no compact dataflow, because {1} is neither a local complete block "
    "(it violates condition #{complete}) nor a local reduction block there (it violates condition "
    "#{reduction}) nor an update in place of which each iteration has its own elements. "
    + COMPLETE_CONDITIONS
    + ". "
    + REDUCTION_CONDITIONS,
    "choose a loop that drives data-parallel axes of one block only, or call decompose_reduction "
    "first",
)
OUTPUT_BLOCK = Problem(
    "OutputBlockError",
    "{0} is an output block: it writes {buffer}, which its scope does not allocate",
    "only blocks that write an intermediate buffer can be moved or inlined; cache_write adds one",
)
NOT_PIPELINE = Problem(
    "NotStagePipelineError",
    'the scope {0} is not a stage pipeline around block "{name}". A stage pipeline has only blocks '
    "whose reads are covered by their producers, and no block that overwrites what an earlier one "
    "reads; {reason}",
    "make each block read only what blocks before it have written, and give a buffer that is "
    "overwritten a copy with cache_read or cache_write; a schedule made with enable_check=False "
    "does not check it",
)


MOVING_DOMAIN = Problem(
    "DependentLoopError",
    "the domain of axis {axis} of {0}, {dom}, depends on a loop around it",
    "give the axis and its loop the maximum number of iterations, and the block a T.where for "
    "the iterations it skips",
)
USES_LOOP = Problem(
    "OpaqueBlockError",
    "{0} cannot move, because it has no axes and uses the variable of {1} inside",
    "move the blocks inside, or give it axes",
)


# -------------------------------------------------------------------------------- classification


def is_dominant(block: StmtSRef, scope: BlockScope) -> bool:
    """Return True if the block is the only writer in the scope of each buffer that it writes."""
    return all(len(scope.buffer_writers.get(r.buffer, ())) == 1 for r in block.block.writes)


def complete_violation(block: StmtSRef, dominant: bool) -> int:
    """Return the number of the first violated condition of complete blocks, 0 if none."""
    node = block.block
    if any(axis.iter_type != IterVar.DATA_PAR for axis in node.iter_vars):
        return 1
    if not dominant:
        return 2
    written = {region.buffer.data for region in node.writes}
    return 3 if any(region.buffer.data in written for region in node.reads) else 0


def reduction_violation(state: ScheduleState, block: StmtSRef, dominant: bool) -> int:
    """Return the number of the first violated condition of reduction blocks, 0 if none."""
    node = block.block
    if node.init is None:
        return 1
    if not is_affine_binding(state, block):
        return 2
    known = (IterVar.DATA_PAR, IterVar.COMM_REDUCE)
    if any(axis.iter_type not in known for axis in node.iter_vars):
        return 3
    if not dominant:
        return 4
    reduced = {axis.var for axis in node.iter_vars if axis.iter_type == IterVar.COMM_REDUCE}
    written = {region.buffer for region in node.writes}
    return 5 if _stores_indexed_by(node.body, written, reduced) else 0


def _stores_indexed_by(body: Stmt, buffers: set[Buffer], axes: set[Var]) -> bool:
    return any(
        isinstance(node, BufferStore)
        and node.buffer in buffers
        and any(uses_var(index, lambda v: v in axes) for index in node.indices)
        for node in walk(body)
    )


def check_uses_no_loop(block: StmtSRef) -> None:
    """Raise if a block without axes uses a loop around it, as its content would leave that loop."""
    for sref in loops_above(block) if not block.block.iter_vars else ():
        check(not uses_var(block.block, sref.loop.loop_var), USES_LOOP, block, sref)


def check_fixed_domains(block: StmtSRef, axes: Collection[Var]) -> None:
    """Raise if the domain of one of some axes depends on a loop, which a copy would not be in."""
    loops = {sref.loop.loop_var for sref in loops_above(block)}
    for axis in block.block.iter_vars:
        if axis.var in axes and axis.dom is not None:
            moves = uses_var(axis.dom, loops.__contains__)
            check(not moves, MOVING_DOMAIN, block, axis=axis.var.name, dom=axis.dom)


def check_complete(state: ScheduleState, block: StmtSRef, scope: BlockScope) -> None:
    """Raise unless the block is complete in its scope."""
    violated = complete_violation(block, is_dominant(block, scope))
    check(not violated, NOT_COMPLETE, block, condition=violated)


def check_reduction(state: ScheduleState, block: StmtSRef, scope: BlockScope) -> None:
    """Raise unless the block is a reduction block in its scope with axes of the declared kinds."""
    violated = reduction_violation(state, block, is_dominant(block, scope))
    check(not violated, NOT_REDUCTION, block, condition=violated)
    if state.enable_check:
        check_any_order(block)


def check_complete_or_reduction(state: ScheduleState, block: StmtSRef, scope: BlockScope) -> None:
    """Raise unless the block is complete or a reduction block in its scope.

    Its axes must have the declared kinds: see `check_any_order`.
    """
    _check_either(state, block, is_dominant(block, scope), NOT_COMPLETE_OR_REDUCTION, block)
    if state.enable_check:
        check_any_order(block)


def check_compact_dataflow(state: ScheduleState, subtree: StmtSRef) -> None:
    """Raise unless the blocks right below a loop may run in any order of its iterations.

    Each must be locally complete, a local reduction or an update in place. A block is locally
    dominant if each buffer that it writes has at most one writer below the loop.
    """
    children = state.child_blocks(subtree)
    inner = [
        dependencies(state, child).buffer_writers
        for child in children
        if type(child.block.body) is not BufferStore
    ]
    crowded = {b.data for writers in inner for b, found in writers.items() if len(found) > 1}
    for child in children:
        dominant = not any(region.buffer.data in crowded for region in child.block.writes)
        if complete_violation(child, dominant) and not (
            dominant and _updates_in_place(state, child, subtree)
        ):
            _check_either(state, child, dominant, NOT_COMPACT, subtree, child)


def _updates_in_place(state: ScheduleState, block: StmtSRef, loop: StmtSRef) -> bool:
    """Say whether each iteration of a loop has its own elements of what a block reads and writes.

    That is so if instances that differ in data-parallel axes are independent, one such axis has
    another value in each iteration, and no other block below the loop uses the same memory.
    """
    node = block.block
    loops = [sref.loop for sref in loops_above(block)]
    if node.init is not None or not any(
        axis.iter_type == IterVar.DATA_PAR
        and uses_var(value, loop.loop.loop_var)
        and is_one_to_one(value, loops)
        for axis, value in zip(node.iter_vars, block.block_realize.iter_values, strict=True)
    ):
        return False
    memory = Memory(state.scope_root(block))
    written = {memory.of(region.buffer) for region in node.writes}
    others = [child.block for child in state.child_blocks(loop) if child is not block]
    shared = any(memory.of(r.buffer) in written for o in others for r in (*o.reads, *o.writes))
    return not shared and conflict_in(node) is None


def _check_either(
    state: ScheduleState, block: StmtSRef, dominant: bool, problem: Problem, *places: StmtSRef
) -> None:
    complete = complete_violation(block, dominant)
    if complete:
        reduction = reduction_violation(state, block, dominant)
        check(not reduction, problem, *places, complete=complete, reduction=reduction)


# ----------------------------------------------------------------------------------------- scopes


def check_not_output(state: ScheduleState, block: StmtSRef) -> None:
    """Raise if the block writes a buffer that its scope does not allocate."""
    buffer = output_buffer(state, block)
    if buffer is not None:
        fail(OUTPUT_BLOCK, block, buffer=buffer.name)


def check_not_only_leaf(graph: BlockScope, block: StmtSRef, scope: StmtSRef) -> None:
    """Raise if the block is the only one of its scope, which cannot do without it."""
    check(len(graph.children) > 1, ONLY_LEAF, block, scope)


def output_buffer(state: ScheduleState, block: StmtSRef) -> Buffer | None:
    """Return a buffer that makes the block an output block, None if it is not one."""
    allocated = set(state.scope_root(block).block.alloc_buffers)
    return next((r.buffer for r in block.block.writes if r.buffer not in allocated), None)


def require_scope(state: ScheduleState, block: StmtSRef) -> tuple[StmtSRef, BlockScope]:
    """Return the block whose scope `block` is in, and its dependency graph.

    Raise if the memory of a buffer that the block uses is also accessed through another buffer
    there (unless the state disables this check).
    """
    scope = state.scope_root(block)
    graph = dependencies(state, scope)
    if state.enable_check:
        check_one_name(graph, block)
    return scope, graph


def require_pipeline(
    state: ScheduleState,
    block: StmtSRef,
    *,
    known: Collection[Buffer] = (),
    stays: bool = False,
    read_after: bool = False,
) -> tuple[StmtSRef, BlockScope]:
    """Return the block whose scope `block` is in, and its dependency graph.

    Raises ScheduleError unless the block is a stage of a pipeline there and the graph shows all its
    dependencies. There must be no condition around the block, unless the block `stays` below it.
    With `read_after`, statements outside of blocks may read the written buffers after the block is
    complete. The state can disable these checks. `known` are buffers whose reads are assumed to be
    covered.
    """
    scope = state.scope_root(block)
    graph = dependencies(state, scope)
    if state.enable_check:
        if not stays:
            check_unguarded(block, scope)
        check_dependencies_show(state, graph, block, read_after=read_after)
        _check_stage_pipeline(state, scope, graph.ignoring(known) if known else graph, block)
    return scope, graph


def _check_stage_pipeline(
    state: ScheduleState, scope: StmtSRef, graph: BlockScope, block: StmtSRef
) -> None:
    """Raise unless a block, its producers and its consumers are stages of a pipeline.

    Dependencies between other blocks of the scope are not checked.
    """
    into, out_of = graph.edges_to(block), graph.out_of(block)
    for edge in (*into, *out_of):
        if edge.kind in (DepKind.WAR, DepKind.OPAQUE):
            reason = (
                f'here block "{edge.dst.block.name_hint}" overwrites {edge.buffer.name}, '
                f'which block "{edge.src.block.name_hint}" reads before'
            )
            fail(NOT_PIPELINE, scope, edge.dst, name=block.block.name_hint, reason=reason)
    written = {edge.buffer for edge in out_of}
    readers = dict.fromkeys(edge.dst for edge in out_of if edge.kind is DepKind.RAW)
    for reader, buffers in ((block, None), *((reader, written) for reader in readers)):
        if not reads_covered(state, reader, graph, buffers):
            reason = f'here block "{reader.block.name_hint}" reads more than its producers write'
            fail(NOT_PIPELINE, scope, reader, name=block.block.name_hint, reason=reason)


def is_spatial(block: StmtSRef) -> bool:
    """Return True if all axes of the block are data-parallel."""
    return all(axis.iter_type == IterVar.DATA_PAR for axis in block.block.iter_vars)


def blocks_in(stmt: Stmt) -> list[BlockRealize]:
    """Return the blocks in a statement, including nested blocks, except blocks in an init."""
    found: list[BlockRealize] = []
    for nest in top_nests(stmt):
        if isinstance(nest, BlockRealize):
            found += [nest, *blocks_in(nest.block.body)]
        else:
            found += blocks_in(nest.body)
    return found
