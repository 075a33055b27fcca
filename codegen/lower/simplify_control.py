"""Deciding branches, and removing loops that run once or never."""

from __future__ import annotations

from typing import Any

from codegen.lower.rewriters import (
    NOTHING,
    BranchDecider,
    Scope,
    ScopedRewriter,
    given,
    inside_loop,
)
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Var
from tensorir.rewriting.visit import collect_vars, substitute
from tensorir.semantics.purity import has_effects, is_pure


def simplify_control(func: PrimFunc) -> PrimFunc:
    """Simplify conditions, loop bounds and integer values by the ranges of loop variables.

    A branch whose condition is decided is replaced by its case; inside a branch its condition is
    assumed. A loop of extent 0 is removed. A loop of extent 1 is replaced by its body, unless it is
    an axis of a launch or has annotations, which apply to the loops inside it. Indices of loads and
    stores are unchanged, because flattening has simplified them.
    """
    return func.with_body(_SimplifyControl(func)(func.body))


class _SimplifyControl(BranchDecider, ScopedRewriter):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self._units: dict[Var, PrimExpr] = {}
        self._in_arithmetic = False

    # ---------------------------------------------------------------------------------- statements

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        extent = self._integer(node.extent)
        low = self._integer(node.min)
        if type(extent) is IntImm and extent.value <= 0:
            return NOTHING
        stays = node.annotations or node.kind is s.ForKind.THREAD_BINDING
        if type(extent) is IntImm and extent.value == 1 and not stays:
            if not is_pure(low):
                return s.LetStmt(node.loop_var, low, self(node.body))
            self._units[node.loop_var] = low
            with inside_loop(self.analyzer, node):
                return self(node.body)
        with inside_loop(self.analyzer, node):
            body = self(node.body)
        if s.is_no_op(body) and not has_effects(low) and not has_effects(extent):
            return NOTHING
        return node.changed(min=low, extent=extent, body=body)

    def given(self, condition: PrimExpr) -> Scope:
        return given(self.analyzer, condition)

    def rewrite_AssertStmt(self, node: s.AssertStmt) -> s.Stmt:  # noqa: N802
        condition = self.rewrite_condition(node.condition)
        if type(condition) is IntImm and condition.value:
            return self(node.body)
        with given(self.analyzer, condition):
            return s.AssertStmt(condition, node.message, self(node.body))

    # --------------------------------------------------------------------------------- expressions

    def _integer(self, node: PrimExpr) -> PrimExpr:
        return node if type(node) is IntImm else self._simplify_unless_effects(node)

    def rewrite_condition(self, node: PrimExpr) -> PrimExpr:
        return node if type(node) is IntImm else self._simplify_unless_effects(self(node))

    def _simplify_unless_effects(self, node: PrimExpr) -> PrimExpr:
        """Simplify an expression, unless a call in it has a side effect.

        Two such calls may have different values, and none may be removed.
        """
        return node if has_effects(node) else self.analyzer.simplify(node)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        return self._units.get(node, node)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        predicate = self.maybe(node.predicate)
        return node.changed(indices=self._indices(node.indices), predicate=predicate)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        value, predicate = self(node.value), self.maybe(node.predicate)
        return node.changed(value=value, indices=self._indices(node.indices), predicate=predicate)

    def _indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Return indices without the variables of removed loops.

        Flattening has dropped most of them.
        """
        if not self._units:
            return indices
        if not any(part in self._units for index in indices for part in collect_vars(index)):
            return indices
        return tuple(substitute(index, self._units) for index in indices)

    def rewrite_BinaryOp(self, node: e.BinaryOp) -> PrimExpr:  # noqa: N802
        if node.dtype.is_int and node.dtype.lanes == 1:
            return self._simplify_whole(node)
        return self.generic(node)

    def rewrite_CmpOp(self, node: e.CmpOp) -> PrimExpr:  # noqa: N802
        return self._simplify_whole(node)

    def _simplify_whole(self, node: PrimExpr) -> PrimExpr:
        """Simplify arithmetic as a whole.

        If operands were simplified first, a value that becomes a constant would look like an index,
        and a sum with it would be assumed not to overflow.
        """
        if self._in_arithmetic:
            return self.generic(node)
        self._in_arithmetic = True
        try:
            inner = self.generic(node)
        finally:
            self._in_arithmetic = False
        return self._simplify_unless_effects(inner)

    def rewrite_Select(self, node: e.Select) -> PrimExpr:  # noqa: N802
        return self.generic(node) if self._in_arithmetic else super().rewrite_Select(node)

    def rewrite_Call(self, node: Call) -> PrimExpr:  # noqa: N802
        return self.generic(node) if self._in_arithmetic else super().rewrite_Call(node)

    def value(self, value: Any) -> Any:
        return value
