"""The parts of a buffer that blocks read before they store them, and the parts that they store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from schedule.analysis.accesses import is_opaque
from schedule.analysis.bindings import analyzer_with_ranges, axis_domain, axis_values
from schedule.analysis.reduction_steps import (
    Steps,
    instances_in_scope,
    instances_of,
    left_out_first,
    loops_around,
)
from schedule.analysis.regions import Box, box_of, path_domain, relax
from schedule.analysis.sure_writes import first_statement, holds, surely_written
from schedule.sref import StmtSRef
from tensorir.arith import Analyzer, IntervalSet
from tensorir.comparison.equal import expr_deep_equal
from tensorir.indices.accesses import loads_in
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, BufferStore, SeqStmt, Stmt
from tensorir.rewriting.visit import walk


@lru_cache(maxsize=512)
def reads_old_values(block: Block, buffer: Buffer) -> bool:
    """Return True if a block may read earlier contents of a buffer that it writes.

    Its indices and conditions run first, then its init, then the statements of its body.
    """
    declared = [r for r in block.reads if r.buffer is buffer]
    init, body = block.init, block.body
    domains = [axis.dom for axis in block.iter_vars if axis.dom is not None]
    start: list[Node] = [e for d in domains for e in (d.min, d.extent) if type(e) is not IntImm]
    start += [view.source for view in block.match_buffers]
    if any(loads(node, buffer) for node in (*start, *([init] if init is not None else []))):
        return True
    if not declared:
        if not loads(body, buffer):
            return False
        if isinstance(init, BufferStore):
            return not loads_only(body, buffer, init.indices)
    if init is None and any(is_opaque(node, buffer) for node in walk(block)):
        return True
    analyzer = analyzer_with_ranges(axis_domain(block.iter_vars))
    stored: list[Box] = []
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    for part in parts if init is None else (init, *parts):
        step = block.with_(body=part, init=None)
        reads, writes = get_block_read_write_region(step, {buffer.data: buffer})
        if init is not None:
            reads, writes = ([] if part is init else [*declared, *reads]), list(block.writes)
        for region in reads:
            needed = box_of(region.region)
            if region.buffer is buffer and not any(holds(b, needed, analyzer) for b in stored):
                return True
        for region in writes:
            surely = surely_written(step, region) if region.buffer is buffer else None
            if surely is not None:
                stored.append(box_of(surely))
    return False


def loads(stmt: Node, buffer: Buffer) -> bool:
    """Return whether an element of `buffer` is loaded."""
    return any(load.buffer is buffer for load in loads_in(stmt))


def loads_only(stmt: Stmt, buffer: Buffer, indices: Sequence[PrimExpr]) -> bool:
    """Return True if every load of a buffer is at `indices`."""
    return all(
        expr_deep_equal(a, b)
        for load in loads_in(stmt)
        if load.buffer is buffer
        for a, b in zip(load.indices, indices, strict=True)
    )


def init_runs_first(block: StmtSRef, *, in_scope: bool = False) -> bool:
    """Return True if the init, if there is one, runs before other steps of the reduction.

    It must run before all steps, or with `in_scope` before all steps while the scope runs once.
    """
    if block.block.init is None:
        return True
    instances, loops = instances_of(block), loops_around(block)
    if in_scope:
        instances, loops = instances_in_scope(block)
    steps = Steps(instances, loops)
    if steps.late is not None or is_const_int(instances.predicate, 1):
        return steps.late is None
    reducing = [lp for lp in loops if lp.loop_var in steps.reduce]
    known = analyzer_with_ranges(path_domain(block, None))
    return left_out_first(instances.predicate, reducing, known) is None


def stores_surely(block: Block, buffer: Buffer) -> bool:
    """Return True if each instance of a block stores all elements of a box of a buffer.

    The box is the declared region, unless the body provably stores less.
    """
    return any(
        surely_written(first_statement(block), region) is not None
        for region in block.writes
        if region.buffer is buffer
    )


def values_taken(block: StmtSRef, axes: Sequence[Var]) -> list[Range] | None:
    """Return the box of values that the loops around a block in its scope give its axes.

    None if the values are not proved to be a box. A domain that is covered whole is returned
    unchanged.
    """
    realize = block.block_realize
    domains, values = axis_domain(realize.block.iter_vars), axis_values(realize)
    analyzer = Analyzer()
    points = [Range.point(values[axis]) for axis in axes]
    loops, predicate = path_domain(block, None), realize.predicate
    inner = relax(points, loops, predicate, analyzer, upper=False)
    if inner is None:
        return None
    outer: Box | None = None
    runs: list[Range] = []
    for k, axis in enumerate(axes):
        if holds((inner[k],), (IntervalSet.from_range(domains[axis]),), analyzer):
            runs.append(domains[axis])
            continue
        outer = outer or relax(points, loops, predicate, analyzer, upper=True)
        if outer is None or not holds((inner[k],), (outer[k],), analyzer):
            return None
        runs.append(inner[k].cover_range(domains[axis], analyzer))
    return runs
