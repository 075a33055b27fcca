"""The scopes of facts: a fact lives as long as the loop, let, branch or assertion that gives it.

A loop's extent is positive inside the loop only, for it may run no iteration; a condition holds in
its branch. Every pass that reasons about integers enters and leaves these scopes in one way: it
derives from `ScopedRewriter`, also if it only looks.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.node import Node
from tensorir.nodes.ops import const, logical_not
from tensorir.rewriting.visit import Rewriter
from tensorir.semantics.purity import is_pure

Scope = AbstractContextManager[object]
_NOTHING_KNOWN: Final[Scope] = nullcontext()


def analyzer_for(func: PrimFunc) -> Analyzer:
    """Return an analyzer with the variables of a function that hold wrapping values marked."""
    return Analyzer(values=value_variables(func))


def inside_loop(analyzer: Analyzer, loop: s.For) -> Scope:
    """Bind the range of a loop's variable inside a `with` statement.

    Bounds that read memory say nothing lasting, for the loop may overwrite what was read.
    """
    if is_pure(loop.min) and is_pure(loop.extent):
        return analyzer.loop_scope(loop.loop_var, loop.min, loop.extent)
    return _NOTHING_KNOWN


def inside_let(analyzer: Analyzer, let: s.LetStmt) -> Scope:
    """Bind a variable to its integer arithmetic inside a `with` statement."""
    value = let.value
    if not value.dtype.is_int or value.dtype.lanes > 1 or not is_pure(value):
        return _NOTHING_KNOWN
    # As in a loop that runs once.
    return analyzer.loop_scope(let.var, value, const(1, value.dtype))


def given(analyzer: Analyzer, condition: PrimExpr) -> Scope:
    """Assume the parts of a scalar condition that do not read memory inside a `with` statement."""
    if type(condition) is IntImm:
        return _NOTHING_KNOWN
    return analyzer.constraint_scope(condition)


class ScopedRewriter(Rewriter):
    """A rewriter whose `analyzer` has the facts that hold at the rewritten node.

    An overriding method that descends into a body itself does so inside `inside_loop`, `inside_let`
    or `given`. A subclass that returns each node unchanged is a visitor.
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

    An assertion ends the function where it does not hold.
    """
    if isinstance(node, s.IfThenElse):
        return node.condition if field == "then_case" else logical_not(node.condition)
    if isinstance(node, s.BlockRealize):
        return node.predicate
    return node.condition if isinstance(node, s.AssertStmt) else None
