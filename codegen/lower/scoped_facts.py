"""The scopes of facts: a fact lives as long as the loop, let, branch or assertion that gives it.

A loop's extent is positive inside the loop only, for it may run no iteration; a condition holds in
its branch. Every pass that reasons about integers enters and leaves these scopes in one way: passes
that rewrite derive from `ScopedRewriter`, those that only look use `inside_loop`, `inside_let` and
`given`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from codegen.lower.purity import is_pure
from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import const, logical_not
from tensorir.rewriting.visit import Rewriter

Scope = AbstractContextManager[object]
_NOTHING_KNOWN: Final[Scope] = nullcontext()


def analyzer_for(func: PrimFunc) -> Analyzer:
    """Return an analyzer that knows which variables of a function hold values that may wrap."""
    return Analyzer(values=value_variables(func))


def inside_loop(analyzer: Analyzer, loop: s.For) -> Scope:
    """Know the range of a loop's variable, for a `with` statement.

    Bounds that read memory say nothing lasting, for the loop may overwrite what was read.
    """
    if is_pure(loop.min) and is_pure(loop.extent):
        return analyzer.loop_scope(loop.loop_var, loop.min, loop.extent)
    return _NOTHING_KNOWN


def inside_let(analyzer: Analyzer, let: s.LetStmt) -> Scope:
    """Know that a variable stands for integer arithmetic, for a `with` statement."""
    value = let.value
    if not value.dtype.is_int or value.dtype.lanes > 1 or not is_pure(value):
        return _NOTHING_KNOWN
    # As in a loop that runs once.
    return analyzer.loop_scope(let.var, value, const(1, value.dtype))


def given(analyzer: Analyzer, condition: PrimExpr) -> Scope:
    """Know what a scalar condition says but of memory, for a `with` statement."""
    if type(condition) is IntImm:
        return _NOTHING_KNOWN
    return analyzer.constraint_scope(condition)


class ScopedRewriter(Rewriter):
    """A rewriter whose `analyzer` knows what holds at the node that is being rewritten.

    An overriding method that descends into a body itself does so inside `inside_loop`, `inside_let`
    or `given`.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.analyzer = analyzer_for(func)

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        """Rewrite bounds outside and body inside the loop."""
        low, extent = self(node.min), self(node.extent)
        with inside_loop(self.analyzer, node):
            body = self(node.body)
        if low is node.min and extent is node.extent and body is node.body:
            return node
        return s.For(
            node.loop_var, low, extent, node.kind, body, node.thread_binding, node.annotations
        )

    def rewrite_LetStmt(self, node: s.LetStmt) -> s.Stmt:  # noqa: N802
        """Rewrite the body inside the let."""
        value = self(node.value)
        with inside_let(self.analyzer, node):
            body = self(node.body)
        if value is node.value and body is node.body:
            return node
        return s.LetStmt(node.var, value, body)

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        """Rewrite each branch where its condition holds."""
        condition = self(node.condition)
        with given(self.analyzer, node.condition):
            then_case = self(node.then_case)
        else_case = node.else_case
        if else_case is not None:
            with given(self.analyzer, logical_not(node.condition)):
                else_case = self(else_case)
        if (
            condition is node.condition
            and then_case is node.then_case
            and else_case is node.else_case
        ):
            return node
        return s.IfThenElse(condition, then_case, else_case)

    def rewrite_AssertStmt(self, node: s.AssertStmt) -> s.Stmt:  # noqa: N802
        """Rewrite the body where the assertion holds."""
        condition = self(node.condition)
        with given(self.analyzer, node.condition):
            body = self(node.body)
        if condition is node.condition and body is node.body:
            return node
        return s.AssertStmt(condition, node.message, body)

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        """Rewrite the block where its predicate holds."""
        values, predicate = self.each(node.iter_values), self(node.predicate)
        with given(self.analyzer, node.predicate):
            block = self(node.block)
        if values is node.iter_values and predicate is node.predicate and block is node.block:
            return node
        return s.BlockRealize(values, predicate, block)
