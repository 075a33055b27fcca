"""Branches and choices whose conditions turn out to be constant."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from operator import is_
from typing import Final

from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import Broadcast, Call, IntImm, PrimExpr
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import logical_not
from tensorir.rewriting.visit import Rewriter
from tensorir.semantics.purity import has_effects

IF_THEN_ELSE: Final = Op.get("if_then_else")
NOTHING: Final = s.sequence([])


class BranchDecider(Rewriter):
    """A rewriter that takes decided branches, and drops statements without an effect."""

    def condition(self, node: PrimExpr) -> PrimExpr:
        """Return a condition rewritten."""
        return self(node)

    def given(self, condition: PrimExpr) -> AbstractContextManager[object]:
        """Assume a condition inside a `with` statement."""
        return nullcontext()

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        """Return a branch, or the case that is taken."""
        condition = self.condition(node.condition)
        if type(condition) is IntImm:
            taken = node.then_case if condition.value else node.else_case
            return NOTHING if taken is None else self(taken)
        with self.given(condition):
            then_case = self(node.then_case)
        else_case = NOTHING
        if node.else_case is not None:
            with self.given(logical_not(condition)):
                else_case = self(node.else_case)
        return branch(condition, then_case, else_case)

    def rewrite_Allocate(self, node: s.Allocate) -> s.Stmt:  # noqa: N802
        """Return an allocation, nothing for one around nothing."""
        new = self.generic(node)
        return NOTHING if s.is_no_op(new.body) else new

    def rewrite_AttrStmt(self, node: s.AttrStmt) -> s.Stmt:  # noqa: N802
        """Return an attribute, nothing for one of nothing."""
        new = self.generic(node)
        return NOTHING if s.is_no_op(new.body) else new

    def rewrite_Select(self, node: e.Select) -> PrimExpr:  # noqa: N802
        """Return a choice, or the value that is chosen."""
        condition = self.condition(node.condition)
        known = decided(condition)
        if known is not None:
            return self(node.true_value if known else node.false_value)
        yes, no = self(node.true_value), self(node.false_value)
        return node.changed(condition=condition, true_value=yes, false_value=no)

    def rewrite_Call(self, node: Call) -> PrimExpr:  # noqa: N802
        """Return a call; of `T.if_then_else`, the value that is chosen."""
        if node.op is not IF_THEN_ELSE:
            return self.generic(node)
        test, yes, no = node.args
        condition = self.condition(test)
        if type(condition) is IntImm:
            return self(yes if condition.value else no)
        args = (condition, self(yes), self(no))
        return node if all(map(is_, args, node.args)) else Call(node.dtype, node.op, args)


def branch(condition: PrimExpr, then_case: s.Stmt, else_case: s.Stmt) -> s.Stmt:
    """Return a branch, of which one case or both may be nothing."""
    if s.is_no_op(else_case):
        if s.is_no_op(then_case):
            return s.Evaluate(condition) if has_effects(condition) else NOTHING
        return s.IfThenElse(condition, then_case)
    if s.is_no_op(then_case):
        return s.IfThenElse(logical_not(condition), else_case)
    return s.IfThenElse(condition, then_case, else_case)


def decided(condition: PrimExpr) -> bool | None:
    """Return what a condition is in all lanes, None if that is not known."""
    if type(condition) is Broadcast:
        condition = condition.value
    return bool(condition.value) if type(condition) is IntImm else None
