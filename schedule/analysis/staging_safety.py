"""Checks that a block may work on a copy of a buffer, filled before or written back after.

A copy touches whole boxes without the conditions under which the block does, and starts out empty.
Each question here is about one way in which that could show.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from schedule.analysis.accesses import is_opaque
from schedule.analysis.bindings import axis_domain, axis_values
from schedule.analysis.regions import Box, box_of, path_domain, reads_memory, relax, union
from schedule.analysis.sure_writes import holds, surely_written
from schedule.errors import Problem, check
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer, IntervalSet
from tensorir.comparison.equal import expr_deep_equal
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import (
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tensorir.rewriting.visit import collect_vars, substitute, walk

UNSAFE = Problem(
    "UnsafeStageError",
    "{0} cannot use a copy of {buffer}: {reason}",
    "a schedule made with enable_check=False does not check it",
)

OUTSIDE = Problem(
    "UnsafeStageError",
    "{0} cannot use a copy of {buffer}: the copy would touch {extent} elements from {first} on in "
    "a dimension of {size}",
    "a schedule made with enable_check=False does not check it",
)


def check_inside(
    state: ScheduleState,
    block: StmtSRef,
    buffer: Buffer,
    region: Sequence[Range],
    analyzer: Analyzer,
) -> None:
    """Raise unless a region, which will be copied without any condition, lies in the buffer."""
    if not state.enable_check:
        return
    for dim, extent in zip(region, buffer.shape, strict=True):
        inside = analyzer.can_prove_greater_equal(dim.min, 0) and analyzer.can_prove_greater_equal(
            extent - dim.extent - dim.min, 0
        )
        place = {"first": dim.min, "extent": dim.extent, "size": extent}
        check(inside, OUTSIDE, block, buffer=buffer.name, **place)


def check_place_is_fixed(
    state: ScheduleState, block: StmtSRef, buffer: Buffer, region: Sequence[Range]
) -> None:
    """Raise if where a region is depends on memory, which the copy may find changed."""
    if state.enable_check:
        fixed = not any(reads_memory(dim) for dim in region)
        reason = "the elements that it touches depend on values in memory"
        check(fixed, UNSAFE, block, buffer=buffer.name, reason=reason)


@lru_cache(maxsize=512)
def reads_old_values(block: Block, buffer: Buffer) -> bool:
    """Say whether a block may read what a buffer that it writes held before.

    Its init runs first, and so does all that says where and whether the block stores.
    """
    declared = [r for r in block.reads if r.buffer is buffer]
    start: list[Node] = [] if block.init is None else [block.init]
    domains = (axis.dom for axis in block.iter_vars if axis.dom is not None)
    start += [e for dom in domains for e in (dom.min, dom.extent) if type(e) is not IntImm]
    start += [view.source for view in block.match_buffers]
    if any(loads(node, buffer) for node in start):
        return True
    if not declared and not loads(block.body, buffer):
        return False
    if block.init is None:
        return _loads_before_storing(block, buffer)
    stored = [node for node in walk(block.init) if type(node) is BufferStore]
    if len(stored) == 1 and stored[0] is block.init and not declared:
        return not loads_only(block.body, buffer, stored[0].indices)
    starting = block.with_(body=block.init, init=None)
    reads, _ = get_block_read_write_region(block.with_(init=None), {buffer.data: buffer})
    analyzer = Analyzer()
    for axis, values in axis_domain(block.iter_vars).items():
        analyzer.bind(axis, values)
    boxes = [box_of(read.region) for read in (*declared, *reads) if read.buffer is buffer]
    read = union(boxes, analyzer)
    for region in block.writes:
        if region.buffer is buffer:
            surely = surely_written(starting, region)
            if surely is not None and holds(box_of(surely), read, analyzer):
                return False
    return True


def _loads_before_storing(block: Block, buffer: Buffer) -> bool:
    """Say whether statements of a block may load what those before them did not store."""
    if any(is_opaque(node, buffer) for node in walk(block)):
        return True
    analyzer = Analyzer()
    for axis, values in axis_domain(block.iter_vars).items():
        analyzer.bind(axis, values)
    stored: list[Box] = []
    for part in block.body.seq if isinstance(block.body, SeqStmt) else (block.body,):
        step = block.with_(body=part)
        reads, writes = get_block_read_write_region(step, {buffer.data: buffer})
        for read in reads:
            if read.buffer is buffer:
                needed = box_of(read.region)
                if not any(holds(box, needed, analyzer) for box in stored):
                    return True
        for region in writes:
            surely = surely_written(step, region) if region.buffer is buffer else None
            if surely is not None:
                stored.append(box_of(surely))
    return False


def loads_only(stmt: Stmt, buffer: Buffer, indices: Sequence[PrimExpr]) -> bool:
    """Say whether all elements of a buffer that are loaded are the one at `indices`."""
    return all(
        expr_deep_equal(a, b)
        for node in walk(stmt)
        if isinstance(node, BufferLoad) and node.buffer is buffer
        for a, b in zip(node.indices, indices, strict=True)
    )


def relies_on_old_values(block: StmtSRef, buffer: Buffer) -> bool:
    """Say whether a block may use what a buffer that it writes held before.

    Raises ScheduleError if it does not declare which part that is.
    """
    relies = reads_old_values(block.block, buffer)
    declared = any(region.buffer is buffer for region in block.block.reads)
    reason = "it reads the earlier contents of the buffer without declaring that"
    check(declared or not relies, UNSAFE, block, buffer=buffer.name, reason=reason)
    return relies or not init_runs_first(block)


def init_runs_first(block: StmtSRef) -> bool:
    """Say whether the init, if there is one, surely runs before other steps of the reduction."""
    realize = block.block_realize
    if realize.block.init is None:
        return True
    reducing = [
        (axis.dom, value)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if axis.iter_type == IterVar.COMM_REDUCE and axis.dom is not None
    ]
    driving = {var for _, value in reducing for var in collect_vars(value)}
    starts = {
        sref.loop.loop_var: sref.loop.min
        for sref in loops_above(block)
        if sref.loop.loop_var in driving
    }
    analyzer = Analyzer()
    firsts = [(analyzer.simplify(substitute(value, starts)), dom.min) for dom, value in reducing]
    if not all(analyzer.can_prove_equal(value, first) for value, first in firsts):
        return False
    if is_const_int(realize.predicate, 1):
        return True
    for var, values in path_domain(block, None).items():
        analyzer.bind(var, values)
    with analyzer.constraint_scope(realize.predicate):
        return analyzer.can_prove(substitute(realize.predicate, starts))


def check_sequential(block: StmtSRef, buffer: Buffer, location: StmtSRef) -> None:
    """Raise if what is copied back unchanged could overwrite what others write at that time."""
    current: StmtSRef | None = location
    while current is not None:
        ordered = current.is_block or current.loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        reason = "it may leave out elements, which iterations that run at the same time may write"
        check(ordered, UNSAFE, block, buffer=buffer.name, reason=reason)
        current = current.parent


def runs_everywhere(block: StmtSRef, axes: Sequence[Var]) -> bool:
    """Say whether the loops around a block surely give its axes every value of their domains."""
    domains = axis_domain(block.block.iter_vars)
    taken = values_taken(block, axes)
    return taken is not None and all(
        run is domains[axis] for axis, run in zip(axes, taken, strict=True)
    )


def values_taken(block: StmtSRef, axes: Sequence[Var]) -> list[Range] | None:
    """Return the box of values that the loops around a block in its scope surely give its axes.

    None if they are not known to be a box. A domain that is run through is returned as it is.
    """
    realize = block.block_realize
    domains = axis_domain(realize.block.iter_vars)
    values = axis_values(realize)
    analyzer = Analyzer()
    points = [Range.point(values[axis]) for axis in axes]
    loops, predicate = path_domain(block, None), realize.predicate
    inner = relax(points, loops, predicate, analyzer, upper=False)
    if inner is None:
        return None
    whole = [domains[axis] for axis in axes]
    missing = [
        k
        for k, (low, domain) in enumerate(zip(inner, whole, strict=True))
        if not holds((low,), (IntervalSet.from_range(domain),), analyzer)
    ]
    if not missing:
        return whole
    outer = relax(points, loops, predicate, analyzer, upper=True)
    runs = list(whole)
    for k in missing:
        if outer is None or not holds((inner[k],), (outer[k],), analyzer):
            return None
        runs[k] = inner[k].cover_range(whole[k], analyzer)
    return runs


def loads(stmt: Node, buffer: Buffer) -> bool:
    """Say whether an element of `buffer` is loaded."""
    return any(isinstance(node, BufferLoad) and node.buffer is buffer for node in walk(stmt))


def stores_surely(stmt: Stmt | None, buffer: Buffer) -> bool:
    """Say whether a statement stores to `buffer` whatever its conditions are.

    Predicates and loops are not looked at: they say where, which other questions are about.
    """
    if isinstance(stmt, BufferStore):
        return stmt.buffer is buffer
    if isinstance(stmt, SeqStmt):
        return any(stores_surely(part, buffer) for part in stmt.seq)
    if isinstance(stmt, (LetStmt, AttrStmt, For)):
        return stores_surely(stmt.body, buffer)
    if isinstance(stmt, IfThenElse):
        return stores_surely(stmt.then_case, buffer) and stores_surely(stmt.else_case, buffer)
    if isinstance(stmt, BlockRealize):
        return stores_surely(stmt.block.body, buffer)
    return False
