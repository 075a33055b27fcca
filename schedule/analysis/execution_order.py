"""The order of dependent blocks when loops around them are run together."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import loop_domain
from schedule.analysis.dependency import Dependency, DepKind
from schedule.analysis.regions import Box, bound_region, path_domain, relax_by_intervals
from schedule.sref import StmtSRef, loops_above
from tensorir.arith import Analyzer, IntervalSet
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.rewriting.visit import substitute


def may_overtake(
    edge: Dependency, source_loops: Sequence[StmtSRef], target_loops: Sequence[StmtSRef]
) -> bool:
    """Say whether running two nests in lockstep may break a dependency between their blocks.

    Today all of `source_loops` (outermost first) runs before `target_loops`. In lockstep, an
    iteration of the target comes before later iterations of the source: that is wrong if the two
    touch the same element. What cannot be proven harmless counts as wrong.
    """
    source = _boxes(edge, edge.src, source_loops[-1], writes=edge.kind is not DepKind.WAR)
    target = _boxes(edge, edge.dst, target_loops[-1], writes=edge.kind is not DepKind.RAW)
    if not source or not target:
        return True
    for level, loop in enumerate(source_loops):
        if is_const_int(loop.loop.extent, 1):
            continue
        analyzer = Analyzer()
        for var, values in loop_domain(loops_above(source_loops[0])).items():
            analyzer.bind(var, values)
        late, early = _iterations(source_loops, target_loops, level, analyzer)
        for a in source:
            for b in target:
                if not _disjoint(_at(a, late), _at(b, early), analyzer):
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


def _at(box: Box, values: dict[Var, PrimExpr]) -> Box:
    return tuple(
        IntervalSet(
            None if dim.min_value is None else substitute(dim.min_value, values),
            None if dim.max_value is None else substitute(dim.max_value, values),
        )
        for dim in box
    )


def _disjoint(a: Box, b: Box, analyzer: Analyzer) -> bool:
    return any(
        _before(x, y, analyzer) or _before(y, x, analyzer) for x, y in zip(a, b, strict=True)
    )


def _before(low: IntervalSet, high: IntervalSet, analyzer: Analyzer) -> bool:
    if low.max_value is None or high.min_value is None:
        return False
    return analyzer.can_prove(low.max_value < high.min_value)
