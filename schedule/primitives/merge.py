"""Merging sibling loop nests into one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from schedule.analysis.accesses import check_no_effect, effect_in
from schedule.analysis.bindings import analyzer_with_ranges, loop_domain, substitute_loops
from schedule.analysis.dependency import Dependency, DepKind, dependencies
from schedule.analysis.loops import check_plain, check_starts_at_zero
from schedule.analysis.regions import Box, bound_region, path_domain, relax_by_intervals
from schedule.analysis.surroundings import check_dependencies_show, check_order_is_free
from schedule.errors import ArgumentError, Problem, check
from schedule.instruction import LoopArg, NewLoop, primitive
from schedule.primitives.fuse import NOT_ONLY_CHILD
from schedule.sref import StmtSRef, loops_above, lowest_common_ancestor, path_up, scope_root
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer, IntervalSet
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import const, is_const_int
from tensorir.nodes.stmt import For, ForKind, Stmt, sequence
from tensorir.rewriting.visit import substitute

NOT_SIBLINGS = Problem(
    "LoopsNotSiblingsError",
    "{0} and {1} are not in separate statements directly below their common ancestor",
    "give one loop of each nest; no loop may enclose another or be below its own condition",
)
OTHER_SCOPE = Problem(
    "NotInSameScopeError",
    "{0} and {1} are not in the same block scope",
    "give loops of one block; get_loops of its child blocks returns them",
)
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
    "in the merged loops {1}, which depends on {0}, would run before {0} is complete",
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
    common = lowest_common_ancestor(loops)
    nests = [list(takewhile(lambda s: s is not common, path_up(lp)))[::-1] for lp in loops]
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
            in_order = not _may_break_dependency(edge, nests[source], nests[target])
        check(in_order, WRONG_ORDER, edge.src, edge.dst)


def _may_break_dependency(
    edge: Dependency, source_loops: Sequence[StmtSRef], target_loops: Sequence[StmtSRef]
) -> bool:
    """Return whether running two nests in lockstep may break a dependency between their blocks.

    Before the merge, all of `source_loops` (outermost first) runs before `target_loops`. In
    lockstep, an iteration of the target runs before later iterations of the source: that is wrong
    if the two access the same element. The result is True unless the order is proved harmless.
    """
    source = _boxes(edge, edge.src, source_loops[-1], writes=edge.kind is not DepKind.WAR)
    target = _boxes(edge, edge.dst, target_loops[-1], writes=edge.kind is not DepKind.RAW)
    if not source or not target:
        return True
    for level, loop in enumerate(source_loops):
        if is_const_int(loop.loop.extent, 1):
            continue
        analyzer = analyzer_with_ranges(loop_domain(loops_above(source_loops[0])))
        late, early = _iterations(source_loops, target_loops, level, analyzer)
        for a in source:
            for b in target:
                if not _disjoint(_box_at(a, late), _box_at(b, early), analyzer):
                    return True
    return False


def _boxes(edge: Dependency, block: StmtSRef, loop: StmtSRef, *, writes: bool) -> list[Box]:
    """Return the boxes that an iteration of `loop` touches through a block, in terms of loops."""
    node, realize = block.block, block.block_realize
    domain = path_domain(block, loop, edge.buffer.scope())
    analyzer = Analyzer()
    return [
        relax_by_intervals(bound_region(region, realize), domain, analyzer)
        for region in (node.writes if writes else node.reads)
        if region.buffer is edge.buffer
    ]


def _iterations(
    source_loops: Sequence[StmtSRef],
    target_loops: Sequence[StmtSRef],
    level: int,
    analyzer: Analyzer,
) -> tuple[dict[Var, PrimExpr], dict[Var, PrimExpr]]:
    """Return an iteration of the source and an earlier one of the target.

    They agree above `level` and are unrelated below it.
    """
    late: dict[Var, PrimExpr] = {}
    early: dict[Var, PrimExpr] = {}
    for depth, (a, b) in enumerate(zip(source_loops, target_loops, strict=True)):
        var = b.loop.loop_var
        extent = substitute(b.loop.extent, early)
        step = Var(var.name, var.dtype)
        analyzer.bind(step, Range(extent))
        early[var] = step
        if depth < level:
            value: PrimExpr = step
        elif depth == level:
            gap = Var("gap", var.dtype)
            analyzer.bind(gap, Range(1, extent))
            value = step + gap
        else:
            value = Var(a.loop.loop_var.name, var.dtype)
            analyzer.bind(value, Range(substitute(a.loop.extent, late).astype(var.dtype)))
        late[a.loop.loop_var] = value.astype(a.loop.loop_var.dtype)
    return late, early


def _box_at(box: Box, values: dict[Var, PrimExpr]) -> Box:
    return tuple(
        IntervalSet(
            None if dim.min_value is None else substitute(dim.min_value, values),
            None if dim.max_value is None else substitute(dim.max_value, values),
        )
        for dim in box
    )


def _disjoint(a: Box, b: Box, analyzer: Analyzer) -> bool:
    return any(
        _is_before(x, y, analyzer) or _is_before(y, x, analyzer) for x, y in zip(a, b, strict=True)
    )


def _is_before(low: IntervalSet, high: IntervalSet, analyzer: Analyzer) -> bool:
    if low.max_value is None or high.min_value is None:
        return False
    return analyzer.can_prove(low.max_value < high.min_value)
