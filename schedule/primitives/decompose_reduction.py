"""Separating a reduction from its initialisation."""

from __future__ import annotations

from schedule.analysis.bindings import at_first_step
from schedule.analysis.block_kind import NOT_REDUCTION, check_reduction
from schedule.analysis.dependency import dependencies
from schedule.analysis.empty_reductions import where_initialised
from schedule.analysis.loops import copied_nest
from schedule.analysis.reduction_steps import Steps, instances_of, loops_around
from schedule.analysis.regions import init_reads, repeated_init
from schedule.analysis.surroundings import check_dependencies_show, check_unguarded
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, LoopArg, NewBlock, primitive
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.nodes.expr import IterVar
from tensorir.nodes.stmt import Block, BlockRealize, sequence
from tensorir.rewriting.visit import collect_vars, substitute

NOT_AN_ANCESTOR = Problem(
    "LoopPositionError",
    "{0} is not an ancestor of {1}",
    "give one of the loops that get_loops returns for the block",
)
TOO_LOW = Problem(
    "LoopHeightError",
    "{0} must not be below a loop of a reduction axis, but {1}, to which reduction axis {axis} "
    "of {2} is bound, is above it",
    "give the outermost of the block's reduction loops, or one above it",
)

DRIVEN_FROM_OUTSIDE = Problem(
    "LoopHeightError",
    "reduction axis {axis} of {0} is bound to `{var}`, a loop around the block that {0} is in, so "
    "its init cannot come before the first step",
    "decompose the reduction before its loops are divided into pieces",
)

NOT_ONE_PASS = Problem(
    "LoopPositionError",
    "the init of {1} cannot move before {0}: below, the steps of the reduction do not each run "
    "once with the initialising step first, because {reason}",
    "give a loop further in",
)


LATE = Problem(
    "EmptyReductionError",
    "it is unknown whether the init of {0} runs: where its predicate `{predicate}` excludes only "
    "the first step, no init runs; where it excludes every step, the init runs",
    "write a predicate that holds in the first step if it holds in any step",
)

REPEATED = Problem(
    "LoopPositionError",
    "the init of {0} would run once for each step of reduction axis {axis}, which loop `{var}` "
    "drives together with a data-parallel axis, and the init changes values that it reads",
    "decompose the reduction before its loops are fused",
)


@primitive("DecomposeReduction")
def decompose_reduction(state: ScheduleState, block: BlockArg, loop: LoopArg) -> NewBlock:
    """Move a reduction's init into a new block right before `loop`; return the new block.

    Before: for i, k in T.grid(n, m): C[i] = 0 if k == 0; C[i] = C[i] + A[i, k]
    After:  for i in range(n): C[i] = 0; for k in range(m): C[i] = C[i] + A[i, k]   # loop k

    The init block `<name>_init` runs under copies of those loops, from `loop` down, that the
    data-parallel axes use. The block becomes `<name>_update` and its handle stays valid.

    Raises ScheduleError: LoopPositionError, NotReductionBlockError, LoopHeightError,
    EmptyReductionError, DependentAxisError, BareAccessError, GuardedBlockError.
    """
    # Preconditions.
    loops = loops_above(block)
    check(loop in loops, NOT_AN_ANCESTOR, loop, block)
    position = loops.index(loop)
    if state.enable_check:
        scope = state.scope_root(block)
        check_unguarded(block, scope)
        graph = dependencies(state, scope)
        check_dependencies_show(state, graph, block)
        check_reduction(state, block, graph)
        _check_height(block, loops, position)
        around = loops_around(block)
        reason = Steps(instances_of(block), around).problem(around, once=loop.loop)
        check(reason is None, NOT_ONE_PASS, loop, block, reason=reason)
    old = block.block
    init = old.init
    if init is None:
        fail(NOT_REDUCTION, block, condition=1)

    # Rewrite: the init block under copies of the loops that it needs.
    realize = block.block_realize
    spatial = [
        (axis, value)
        for axis, value in zip(old.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type == IterVar.DATA_PAR
    ]
    axes = {axis.var: axis.var.with_name(axis.var.name) for axis, _ in spatial}
    init_block = Block(
        [IterVar(axis.dom, axes[axis.var], axis.iter_type) for axis, _ in spatial],
        [substitute(region, axes) for region in init_reads(old)],
        [substitute(region, axes) for region in old.writes],
        f"{old.name_hint}_init",
        substitute(init, axes),
        annotations=old.annotations,
    )
    bindings = [value for _, value in spatial]
    used = {v for value in bindings for v in collect_vars(value)}
    below = [sref.loop for sref in loops[position:]]
    repeated = repeated_init(realize, {lp.loop_var for lp in below})
    if repeated is not None and state.enable_check:
        axis, var = repeated
        fail(REPEATED, block, axis=axis.var.name, var=var.name)
    initialised = where_initialised(instances_of(block), loops_around(block))
    if initialised is None:
        check(not state.enable_check, LATE, block, predicate=realize.predicate)
        initialised = realize.predicate
    predicate = at_first_step(initialised, [lp for lp in below if lp.loop_var not in used])
    kept = [lp.with_(annotations={}) for lp in below if lp.loop_var in used]
    nest, init_block = copied_nest(kept, BlockRealize(bindings, predicate, init_block), "_init")

    # Rewrite: the update block keeps everything else.
    updated = without_init(old).with_(name_hint=f"{old.name_hint}_update")
    state.replace(block, updated)
    state.replace(loop, sequence([nest, loop.loop]))

    # Result.
    return state.get_sref(init_block)


def _check_height(block: StmtSRef, loops: list[StmtSRef], position: int) -> None:
    """Raise if a loop above the chosen one drives a reduction axis."""
    realize = block.block_realize
    seen = [loop.loop_var for loop in loops_around(block)[: -len(loops)]]
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.iter_type != IterVar.COMM_REDUCE:
            continue
        used = collect_vars(value)
        outside = next((v for v in seen if v in used), None)
        if outside is not None:
            fail(DRIVEN_FROM_OUTSIDE, block, axis=axis.var.name, var=outside)
        for higher in loops[:position]:
            fits = higher.loop.loop_var not in used
            check(fits, TOO_LOW, loops[position], higher, block, axis=axis.var.name)


def without_init(old: Block) -> Block:
    """Return the block without its init; it now declares to read its accumulators."""
    read = {region.buffer for region in old.reads}
    accumulated = [region for region in old.writes if region.buffer not in read]
    return old.with_(init=None, reads=(*accumulated, *old.reads))
