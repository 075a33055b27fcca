"""The flow of data between the iterations of a loop, through memory that several blocks access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedule.analysis.accesses import Memory
from schedule.analysis.bindings import analyzer_with_ranges, loop_domain, loop_range
from schedule.analysis.dependency import BlockScope, dependencies
from schedule.analysis.region_cover import covers_reads
from schedule.analysis.regions import bound_region, path_domain, relax
from schedule.errors import Problem, fail
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer, IntervalSet, IterMapLevel, detect_iter_map
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import TRUE, is_const_int
from tensorir.rewriting.visit import substitute

DEPENDENT = Problem(
    "DependentIterationsError",
    "the order of the iterations of {0} matters: {1} uses elements of {buffer} that another block "
    "below the loop may write in another iteration",
    "split the loop into one loop for each block, or let each iteration write all that it reads",
)


@dataclass(frozen=True, eq=False, slots=True)
class _Use:
    block: StmtSRef
    region: BufferRegion
    writes: bool


def check_no_flow(state: ScheduleState, loop: StmtSRef) -> None:
    """Raise if blocks below a loop may pass data from one of its iterations to another.

    Memory that several blocks access, at least one of them writing, passes nothing if its elements
    differ between iterations, or if each iteration writes what it reads before it reads it. In the
    latter case, the memory has one writer or is not used outside of the loop.
    """
    children = state.child_blocks(loop)
    if len(children) < 2 or is_const_int(loop.loop.extent, 1):
        return
    scope = state.scope_root(loop)
    memory = Memory(scope)
    uses: dict[Var, list[_Use]] = {}
    for child in children:
        for regions, writes in ((child.block.reads, False), (child.block.writes, True)):
            for region in regions:
                key = memory.of(region.buffer)
                uses.setdefault(key, []).append(_Use(child, region, writes))
    for found in uses.values():
        writers = {use.block for use in found if use.writes}
        if not writers or len({use.block for use in found}) < 2 or _are_apart(found, loop):
            continue
        graph = dependencies(state, scope)
        for use in found:
            if use.writes:
                is_safe = len(writers) == 1 or is_private(use.region.buffer, children, graph, scope)
            else:
                is_safe = writers == {use.block} or covers_reads(
                    state, use.block, graph, [use.region.buffer], children
                )
            if not is_safe:
                fail(DEPENDENT, loop, use.block, buffer=use.region.buffer.name)


def is_private(
    buffer: Buffer, children: Sequence[StmtSRef], graph: BlockScope, scope: StmtSRef
) -> bool:
    """Return True if a scope allocates a buffer that only some of its blocks use."""
    tables = graph.buffer_readers, graph.buffer_writers
    users = [user for table in tables for user in table.get(buffer, ())]
    return buffer in scope.block.alloc_buffers and all(user in children for user in users)


def _are_apart(uses: Sequence[_Use], loop: StmtSRef) -> bool:
    """Return True if the elements of some uses surely differ between iterations of a loop."""
    if len({len(use.region.region) for use in uses}) > 1:
        return False
    outer = [*loops_above(loop), loop]
    analyzer = analyzer_with_ranges(loop_domain(outer))
    boxes = []
    for use in uses:
        domain = path_domain(use.block, loop, use.region.buffer.scope())
        bound = bound_region(use.region, use.block.block_realize)
        box = relax(bound, domain, TRUE, analyzer, upper=True)
        if box is None:
            return False
        boxes.append(box)
    same: list[PrimExpr] = []
    for dims in zip(*boxes, strict=True):
        ends = _common_ends(dims, analyzer)
        if ends is None:
            continue
        low, high = ends
        if low is high or analyzer.can_prove_equal(low, high):
            same.append(low)
        if _moves_on(low, high, loop, analyzer):
            return True
    var = loop.loop.loop_var
    found = detect_iter_map(same, {var: loop_range(loop.loop)}, TRUE, IterMapLevel.BIJECTIVE)
    return bool(same) and bool(found.indices)


def _common_ends(
    dims: Sequence[IntervalSet], analyzer: Analyzer
) -> tuple[PrimExpr, PrimExpr] | None:
    """Return the first and the last index of several ranges together, None if they are unknown."""
    low, high = dims[0].min_value, dims[0].max_value
    for dim in dims[1:]:
        if low is None or high is None or dim.min_value is None or dim.max_value is None:
            return None
        if analyzer.can_prove(dim.min_value < low):
            low = dim.min_value
        elif not analyzer.can_prove(dim.min_value >= low):
            return None
        if analyzer.can_prove(dim.max_value > high):
            high = dim.max_value
        elif not analyzer.can_prove(dim.max_value <= high):
            return None
    return None if low is None or high is None else (low, high)


def _moves_on(low: PrimExpr, high: PrimExpr, loop: StmtSRef, analyzer: Analyzer) -> bool:
    """Return True if a range lies behind that of the iteration before, or in front of it."""
    step = {loop.loop.loop_var: loop.loop.loop_var + 1}
    later_low, later_high = substitute(low, step), substitute(high, step)
    return analyzer.can_prove(later_low > high) or analyzer.can_prove(later_high < low)
