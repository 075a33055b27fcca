"""Changing the order of nested loops, and of the axes of a block."""

from __future__ import annotations

from itertools import pairwise

from schedule.analysis.axis_independence import check_any_order, dependent_axes
from schedule.analysis.bindings import is_affine_binding, loop_domain
from schedule.analysis.reduction_steps import Steps, loops_around, reductions_in
from schedule.analysis.step_order import check_steps_commute, steps_commute
from schedule.analysis.surroundings import check_order_is_free
from schedule.decisions.knobs import checked_order
from schedule.errors import ArgumentError, Problem, check, fail
from schedule.instruction import (
    BlockArg,
    FactorsArg,
    IntsInput,
    LoopArg,
    LoopsArg,
    NewLoops,
    primitive,
)
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import IterMapLevel, detect_iter_map
from tensorir.nodes.expr import IntImm, IterVar, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize, For, Stmt
from tensorir.rewriting.visit import collect_vars, uses_var

REPEATED = Problem(
    "LoopMultiAppearanceError", "{0} appears in the input multiple times", "name each loop once"
)
NOT_A_CHAIN = Problem(
    "LoopsNotAChainError",
    "the loops are not in a chain, because {0} and {1} are not under the same scope",
    "give loops that are nested in one another, without a block in between",
)
BRANCHES = Problem(
    "LoopsNotAChainError",
    "the loops are not in a chain, because {0} has several statements below it",
    "move the other statements out of {0} first",
)
AXIS_KIND = Problem(
    "BlockPropertyError",
    "{0} has the block iter type other than data-parallel and reduce on axis {axis}",
    "name loops that do not drive this axis; scan and opaque axes keep their order",
)
NOT_AFFINE = Problem(
    "NotAffineBindingError",
    "{0} is required to have a partial affine binding under {var}",
    "reorder before the loops are fused, so that each axis is a sum of loop variables times "
    "constants",
)
DEPENDENT = Problem(
    "DependentLoopError",
    "the range of {0} is dependent on the loop variable {var}, which would then be inside it",
    "keep the loop {0} inside of the loop {var}",
)

DISORDER = Problem(
    "BlockPropertyError",
    "{order}, the steps of a reduction below {0} do not each run once with the initialising step "
    "first, because {reason}",
    "keep the order of the loops of the reduction, or decompose it first",
)
NOT_A_PERMUTATION = Problem(
    "InvalidReorderIndex",
    "{order} is not a valid permutation of the {count} axes of {0}",
    "name each position from 0 to the number of axes less 1 once",
)


@primitive("Reorder")
def reorder(state: ScheduleState, *ordered_loops: LoopArg) -> None:
    """Permute loops of a nest into the given order.

    Before: for i, j, k in T.grid(n, m, l): S(i, j, k)        # reorder(k, i)
    After:  for k, j, i in T.grid(l, m, n): S(i, j, k)

    The loops take each other's places; loops in between that are not named stay where they are.
    Kind and annotations move with a loop. One loop or none changes nothing.

    Raises ScheduleError: LoopMultiAppearanceError, LoopsNotAChainError, BlockPropertyError,
    NotAffineBindingError, DependentLoopError, DependentAxisError, OrderedReductionError,
    BareAccessError.
    """
    # Preconditions.
    if len(ordered_loops) <= 1:
        return
    wanted = set(ordered_loops)
    for k, sref in enumerate(ordered_loops):
        check(sref not in ordered_loops[:k], REPEATED, sref)
    chain = _chain(ordered_loops)
    for child in state.child_blocks(chain[-1]):
        _check_block(state, child, chain[0])
    moved = iter(ordered_loops)
    target = [next(moved) if sref in wanted else sref for sref in chain]
    for k, sref in enumerate(target):
        if isinstance(sref.loop.min, IntImm) and isinstance(sref.loop.extent, IntImm):
            continue
        for inner in target[k + 1 :]:
            var = inner.loop.loop_var
            depends = uses_var(sref.loop.min, var) or uses_var(sref.loop.extent, var)
            check(not depends, DEPENDENT, sref, var=var.name)
    if state.enable_check:
        _check_steps(chain, target)
        check_order_is_free(state, chain[-1])
        for child in state.child_blocks(chain[-1]):
            _check_axes(child, chain, target)

    # Rewrite: the same loops from the inside out.
    body: Stmt = chain[-1].loop.body
    for sref in reversed(target):
        body = sref.loop.with_body(body)

    # Result.
    state.replace(chain[0], body)


