"""The number of arithmetic operations of a program."""

from __future__ import annotations

from typing import ClassVar, Final

from tensorir.arith import Analyzer
from tensorir.function import IRModule, PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import IntImm, PrimExpr, integer_limits

_BINARY: Final = frozenset({*e.ARITHMETIC, *e.COMPARISONS, e.And, e.Or})


def estimate_tir_flops(program: IRModule | PrimFunc | s.Stmt) -> float:
    """Return an estimate of the number of arithmetic operations in one call.

    Each binary arithmetic operator in a stored value costs 1, for any dtype. Comparisons and buffer
    indices are free. A call costs the sum of its arguments, a choice its condition and the more
    expensive branch. Loops multiply by their extent, or its upper bound if it is symbolic, or 1 if
    that is unknown. The `init` of a block is not counted. The attribute `estimated_flops` of a
    function overrides the count. The count of a module is the sum of its tensor functions.
    """
    if isinstance(program, IRModule):
        return sum(estimate_tir_flops(func) for func in program.prim_funcs().values())
    if isinstance(program, PrimFunc):
        known = program.attrs.get("estimated_flops")
        if isinstance(known, (e.IntImm, e.FloatImm)):
            return float(known.value)
        return OperationCounter().stmt(program.body)
    return OperationCounter().stmt(program)


class OperationCounter:
    """Counts arithmetic operations."""

    counted: ClassVar[frozenset[type[PrimExpr]]] = frozenset(e.ARITHMETIC)
    """The operators that cost 1; others are free."""

    def __init__(self) -> None:
        self._analyzer = Analyzer()

    def stmt(self, node: s.Stmt) -> float:
        """Return the operations of the stored values, in all iterations of the loops."""
        if isinstance(node, s.BufferStore):
            return self.expr(node.value)
        if isinstance(node, s.For):
            return self._extent(node) * self.stmt(node.body)
        if isinstance(node, s.SeqStmt):
            return sum(self.stmt(part) for part in node.seq)
        if isinstance(node, s.IfThenElse):
            other = 0.0 if node.else_case is None else self.stmt(node.else_case)
            return self.expr(node.condition) + max(self.stmt(node.then_case), other)
        if isinstance(node, s.BlockRealize):
            return self.stmt(node.block.body)
        if isinstance(node, s.Block):
            return self.stmt(node.body)
        if isinstance(node, s.LetStmt):
            return self.expr(node.value) + self.stmt(node.body)
        if isinstance(node, s.Evaluate):
            return self.expr(node.value)
        body: s.Stmt | None = getattr(node, "body", None)
        return 0.0 if body is None else self.stmt(body)

    def _extent(self, loop: s.For) -> float:
        extent = loop.extent
        if isinstance(extent, IntImm):
            domain = Range.from_min_extent(loop.min, extent)
            self._analyzer.bind(loop.loop_var, domain, allow_override=True)
            return float(extent.value)
        limit = self._analyzer.const_int_bound(extent).max_value
        return 1.0 if limit >= integer_limits(extent.dtype)[1] else float(max(0, limit))

    def expr(self, node: PrimExpr) -> float:
        """Return the operations of a value."""
        kind = type(node)
        if kind in _BINARY:
            assert isinstance(node, e.BinaryOp)
            own = kind in self.counted and self._counts(node.a)
            return own + self.expr(node.a) + self.expr(node.b)
        if isinstance(node, e.Select):
            branches = max(self.expr(node.true_value), self.expr(node.false_value))
            return self.expr(node.condition) + branches
        if isinstance(node, e.Call):
            return sum(self.expr(arg) for arg in node.args)
        if isinstance(node, (e.Cast, e.Broadcast)):
            return self.expr(node.value)
        if isinstance(node, e.Not):
            return (kind in self.counted and self._counts(node.a)) + self.expr(node.a)
        if isinstance(node, e.Let):
            return self.expr(node.value) + self.expr(node.body)
        return 0.0

    def _counts(self, operand: PrimExpr) -> bool:
        return True
