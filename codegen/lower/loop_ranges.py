"""An analyzer that knows the range of every loop variable of a function."""

from __future__ import annotations

from tensorir import stmt as s
from tensorir.arith import Analyzer
from tensorir.buffer import Range
from tensorir.expr import BufferLoad, Call, IntImm, PrimExpr, Var
from tensorir.node import Node
from tensorir.visit import pre_order_visit, walk


def analyzer_for(body: s.Stmt) -> Analyzer:
    """Return an analyzer in which every loop variable of `body` has the range of its loop.

    All are bound before anything is asked, because a new binding makes an analyzer forget what it
    has computed. A variable of several loops gets a range that covers them all. A variable that a
    `let` binds to integer arithmetic stands for that arithmetic.
    """
    ranges: dict[Var, Range | None] = {}
    values: dict[Var, PrimExpr] = {}

    def visit(node: Node) -> bool | None:
        kind = type(node)
        if kind is s.For:
            var, new = node.loop_var, Range.from_min_extent(node.min, node.extent)  # type: ignore[attr-defined]
            ranges[var] = new if var not in ranges else _hull(ranges[var], new)
            visit_into(node.body)  # type: ignore[attr-defined]
            return False
        if kind is s.LetStmt and node.var not in values and _is_arithmetic(node.value):  # type: ignore[attr-defined]
            values[node.var] = node.value  # type: ignore[attr-defined]
        return not (kind is s.BufferStore or kind is s.Evaluate or isinstance(node, PrimExpr))

    def visit_into(node: Node) -> None:
        pre_order_visit(node, visit)

    visit_into(body)
    analyzer = Analyzer()
    for var, known in ranges.items():
        if known is not None:
            analyzer.bind(var, known, allow_override=True)
    for var, value in values.items():
        analyzer.bind(var, value, allow_override=True)
    return analyzer


def _is_arithmetic(value: PrimExpr) -> bool:
    """Say whether `value` is an integer that has the same value wherever it is evaluated."""
    if not value.dtype.is_int or value.dtype.lanes > 1:
        return False
    return not any(type(part) is BufferLoad or type(part) is Call for part in walk(value))


def _hull(a: Range | None, b: Range) -> Range | None:
    if a is None:
        return None
    if a.min is b.min and a.extent is b.extent:
        return a
    parts = (a.min, a.extent, b.min, b.extent)
    values = [part.value for part in parts if type(part) is IntImm]
    if len(values) < len(parts):
        return None
    low = min(values[0], values[2])
    return Range(low, max(values[0] + values[1], values[2] + values[3]))
