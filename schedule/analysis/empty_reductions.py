"""Reductions without a step: their init still runs.

`tensorir.semantics` defines the result. The loops of a reduction are the loops that move its
reduction axes and no other axis of the block. A primitive that moves another statement below such a
loop must prove that at least one step runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schedule.analysis.bindings import (
    analyzer_with_ranges,
    at_first_step,
    loop_range,
    without_variables,
)
from schedule.analysis.reduction_steps import Instances, left_out_first, loops_around, reductions_in
from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import conjuncts, is_const_int
from tensorir.nodes.stmt import BufferStore, For
from tensorir.rewriting.visit import substitute, uses_var

EMPTY = Problem(
    "EmptyReductionError",
    "a reduction below {0} may have no step, because {reason}; its init must still run, but here "
    "it would {lost}",
    "decompose the reduction first",
)


def own_loops(instances: Instances, loops: Sequence[For]) -> list[For]:
    """Return the loops that move the reduction axes of a block and none of its other axes."""
    spatial, reduce = instances.moved_by()
    return [lp for lp in loops if lp.loop_var in reduce and lp.loop_var not in spatial]


def lacks_steps(
    instances: Instances, loops: Sequence[For], own: Sequence[For] | None = None
) -> str | None:
    """Return the reason why a reduction may lack a step, None if at least one step surely runs.

    `own` are the loops of the reduction, by default the result of `own_loops`.
    """
    if own is None:
        own = own_loops(instances, loops)
    analyzer = analyzer_with_ranges({lp.loop_var: loop_range(lp) for lp in loops if lp not in own})
    for lp in own:
        if not analyzer.can_prove(lp.extent >= 1):
            return f"loop `{lp.loop_var.name}` may have no iteration"
    first: dict[Var, PrimExpr] = {lp.loop_var: lp.min for lp in own}
    for conjunct in conjuncts(instances.predicate):
        at_first = substitute(conjunct, first)
        if at_first is not conjunct and not analyzer.can_prove(at_first):
            return f"`{conjunct}` may exclude every step"
    return None


def check_copied(loop: StmtSRef) -> None:
    """Raise if copies in each iteration of a loop may miss the result of a reduction's init."""
    loops = [*loops_around(loop), loop.loop]
    for instances, inside in reductions_in(loop.loop.body):
        own = own_loops(instances, [*loops, *inside])
        if any(lp in loops for lp in own):
            reason = lacks_steps(instances, [*loops, *inside])
            check(reason is None, EMPTY, loop, reason=reason, lost="not be copied")


def check_fused(state: ScheduleState, chain: Sequence[StmtSRef]) -> None:
    """Raise if fusing loops would mix a loop of a reduction with other loops.

    The fused loop is then not a loop of the reduction. A loop of extent 1 matters only for the
    predicate.
    """
    fused = [sref.loop for sref in chain if not is_const_int(sref.loop.extent, 1)]
    moved = {sref.loop.loop_var for sref in chain}
    if not any(_may_move_reduction(child, moved) for child in state.child_blocks(chain[-1])):
        return
    for instances, inside in reductions_in(chain[-1].loop.body):
        loops = [*loops_around(chain[0]), *(sref.loop for sref in chain), *inside]
        own = own_loops(instances, loops)
        kept = [lp for lp in fused if lp in own]
        if _guards_init(instances.predicate, chain, own) or (kept and len(kept) < len(fused)):
            reason = lacks_steps(instances, loops)
            check(reason is None, EMPTY, chain[0], reason=reason, lost="not run")
            # Each iteration of the fused loop is an instance; the other loops run its steps.
            rest = [lp for lp in own if lp not in kept]
            reason = lacks_steps(instances, loops, rest)
            check(reason is None, EMPTY, chain[0], reason=reason, lost="run again")
            idle = [lp for lp in fused if lp not in own]
            spatial, _ = instances.moved_by()
            if not any(lp.loop_var in spatial for lp in idle):
                # The fused loop belongs to the reduction, so conditions on it do not guard the
                # init.
                reason = lacks_steps(instances, loops, [*own, *idle])
                check(
                    reason is None, EMPTY, chain[0], reason=reason, lost="run without an instance"
                )


def _guards_init(predicate: PrimExpr, chain: Sequence[StmtSRef], own: Sequence[For]) -> bool:
    """Return True if a predicate would guard the init without some loops of extent 1 of `chain`.

    A condition on a loop of the reduction, which `own` are, does not guard the init.
    """
    units = {sref.loop.loop_var for sref in chain if is_const_int(sref.loop.extent, 1)}
    ended = {lp.loop_var for lp in own} & units
    left = {lp.loop_var for lp in own} - units
    return any(
        uses_var(conjunct, ended.__contains__) and not uses_var(conjunct, left.__contains__)
        for conjunct in conjuncts(predicate)
    )


def _may_move_reduction(block: StmtSRef, moved: Collection[Var]) -> bool:
    """Return True if loops move reduction axes of a block, or the block has blocks in it."""
    node = block.block
    if type(node.body) is not BufferStore:
        return True
    return node.init is not None and any(
        axis.iter_type != IterVar.DATA_PAR and uses_var(value, moved.__contains__)
        for axis, value in zip(node.iter_vars, block.block_realize.iter_values, strict=True)
    )


def where_initialised(instances: Instances, around: Sequence[For]) -> PrimExpr | None:
    """Return the predicate of the instances for which the init of a reduction runs.

    The init runs with the first step, or alone without steps. `around` are all loops. The result is
    None if the predicate may skip the first step alone, and it is not proved that any step runs.
    """
    predicate = instances.predicate
    if is_const_int(predicate, 1):
        return predicate
    loops = own_loops(instances, around)
    domain = {lp.loop_var: loop_range(lp) for lp in around}
    in_step = analyzer_with_ranges(domain)
    analyzer = analyzer_with_ranges(
        {lp.loop_var: domain[lp.loop_var] for lp in around if lp not in loops}
    )
    if left_out_first(predicate, loops, in_step) is None:
        return without_variables(predicate, {lp.loop_var for lp in loops})
    last: dict[Var, PrimExpr] = {lp.loop_var: lp.min + lp.extent - 1 for lp in loops}
    has_step = all(analyzer.can_prove(lp.extent >= 1) for lp in loops) and all(
        at_last is conjunct or analyzer.can_prove(at_last)
        for conjunct in conjuncts(predicate)
        for at_last in (substitute(conjunct, last),)
    )
    return at_first_step(predicate, loops) if has_step else None
