"""The width in which a kernel computes its indices."""

from __future__ import annotations

from collections.abc import Mapping

from tensorir.arith.const_interval import Interval, exact_interval
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.dtype import INT32
from tensorir.nodes.expr import BufferLoad, Let, PrimExpr, Var, integer_limits
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.rewriting.visit import walk_once

_LOW, _HIGH = integer_limits(INT32)


def fits_32_bits(func: PrimFunc, known: Mapping[Var, Interval]) -> bool:
    """Return True if no integer of a kernel needs more than 32 signed bits.

    Bounds of its variables prove it; `known` has those of parameters. Integers of 32 bits that are
    data may wrap, as they do at the width of their type.
    """
    ranges = dict(known)
    for node in walk_once(func.body):
        if isinstance(node, s.For):
            first, count = exact_interval(node.min, ranges), exact_interval(node.extent, ranges)
            if first is None or count is None or first[1] + count[1] > _HIGH:
                return False
            ranges[node.loop_var] = first[0], max(first[0], first[1] + count[1] - 1)
        elif isinstance(node, (s.LetStmt, Let)) and node.var.dtype.is_integral:
            found = exact_interval(node.value, ranges)
            if found is not None:
                ranges[node.var] = found
        elif isinstance(node, (BufferLoad, s.BufferStore)) and node.buffer.dtype.lanes > 1:
            # The address of a vector counts its lanes.
            lanes = node.buffer.dtype.lanes
            spans = [exact_interval(index, ranges) for index in node.indices]
            if not all(x and x[0] * lanes >= _LOW and x[1] * lanes <= _HIGH for x in spans):
                return False
        if isinstance(node, PrimExpr) and node.dtype.is_integral and node.dtype.bits >= 32:
            found = exact_interval(node, ranges)
            if (found is None or found[0] < _LOW or found[1] > _HIGH) and (
                node.dtype != INT32.with_lanes(node.dtype.lanes) or is_index_arithmetic(node)
            ):
                return False
    return True