@primitive("ReorderBy")
def reorder_by(state: ScheduleState, loops: LoopsArg, positions: FactorsArg) -> NewLoops:
    """Permute loops of a nest into a sampled order, and return them in that order.

    Before: for i, j, k in T.grid(n, m, l): S(i, j, k)     # reorder_by([i, j, k], [2, 0, 1])
    After:  for k, i, j in T.grid(l, n, m): S(i, j, k)

    Raises ArgumentError unless each position occurs once; ScheduleError: LoopMultiAppearanceError,
    LoopsNotAChainError, BlockPropertyError, NotAffineBindingError, DependentLoopError,
    DependentAxisError, OrderedReductionError, BareAccessError.
    """
    try:
        order = checked_order(list(positions), len(loops))
    except ValueError as error:
        raise ArgumentError("reorder_by", "positions", str(error)) from None
    ordered = [loops[position] for position in order]
    reorder(state, *ordered)
    return ordered


def _check_axes(block: StmtSRef, before: list[StmtSRef], after: list[StmtSRef]) -> None:
    """Raise if instances that may depend on one another would run in another order.

    Instances that differ in an ordered axis, or in a reduction axis, keep their order as long as
    the loops that drive these axes keep theirs.
    """
    dependent = dependent_axes(block.block)
    if not dependent and steps_commute(block.block):
        return
    realize = block.block_realize
    driving: set[Var] = set()
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.var in dependent or axis.iter_type != IterVar.DATA_PAR:
            driving.update(collect_vars(value))
    old, new = (
        [s for s in order if s.loop.loop_var in driving and not is_const_int(s.loop.extent, 1)]
        for order in (before, after)
    )
    if old != new:
        check_any_order(block)
        check_steps_commute(block)


def _check_steps(before: list[StmtSRef], after: list[StmtSRef]) -> None:
    """Raise if loops of a reduction move past others, and an order is wrong for its steps."""
    bottom = before[-1]
    above = loops_around(before[0])
    old, new = ([sref.loop for sref in order] for order in (before, after))
    for instances, inside in reductions_in(bottom.loop.body):
        steps = Steps(instances, [*above, *old, *inside])
        for order, loops in (("in the new order", new), ("in the current order", old)):
            reason = steps.problem([*above, *loops, *inside])
            if reason is not None and any(
                lp.loop_var in steps.reduce and _outside(lp, old) != _outside(lp, new) for lp in old
            ):
                fail(DISORDER, bottom, order=order, reason=reason)


def _outside(loop: For, order: list[For]) -> set[For]:
    """Return the loops outside of `loop` in an order."""
    return set(order[: order.index(loop)])


def _chain(loops: tuple[StmtSRef, ...]) -> list[StmtSRef]:
    """Return the loops from the outermost to the innermost of the given loops."""
    above: list[StmtSRef] = []
    for sref in loops:
        if sref not in above:
            path = [*loops_above(sref), sref]
            above = max(above, path, key=len)
    bottom = above[-1]
    for sref in loops:
        if sref not in above:
            fail(NOT_A_CHAIN, sref, bottom)
    top = min(above.index(sref) for sref in loops)
    chain = above[top:]
    for outer, inner in pairwise(chain):
        check(outer.loop.body is inner.loop, BRANCHES, outer)
    return chain


def _check_block(state: ScheduleState, block: StmtSRef, top: StmtSRef) -> None:
    for axis in block.block.iter_vars:
        known = axis.iter_type in (IterVar.DATA_PAR, IterVar.COMM_REDUCE)
        check(known, AXIS_KIND, block, axis=axis.var.name)
    if not block.block.iter_vars or is_affine_binding(state, block):
        return
    loops = loops_above(block)
    realize = block.block_realize
    below = loop_domain(loops[loops.index(top) :])
    result = detect_iter_map(realize.iter_values, below, realize.predicate, IterMapLevel.SURJECTIVE)
    check(bool(result.indices), NOT_AFFINE, block, var=top.loop.loop_var.name)


@primitive("ReorderBlockIterVar")
def reorder_block_iter_var(state: ScheduleState, block: BlockArg, new_order: IntsInput) -> None:
    """Permute the axes of a block together with their bindings; loops stay as they are.

    Raises ScheduleError (InvalidReorderIndex) unless `new_order` is a permutation.
    """
    node, realize = block.block, block.block_realize
    count = len(node.iter_vars)
    valid = sorted(new_order) == list(range(count))
    check(valid, NOT_A_PERMUTATION, block, order=list(new_order), count=count)
    axes = [node.iter_vars[k] for k in new_order]
    values = [realize.iter_values[k] for k in new_order]
    new = node.with_(iter_vars=axes)
    state.replace(block, BlockRealize(values, realize.predicate, new), {node: new})
