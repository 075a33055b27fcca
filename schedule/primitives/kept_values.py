"""Values that one iteration may keep for the next, because that would compute the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schedule.analysis.bindings import axis_domain
from schedule.analysis.dependency import BlockScope, DepKind
from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef, loops_above
from schedule.staging.old_values import reads_old_values
from schedule.state import ScheduleState
from tensorir.arith import Analyzer, IterMapLevel, detect_iter_map
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import CmpOp, FloorMod, PrimExpr, Var
from tensorir.nodes.ops import TRUE, conjuncts
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import collect_vars, uses_var

STALE = Problem(
    "StaleValueError",
    "{0} cannot keep what an earlier iteration computed: in {1}, {reason}",
    "every axis that the loops in common move must index what is stored; a schedule made with "
    "enable_check=False does not check it",
)


def check_same_each_time(
    state: ScheduleState,
    graph: BlockScope,
    block: StmtSRef,
    place: StmtSRef,
    buffer: Buffer,
    var: Var,
) -> None:
    """Raise unless an element of a buffer holds the same whichever iteration computes it.

    `graph` has the dependencies of the scope of the block.
    The iterations are those of the loops from the loop of `var` in to `place`. They may only
    decide which elements are computed, also for the values that are read on the way.
    """
    if not state.enable_check:
        return
    loops = [*loops_above(place), place]
    outermost = next(k for k, sref in enumerate(loops) if sref.loop.loop_var is var)
    moving = {sref.loop.loop_var for sref in loops[outermost:]}
    pending, seen = [(block, buffer)], {(block, buffer)}
    while pending:
        current, stored = pending.pop()
        reason = _influence(current, stored, moving)
        if reason is not None:
            fail(STALE, block, current, reason=reason)
        for edge in graph.into(current):
            source = (edge.src, edge.buffer)
            inside = edge.kind is DepKind.RAW and loops[outermost] in loops_above(edge.src)
            if inside and source not in seen:
                seen.add(source)
                pending.append(source)
    _check_predicate(block, moving)


def _influence(block: StmtSRef, buffer: Buffer, moving: Collection[Var]) -> str | None:
    """Return how loops decide the value that a block stores to an element, None if they do not."""
    node = block.block
    if reads_old_values(node, buffer):
        return f"the value stored in {buffer.name} depends on the previous one"
    fixed = _axes_of_elements(node, buffer)
    for axis, value in zip(node.iter_vars, block.block_realize.iter_values, strict=True):
        if axis.var not in fixed and uses_var(value, moving.__contains__):
            decides = f"axis {axis.var.name} = `{value}` decides what"
            return f"{decides} is stored in {buffer.name}, but not where"
    return None


def _axes_of_elements(block: Block, buffer: Buffer) -> set[Var]:
    """Return the axes whose values are determined by the written element of a buffer."""
    indices = [d.min for r in block.writes if r.buffer is buffer for d in r.region]
    # A buffer that rolls already holds one of the elements that share a place.
    plain = {i.a if isinstance(i, FloorMod) else i for i in indices}
    domains = axis_domain(block.iter_vars)
    used = {var: domains[var] for i in indices for var in collect_vars(i) if var in domains}
    if detect_iter_map(indices, used, TRUE, IterMapLevel.BIJECTIVE).indices:
        return set(used)
    return {var for var in used if var in plain}


def _check_predicate(block: StmtSRef, moving: Collection[Var]) -> None:
    """Raise unless the block is left out for the same elements in each iteration."""
    realize = block.block_realize
    entangled = set(moving)
    for value in realize.iter_values:
        used = collect_vars(value)
        if any(var in moving for var in used):
            entangled.update(used)
    analyzer = Analyzer()
    for condition in conjuncts(realize.predicate):
        by_element = not uses_var(condition, entangled.__contains__) or _bounds_one_of(
            condition, realize.iter_values, analyzer
        )
        reason = f"the condition `{condition}` is not the same for an element in each iteration"
        check(by_element, STALE, block, block, reason=reason)


def _bounds_one_of(condition: PrimExpr, values: Sequence[PrimExpr], analyzer: Analyzer) -> bool:
    """Say whether a comparison is one of a multiple of an axis, and not of loops by themselves."""
    if not isinstance(condition, CmpOp) or not condition.a.dtype.is_int:
        return False
    gap = analyzer.linear(condition.a).plus(analyzer.linear(condition.b), -1)
    for value in values:
        terms = analyzer.linear(value).terms
        if gap.terms.keys() == terms.keys():
            ratios = {(gap.terms[term] / terms[term]) for term in terms}
            if len(ratios) == 1:
                return True
    return False
