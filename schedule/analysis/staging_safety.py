"""Whether a block may work on a copy of a buffer, which is filled before or written back after.

A copy touches whole boxes without the conditions under which the block does, and starts out empty.
Each question here is about one way in which that could show.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.regions import path_domain, relax
from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer, Range
from tensorir.expr import BufferLoad, PrimExpr, Var
from tensorir.stmt import (
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
from tensorir.visit import walk

UNSAFE = Problem(
    "UnsafeStageError",
    "{0} cannot use a copy of {buffer}: {reason}",
    "a schedule made with enable_check=False does not ask",
)

OUTSIDE = Problem(
    "UnsafeStageError",
    "{0} cannot use a copy of {buffer}: the copy would touch {extent} elements from {first} on, of "
    "{size}",
    "a schedule made with enable_check=False does not ask",
)


def axis_ranges(block: Block) -> dict[Var, Range]:
    """Return the domains of a block's axes."""
    return {axis.var: axis.dom for axis in block.iter_vars if axis.dom is not None}


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


def check_fills_before_reading(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> None:
    """Raise if a block that writes a buffer relies on what the buffer held before."""
    if not state.enable_check:
        return
    check_starts_anew(state, block, buffer)
    node = block.block
    if not state.child_blocks(block):
        stores = stores_surely(node.init, buffer) or stores_surely(node.body, buffer)
        reason = "it stores under a condition only"
        check(stores, UNSAFE, block, buffer=buffer.name, reason=reason)


def check_starts_anew(state: ScheduleState, block: StmtSRef, buffer: Buffer) -> None:
    """Raise if a block that writes a buffer reads what it held before."""
    reads = state.enable_check and reads_old_values(block.block, buffer)
    reason = "it reads what the buffer held before"
    check(not reads, UNSAFE, block, buffer=buffer.name, reason=reason)


def reads_old_values(block: Block, buffer: Buffer) -> bool:
    """Say whether a block may read what a buffer that it writes held before."""
    if stores_surely(block.init, buffer):
        return False
    return loads(block.body, buffer) or any(r.buffer is buffer for r in block.reads)


def check_sequential(block: StmtSRef, buffer: Buffer, location: StmtSRef) -> None:
    """Raise if what is copied back unchanged could overwrite what others write at that time."""
    current: StmtSRef | None = location
    while current is not None:
        ordered = current.is_block or current.loop.kind in (ForKind.SERIAL, ForKind.UNROLLED)
        reason = "it may leave out elements, and others run at the same time"
        check(ordered, UNSAFE, block, buffer=buffer.name, reason=reason)
        current = current.parent


def check_runs_everywhere(
    state: ScheduleState, block: StmtSRef, axes: Sequence[Var], buffer: Buffer
) -> None:
    """Raise unless the loops around a block surely give its axes every value of their domains."""
    complete = not state.enable_check or runs_everywhere(block, axes)
    reason = "its loops may leave out elements, which would be written back all the same"
    check(complete, UNSAFE, block, buffer=buffer.name, reason=reason)


def runs_everywhere(block: StmtSRef, axes: Sequence[Var]) -> bool:
    """Say whether the loops around a block surely give its axes every value of their domains."""
    realize = block.block_realize
    domains = axis_ranges(realize.block)
    values = dict(zip((a.var for a in realize.block.iter_vars), realize.iter_values, strict=True))
    analyzer = Analyzer()
    points = [Range.point(values[axis]) for axis in axes]
    box = relax(points, path_domain(block, None), realize.predicate, analyzer, upper=False)
    return box is not None and all(
        analyzer.can_prove(dim.min_value <= domains[axis].min)
        and analyzer.can_prove(domains[axis].min + domains[axis].extent - 1 <= dim.max_value)
        for axis, dim in zip(axes, box, strict=True)
    )


def loads(stmt: Stmt | PrimExpr, buffer: Buffer) -> bool:
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
