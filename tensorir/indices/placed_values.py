"""Index arithmetic that replaces a run-time value: an inlined load, or a parameter that is set.

Arithmetic on run-time values wraps around, index arithmetic does not. If index arithmetic replaces
a value, the enclosing expression becomes index arithmetic as well. Both are equal as long as the
types hold all results; otherwise the replacement has to be marked as a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tensorir.arith.const_interval import Interval, exact_interval
from tensorir.nodes.buffer import BufferRegion, Range
from tensorir.nodes.expr import Call, IntImm, Let, PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import BlockRealize, For, LetStmt, Stmt
from tensorir.rewriting.visit import children

_REINTERPRET = Op.get("reinterpret")


def mark_as_value(expr: PrimExpr) -> PrimExpr:
    """Return index arithmetic marked as a value, so that arithmetic on it wraps around."""
    return Call(expr.dtype, _REINTERPRET, [expr])


def never_wraps(
    body: Stmt, placed: Iterable[PrimExpr], domains: Mapping[Var, Range] | None = None
) -> bool:
    """Return True if arithmetic on the `placed` expressions of a body provably fits its types.

    Then it does not matter if they are values. `placed` expressions are compared by identity.
    `domains` has the domains of variables that the body does not bind.
    """
    reader = _Reader(placed)
    for var, values in (domains or {}).items():
        reader.bind(var, values)
    reader.read(body)
    return not reader.may_wrap


class _Reader:
    def __init__(self, placed: Iterable[PrimExpr]) -> None:
        self._placed = set(placed)
        """The placed expressions, and the variables that are bound to expressions with them."""
        self._ranges: dict[Var, Interval] = {}
        self.may_wrap = False

    def bind(self, var: Var, values: Range | None) -> None:
        """Record the domain of a variable, if it is known."""
        if values is not None and type(values.min) is IntImm and type(values.extent) is IntImm:
            low = values.min.value
            self._ranges[var] = low, max(low, low + values.extent.value - 1)

    def read(self, node: Node) -> bool:
        """Return True if a node depends on a placed expression.

        Record if arithmetic on it may wrap.
        """
        if isinstance(node, BufferRegion):
            return False
        if node in self._placed:
            return True
        if isinstance(node, For):
            self.bind(node.loop_var, Range.from_min_extent(node.min, node.extent))
        elif isinstance(node, (Let, LetStmt)):
            self._define(node.var, node.value)
        elif isinstance(node, BlockRealize):
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                self._define(axis.var, value)
                self.bind(axis.var, axis.dom)
        parts = [self.read(part) for part in children(node)]
        depends = any(parts)
        if depends and isinstance(node, PrimExpr) and node.dtype.is_integral:
            exact = exact_interval(node, self._ranges) is not None
            self.may_wrap = self.may_wrap or (not exact and is_index_arithmetic(node))
        return depends

    def _define(self, var: Var, value: PrimExpr) -> None:
        if self.read(value):
            self._placed.add(var)
            known = exact_interval(value, self._ranges)
            if known is not None:
                self._ranges[var] = known
