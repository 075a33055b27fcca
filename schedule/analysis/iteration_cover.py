"""Checks which instances of a block run."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import affine_map, analyzer_with_ranges, axis_domain
from schedule.analysis.regions import path_domain
from schedule.analysis.surroundings import guards
from schedule.sref import StmtSRef, loops_above, scope_root
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    IterSumExpr,
    detect_iter_map,
    inverse_affine_iter_map,
)
from tensorir.arith.size import Size, plus_size
from tensorir.errors import IRValueError
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import EQ, BufferLoad, IntImm, IterVar, PrimExpr
from tensorir.nodes.ops import TRUE, all_of, compare, conjuncts, is_const_int
from tensorir.rewriting.visit import substitute, uses_var, walk


def left_out(block: StmtSRef, axes: Sequence[IterVar]) -> IterVar | None:
    """Return an axis that may not take all values of its domain, None if every axis takes all.

    The values must occur for every combination with the other axes. Conditions around the block are
    ignored.
    """
    realize = block.block_realize
    loops = [sref.loop for sref in loops_above(block)]
    indices = affine_map(realize.iter_values, loops, realize.predicate)
    asked = set(axes)
    for k, axis in enumerate(realize.block.iter_vars):
        if axis in asked and axis.dom is not None:
            known = bool(indices) and _covers_domain(indices[k], axis.dom)
            if not known:
                return axis
    return None


def runs_everywhere(block: StmtSRef) -> bool:
    """Return True if the loops around a block in its scope give its axes all their values."""
    if not is_const_int(block.block_realize.predicate, 1):
        return False
    scope = scope_root(block)
    if scope is not None and guards(block, scope):
        return False
    axes = block.block.iter_vars
    return all(axis.dom is not None for axis in axes) and left_out(block, axes) is None


def _covers_domain(index: IterSumExpr, domain: Range) -> bool:
    """Return True if an index that is one loop piece takes all values of a domain."""
    scale: Size = 1
    reach: Size = 0
    if index.args:
        scale, reach = index.args[0].scale, index.args[0].extent - 1
    if scale != 1 and scale != -1:
        return False
    low, least, count = index.base, domain.min, domain.extent
    if type(least) is IntImm and type(count) is IntImm and type(reach) is int and not low.terms:
        start = low.const if scale == 1 else low.const - reach
        return start <= least.value and least.value + count.value <= start + reach + 1
    if scale == -1:
        low = plus_size(low, 0 - reach)
    last = plus_size(low, reach)
    reader = Analyzer().linearizer
    first = reader(least)
    end = first.plus(reader(count))
    return reader.at_least_zero(first.plus(low, -1)) and reader.at_least_zero(
        last.plus(end, -1).plus_const(1)
    )


def runs_where(block: StmtSRef) -> PrimExpr | None:
    """Return the condition on the axes of a block under which an instance of it runs.

    The condition holds for values in the domains of the axes. None if the bindings are not affine
    or read memory.
    """
    if runs_everywhere(block):
        return TRUE
    realize = block.block_realize
    predicate = realize.predicate
    domain = path_domain(block, None)
    values = realize.iter_values
    once = is_const_int(predicate, 1)
    level = IterMapLevel.SURJECTIVE if once else IterMapLevel.INJECTIVE
    pieces = detect_iter_map(values, domain, TRUE, level, True).indices
    memory = any(isinstance(node, BufferLoad) for node in walk(predicate))
    if memory or len(pieces) != len(values):
        return None
    analyzer = analyzer_with_ranges(axis_domain(realize.block.iter_vars))
    axes = [axis.var for axis in realize.block.iter_vars]
    try:
        found = inverse_affine_iter_map(pieces, axes, analyzer.linearizer)
    except IRValueError:
        return None
    loops = {v: found.get(v, limits.min) for v, limits in domain.items()}
    if not once and any(v not in found and uses_var(predicate, v) for v in loops):
        return None
    conditions = [compare(EQ, axis, value) for axis, value in zip(axes, values, strict=True)]
    for var, limits in domain.items():
        conditions += [var >= limits.min, var < limits.min + limits.extent]
    conditions += conjuncts(predicate)
    return all_of(analyzer.simplify(substitute(condition, loops)) for condition in conditions)


def stays_within(
    read: Sequence[Range],
    reader_axes: Sequence[IterVar],
    stored: Sequence[Range],
    writer_axes: Sequence[IterVar],
) -> bool:
    """Return True if the read indices stay within the bounds of the stored indices.

    Conditions around the read are ignored: if one is false, the consumer still runs, and an
    instance without a corresponding producer instance would be lost in the producer's loops.
    """
    analyzer = analyzer_with_ranges(axis_domain((*reader_axes, *writer_axes)))

    def bounds(values: Range) -> tuple[int, int]:
        first = analyzer.const_int_bound(values.min)
        if is_const_int(values.extent, 1):
            return first.min_value, first.max_value
        last = analyzer.const_int_bound(values.min + values.extent - 1)
        return first.min_value, last.max_value

    for wanted, given in zip(read, stored, strict=True):
        (low, high), (first, last) = bounds(wanted), bounds(given)
        if low < first or high > last:
            return False
    return True
