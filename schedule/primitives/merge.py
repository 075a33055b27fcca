"""Merging sibling loop nests into one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from schedule.analysis.bindings import substitute_loops
from schedule.analysis.call_effects import check_no_effect, effect_in
from schedule.analysis.dependency import dependencies
from schedule.analysis.execution_order import may_overtake
from schedule.analysis.surroundings import check_dependencies_show, check_order_is_free
from schedule.errors import ArgumentError, Problem, check
from schedule.instruction import LoopArg, NewLoop, primitive
from schedule.primitives.fuse import NOT_ONLY_CHILD
from schedule.primitives.loop_problems import check_plain, check_starts_at_zero
from schedule.sref import StmtSRef, lowest_common_ancestor, scope_root
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import For, ForKind, Stmt, sequence
from tensorir.rewriting.visit import substitute

NOT_SIBLINGS = Problem(
    "LoopsNotSiblingsError",
    "{0} and {1} are not in separate statements directly below their common ancestor",
    "give one loop of each nest, none around another and none below a condition of its own",
)
OTHER_SCOPE = Problem("NotInSameScopeError", "{0} and {1} are not in the same block scope")
OTHER_DEPTH = Problem(
    "DifferentDepthError",
    "{0} is at depth {first} below the common ancestor, {1} at depth {other}",
    "give loops of the same depth",
)
OTHER_EXTENT = Problem(
    "DifferentExtentError",
    "{0} has extent {first}, which is not provably the extent {other} of {1}",
    "split one of the loops so that the extents agree",
)
WRONG_ORDER = Problem(
    "DependencyOrderError",
    "in the merged loops {1}, which depends on {0}, would run before parts of it",
    "give the loops in the order in which the nests run; a block that reads beyond what the same "
    "iteration produces cannot be merged with its producer",
)


@primitive("Merge")
def merge(state: ScheduleState, *loops: LoopArg) -> NewLoop:
    """Run sibling loop nests of the same shape in lockstep, as one nest.

    Before: for i in range(n): S(i);  for j in range(n): R(j)
    After:  for i_m in range(n): { S(i_m);  R(i_m) }

    The nests reach from each loop up to (not including) their lowest common ancestor. The bodies
    follow one another in the order of the arguments, in the place of the last nest; the result is
    the innermost new loop. New loops are serial.

    TVM does not look at dependencies here. This primitive refuses to let a block run before
    something it depends on, unless the schedule was made with `enable_check=False`.

    Raises ValueError for fewer than two loops; ScheduleError: HasAnnotationOrThreadBindingError,
    LoopNotStartWithZeroError, NotOnlyChildError, NotInSameScopeError, LoopsNotSiblingsError,
    DifferentDepthError, DifferentExtentError, DependencyOrderError, OpaqueCallError.
    """
    # Preconditions.
    if len(loops) < 2:
        raise ArgumentError("merge", "loops", f"takes at least two loops, got {len(loops)}")
    first = loops[0]
    scope = scope_root(first)
    assert scope is not None
    for other in loops[1:]:
        check(scope_root(other) is scope, OTHER_SCOPE, first, other)
    common = lowest_common_ancestor(list(loops))
    nests = [_nest_below(common, loop) for loop in loops]
    siblings = _check_siblings(common, loops, nests)
    for nest in nests:
        for sref in nest:
            check_plain(sref)
            check_starts_at_zero(sref)
        for outer, inner in pairwise(nest):
            check(outer.loop.body is inner.loop, NOT_ONLY_CHILD, outer, inner)
    new_vars = [sref.loop.loop_var.with_name(f"{sref.loop.loop_var.name}_m") for sref in nests[0]]
    values = [_checked_values(nests[0], nest, new_vars) for nest in nests]
    if state.enable_check:
        _check_order(state, scope, nests)

    # Rewrite.
    body = sequence(
        [substitute_loops(loop.loop.body, value) for loop, value in zip(loops, values, strict=True)]
    )
    made: list[For] = []
    for var, old in zip(reversed(new_vars), reversed(nests[0]), strict=True):
        extent = substitute(old.loop.extent, values[0])
        body = For(var, const(0, var.dtype), extent, ForKind.SERIAL, body)
        made.append(body)
    tops = [nest[0].loop for nest in nests]
    parts: list[Stmt] = []
    for part in siblings.stmts:
        if part is tops[-1]:
            parts.append(body)
        elif part not in tops:
            parts.append(part)
    assert common.stmt is not None
    state.replace(common, common.stmt.with_(body=siblings.replace(*parts)))

    # Result.
    return state.get_sref(made[0])


def _nest_below(common: StmtSRef, loop: StmtSRef) -> list[StmtSRef]:
    nest: list[StmtSRef] = []
    current: StmtSRef | None = loop
    while current is not None and current is not common:
        nest.append(current)
        current = current.parent
    nest.reverse()
    return nest


def _check_siblings(
    common: StmtSRef, loops: Sequence[StmtSRef], nests: Sequence[Sequence[StmtSRef]]
) -> StmtCursor:
    """Return the place of the statements from the first nest to the last."""
    place = StmtCursor.below(common)
    if all(nests):
        place = place.around(*(nest[0] for nest in nests))
    seen: set[StmtSRef] = set()
    for loop, nest in zip(loops, nests, strict=True):
        separate = bool(nest) and nest[0].loop in place.parts and nest[0] not in seen
        check(separate, NOT_SIBLINGS, loops[0], loop)
        seen.add(nest[0])
        depths = {"first": len(nests[0]), "other": len(nest)}
        check(len(nest) == len(nests[0]), OTHER_DEPTH, loops[0], loop, **depths)
    return place


def _checked_values(
    first: Sequence[StmtSRef], nest: Sequence[StmtSRef], new_vars: Sequence[Var]
) -> dict[Var, PrimExpr]:
    """Return new values of a nest's variables; raise unless its extents are the first nest's."""
    analyzer = Analyzer()
    mine: dict[Var, PrimExpr] = {}
    others: dict[Var, PrimExpr] = {}
    for a, b, var in zip(first, nest, new_vars, strict=True):
        expected = substitute(a.loop.extent, others)
        extent = substitute(b.loop.extent, mine)
        same = analyzer.can_prove_equal(expected, extent)
        check(same, OTHER_EXTENT, a, b, first=a.loop.extent, other=b.loop.extent)
        others[a.loop.loop_var] = var
        mine[b.loop.loop_var] = var.astype(b.loop.loop_var.dtype)
    return mine


def _check_order(
    state: ScheduleState, scope: StmtSRef, nests: Sequence[Sequence[StmtSRef]]
) -> None:
    """Raise if a block would run before something that it depends on."""
    graph = dependencies(state, scope)
    groups = [state.child_blocks(nest[0]) for nest in nests]
    for nest, blocks in zip(nests, groups, strict=True):
        check_order_is_free(state, nest[0])
        for block in blocks:
            check_dependencies_show(state, graph, block)
    calling = [group for group in groups if any(effect_in(b.block) is not None for b in group)]
    for block in calling[1] if len(calling) > 1 else ():
        check_no_effect(block)
    group_of = {block: k for k, group in enumerate(groups) for block in group}
    merged = [block for group in groups for block in group]
    order: list[StmtSRef] = []
    last = groups[-1]
    for block in graph.children:
        if last and block is last[0]:
            order.extend(merged)
        elif block not in group_of:
            order.append(block)
    position = {block: k for k, block in enumerate(order)}
    for edge in graph.edges():
        in_order = position[edge.src] < position[edge.dst]
        source, target = group_of.get(edge.src), group_of.get(edge.dst)
        if in_order and source is not None and target is not None and source != target:
            in_order = not may_overtake(edge, nests[source], nests[target])
        check(in_order, WRONG_ORDER, edge.src, edge.dst)
