"""The rewriters that passes build on: of statements, shared expressions, facts and branches."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from operator import is_
from typing import Final

from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import Broadcast, BufferLoad, Call, IntImm, PrimExpr
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const, logical_not
from tensorir.rewriting.visit import Rewriter, outside
from tensorir.semantics.purity import has_effects, is_pure


class StatementRewriter(Rewriter):
    """A rewriter that leaves expressions, stores and evaluated calls unchanged."""

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Return an expression unchanged."""
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        """Return a store unchanged."""
        return node


class SharedRewriter(Rewriter):
    """A rewriter that rewrites each expression once: copies of an unrolled body share many.

    Subclasses define the replacement of loads.
    """

    def __init__(self) -> None:
        self._memo: dict[PrimExpr, PrimExpr] = {}

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        """Return an expression rewritten, once."""
        known = self._memo.get(node)
        if known is None:
            known = self._memo[node] = self.generic(node)
        return known

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        """Return the replacement of a load, computed once."""
        known = self._memo.get(node)
        if known is None:
            known = self._memo[node] = self.load(node)
        return known

    def load(self, node: BufferLoad) -> PrimExpr:
        """Return the replacement of a load."""
        return self.generic(node)


# ---------------------------------------------------------------------------------- scopes of facts
#
# The scopes of facts: a fact lives as long as the loop, let, branch or assertion that gives it.
#
# A loop's extent is known to be positive only inside the loop; a condition holds in its branch.
# Every pass that reasons about integers handles these scopes in the same way: it derives from
# `ScopedRewriter`, even if it changes nothing.


Scope = AbstractContextManager[object]
_NOTHING_KNOWN: Final[Scope] = nullcontext()


def analyzer_for(func: PrimFunc) -> Analyzer:
    """Return an analyzer with the variables of a function that hold wrapping values marked."""
    return Analyzer(values=value_variables(func))


def inside_loop(analyzer: Analyzer, loop: s.For) -> Scope:
    """Bind the range of a loop's variable inside a `with` statement.

    Bounds that read memory are ignored, because the loop may overwrite the memory.
    """
    if is_pure(loop.min) and is_pure(loop.extent):
        return analyzer.loop_scope(loop.loop_var, loop.min, loop.extent)
    return _NOTHING_KNOWN


def inside_let(analyzer: Analyzer, let: s.LetStmt) -> Scope:
    """Bind a variable to its integer arithmetic inside a `with` statement."""
    value = let.value
    if not value.dtype.is_int or value.dtype.lanes > 1 or not is_pure(value):
        return _NOTHING_KNOWN
    # The variable is bound like that of a loop that runs once.
    return analyzer.loop_scope(let.var, value, const(1, value.dtype))


def given(analyzer: Analyzer, condition: PrimExpr) -> Scope:
    """Assume the parts of a scalar condition that do not read memory inside a `with` statement."""
    if type(condition) is IntImm:
        return _NOTHING_KNOWN
    return analyzer.constraint_scope(condition)


class ScopedRewriter(Rewriter):
    """A rewriter whose `analyzer` has the facts that hold at the rewritten node.

    An overriding method that visits a body itself must do so inside `inside_loop`, `inside_let` or
    `given`. A subclass that returns each node unchanged is a visitor.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.analyzer = analyzer_for(func)

    def within(self, node: Node, field: str) -> Scope:
        """Assume the facts that hold in a body of a node inside a `with` statement."""
        if isinstance(node, s.For):
            return inside_loop(self.analyzer, node)
        if isinstance(node, s.LetStmt):
            return inside_let(self.analyzer, node)
        condition = condition_of(node, field)
        return _NOTHING_KNOWN if condition is None else given(self.analyzer, condition)


def condition_of(node: Node, field: str) -> PrimExpr | None:
    """Return the condition on which a body of a node runs, None if it runs whenever the node does.

    A failed assertion ends the function, so its condition holds in the body.
    """
    if isinstance(node, s.IfThenElse):
        return node.condition if field == "then_case" else logical_not(node.condition)
    if isinstance(node, s.BlockRealize):
        return node.predicate
    return node.condition if isinstance(node, s.AssertStmt) else None


def controls(node: s.Stmt) -> list[PrimExpr]:
    """Return the expressions by which a statement decides what runs inside, and how often."""
    return [part for part in outside(node) if isinstance(part, PrimExpr)]


# --------------------------------------------------------------------------------- decided branches


IF_THEN_ELSE: Final = Op.get("if_then_else")
NOTHING: Final = s.sequence([])


class BranchDecider(Rewriter):
    """A rewriter that removes decided branches, and statements without an effect."""

    def rewrite_condition(self, node: PrimExpr) -> PrimExpr:
        """Return a condition rewritten."""
        return self(node)

    def given(self, condition: PrimExpr) -> AbstractContextManager[object]:
        """Assume a condition inside a `with` statement."""
        return nullcontext()

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        """Return a branch, or the case that its decided condition selects."""
        condition = self.rewrite_condition(node.condition)
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
        """Return an allocation, or nothing if its body is empty."""
        new = self.generic(node)
        return NOTHING if s.is_no_op(new.body) else new

    def rewrite_AttrStmt(self, node: s.AttrStmt) -> s.Stmt:  # noqa: N802
        """Return an attribute, or nothing if its body is empty."""
        new = self.generic(node)
        return NOTHING if s.is_no_op(new.body) else new

    def rewrite_Select(self, node: e.Select) -> PrimExpr:  # noqa: N802
        """Return a select, or the chosen value."""
        condition = self.rewrite_condition(node.condition)
        known = decided(condition)
        if known is not None:
            return self(node.true_value if known else node.false_value)
        yes, no = self(node.true_value), self(node.false_value)
        return node.changed(condition=condition, true_value=yes, false_value=no)

    def rewrite_Call(self, node: Call) -> PrimExpr:  # noqa: N802
        """Return a call; for a decided `T.if_then_else`, the chosen value."""
        if node.op is not IF_THEN_ELSE:
            return self.generic(node)
        test, yes, no = node.args
        condition = self.rewrite_condition(test)
        if type(condition) is IntImm:
            return self(yes if condition.value else no)
        args = (condition, self(yes), self(no))
        return node if all(map(is_, args, node.args)) else Call(node.dtype, node.op, args)


def branch(condition: PrimExpr, then_case: s.Stmt, else_case: s.Stmt) -> s.Stmt:
    """Return a branch; one case or both may be empty."""
    if s.is_no_op(else_case):
        if s.is_no_op(then_case):
            return s.Evaluate(condition) if has_effects(condition) else NOTHING
        return s.IfThenElse(condition, then_case)
    if s.is_no_op(then_case):
        return s.IfThenElse(logical_not(condition), else_case)
    return s.IfThenElse(condition, then_case, else_case)


def decided(condition: PrimExpr) -> bool | None:
    """Return the value of a condition in all lanes, None if it is unknown."""
    if type(condition) is Broadcast:
        condition = condition.value
    return bool(condition.value) if type(condition) is IntImm else None
