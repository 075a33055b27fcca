"""The regions that a block surely writes, which may be less than it declares.

The declared regions of a block contain all elements that it may access. A primitive that copies a
buffer back, or relies on its contents, needs a region whose elements are all written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schedule.analysis.accesses import is_opaque
from schedule.analysis.bindings import analyzer_with_ranges, axis_domain, loop_range
from schedule.analysis.dependency import declares_nothing
from schedule.analysis.regions import Box, bound_region, box_of, is_point, region_of, relax
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, is_const_int
from tensorir.nodes.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    Block,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tensorir.rewriting.visit import collect_vars, substitute, uses_var, walk


def surely_written(block: Block, region: BufferRegion) -> Sequence[Range] | None:
    """Return the part of a declared region that an instance of a block surely writes.

    The result is the declared region or a smaller one, in terms of the same axes; None if no box is
    known. Accesses through pointers and views are assumed to be as declared.
    """
    buffer, body = region.buffer, block.body
    plain = type(body) is BufferStore and body.buffer is buffer and body.predicate is None
    if plain and all(is_point(dim) for dim in region.region):
        return region.region
    if any(is_opaque(node, buffer) for node in walk(block)):
        return region.region
    analyzer = analyzer_with_ranges(axis_domain(block.iter_vars))
    boxes = list(_boxes(body, buffer, {}, analyzer))
    declared = box_of(region.region)
    if any(holds(box, declared, analyzer) for box in boxes):
        return region.region
    if len(boxes) != 1:
        return None
    return region_of(boxes[0], buffer, analyzer)


def written_within(
    realize: BlockRealize, buffer: Buffer, domain: Mapping[Var, Range], analyzer: Analyzer
) -> list[Box]:
    """Return the boxes that the blocks inside an undeclared block write while its loops run."""
    if not declares_nothing(realize.block):
        return []
    return list(_boxes(realize, buffer, domain, analyzer))


def _boxes(
    stmt: Stmt, buffer: Buffer, domain: Mapping[Var, Range], analyzer: Analyzer
) -> Iterator[Box]:
    """Yield boxes of a buffer that a statement writes unconditionally."""
    if isinstance(stmt, BufferStore):
        if stmt.buffer is buffer and stmt.predicate is None:
            point = [Range.point(i) for i in stmt.indices]
            if not may_not_store(stmt, buffer, point, domain, analyzer):
                box = relax(point, domain, TRUE, analyzer, upper=False)
                if box is not None:
                    yield box
    elif isinstance(stmt, SeqStmt):
        for part in stmt.seq:
            yield from _boxes(part, buffer, domain, analyzer)
    elif isinstance(stmt, For):
        yield from _boxes(stmt.body, buffer, {**domain, stmt.loop_var: loop_range(stmt)}, analyzer)
    elif isinstance(stmt, IfThenElse) and stmt.else_case is not None:
        others = list(_boxes(stmt.else_case, buffer, domain, analyzer))
        for box in _boxes(stmt.then_case, buffer, domain, analyzer):
            if any(holds(a, box, analyzer) for a in others):
                yield box
    elif isinstance(stmt, (AttrStmt, Allocate, AllocateConst, DeclBuffer)):
        yield from _boxes(stmt.body, buffer, domain, analyzer)
    elif isinstance(stmt, LetStmt):
        body = stmt.body
        if stmt.var.dtype.is_int:
            body = substitute(body, {stmt.var: stmt.value})
        yield from _boxes(body, buffer, domain, analyzer)
    elif isinstance(stmt, BlockRealize):
        if declares_nothing(stmt.block) and is_const_int(stmt.predicate, 1):
            yield from _boxes(stmt.block.body, buffer, domain, analyzer)
        for region in stmt.block.writes:
            if region.buffer is buffer:
                yield from _boxes_of_block(stmt, region, domain, analyzer)


def _boxes_of_block(
    realize: BlockRealize, region: BufferRegion, domain: Mapping[Var, Range], analyzer: Analyzer
) -> Iterator[Box]:
    written = surely_written(realize.block, region)
    if written is None:
        return
    bound = bound_region(BufferRegion(region.buffer, written), realize)
    if not may_not_store(realize, region.buffer, bound, domain, analyzer):
        box = relax(bound, domain, realize.predicate, analyzer, upper=False)
        if box is not None:
            yield box


def may_not_store(
    stmt: BufferStore | BlockRealize,
    buffer: Buffer,
    region: Sequence[Range],
    loops: Mapping[Var, Range],
    analyzer: Analyzer,
) -> bool:
    """Return True if a store or block may not run because one of some loops may be empty.

    Loops that move the region are not checked: without an iteration the region is empty. Loops of a
    reduction are not checked either if its init stores the region, since the init runs without a
    step.
    """
    idle = {
        var
        for var, values in loops.items()
        if not (type(values.extent) is IntImm and values.extent.value > 0)
        and not any(uses_var(dim, var) for dim in region)
        and not analyzer.can_prove(values.extent >= 1)
    }
    if idle and isinstance(stmt, BlockRealize) and stmt.block.init is not None:
        block = stmt.block
        start = first_statement(block)
        declared = [r for r in block.writes if r.buffer is buffer]
        if all(surely_written(start, r) is r.region for r in declared):
            moved: dict[bool, set[Var]] = {True: set(), False: set()}
            for axis, value in zip(block.iter_vars, stmt.iter_values, strict=True):
                moved[axis.iter_type == IterVar.DATA_PAR].update(collect_vars(value))
            idle -= moved[False] - moved[True]
    return bool(idle)


def first_statement(block: Block) -> Block:
    """Return the part of a block that surely runs: a block with its init as body, if it has one.

    Without a step, the reduction axes are undefined.
    """
    if block.init is None:
        return block
    axes = [axis for axis in block.iter_vars if axis.iter_type == IterVar.DATA_PAR]
    return block.with_(iter_vars=axes, body=block.init, init=None)


def holds(outer: Box | None, inner: Box | None, analyzer: Analyzer) -> bool:
    """Return True if `outer` provably contains `inner`; False if one is unknown."""
    if outer is None or inner is None:
        return False
    return all(
        (o.min_value is None or _at_most(o.min_value, i.min_value, analyzer))
        and (o.max_value is None or _at_most(i.max_value, o.max_value, analyzer))
        for o, i in zip(outer, inner, strict=True)
    )


def _at_most(a: PrimExpr | None, b: PrimExpr | None, analyzer: Analyzer) -> bool:
    return a is b or (a is not None and b is not None and analyzer.can_prove(a <= b))
