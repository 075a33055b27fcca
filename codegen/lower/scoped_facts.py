"""What holds where: a fact lives as long as the loop, let, branch or assertion that gives it.

A loop's extent is positive inside the loop only, for it may run no iteration; a condition holds in
its branch. Every pass that reasons about integers enters and leaves these scopes in one way: passes
that rewrite derive from `ScopedRewriter`, those that only look use `inside_loop`, `inside_let` and
`given`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from codegen.lower.purity import is_pure
from tensorir import stmt as s
from tensorir.arith import Analyzer
from tensorir.expr import PrimExpr
from tensorir.ops import logical_not
from tensorir.visit import Rewriter


@contextmanager
def inside_loop(analyzer: Analyzer, loop: s.For) -> Iterator[None]:
    """Know the range of a loop's variable, inside a `with` statement.

    Bounds that read memory say nothing lasting, for the loop may overwrite what was read.
    """
    if is_pure(loop.min) and is_pure(loop.extent):
        with analyzer.loop_scope(loop.loop_var, loop.min, loop.extent):
            yield
    else:
        yield


@contextmanager
def inside_let(analyzer: Analyzer, let: s.LetStmt) -> Iterator[None]:
    """Know that a variable stands for integer arithmetic, inside a `with` statement."""
    value = let.value
    if not value.dtype.is_int or value.dtype.lanes > 1 or not is_pure(value):
        yield
        return
    with analyzer.scope():
        analyzer.bind(let.var, value)
        yield


@contextmanager
def given(analyzer: Analyzer, condition: PrimExpr) -> Iterator[None]:
    """Know what a scalar condition says but of memory, inside a `with` statement."""
    with analyzer.constraint_scope(condition):
        yield


class ScopedRewriter(Rewriter):
    """A rewriter whose `analyzer` knows what holds at the node that is being rewritten.

    An overriding method that descends into a body itself does so inside `loop_scope`, `let_scope`
    or `condition_scope`.
    """

    def __init__(self) -> None:
        self.analyzer = Analyzer()

    @contextmanager
    def loop_scope(self, node: s.For) -> Iterator[None]:
        """Be in the body of a loop, inside a `with` statement."""
        with inside_loop(self.analyzer, node), self.new_scope():
            yield

    @contextmanager
    def let_scope(self, node: s.LetStmt) -> Iterator[None]:
        """Be in the body of a let, inside a `with` statement."""
        with inside_let(self.analyzer, node), self.new_scope():
            yield

    @contextmanager
    def condition_scope(self, condition: PrimExpr) -> Iterator[None]:
        """Be where `condition` holds, inside a `with` statement."""
        with given(self.analyzer, condition), self.new_scope():
            yield

    @contextmanager
    def new_scope(self) -> Iterator[None]:
        """Set apart what a subclass remembers inside one scope; override together with it."""
        yield

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        """Rewrite bounds outside and body inside the loop."""
        low, extent = self(node.min), self(node.extent)
        with self.loop_scope(node):
            body = self(node.body)
        if low is node.min and extent is node.extent and body is node.body:
            return node
        return node.with_(min=low, extent=extent, body=body)

    def rewrite_LetStmt(self, node: s.LetStmt) -> s.Stmt:  # noqa: N802
        """Rewrite the body inside the let."""
        value = self(node.value)
        with self.let_scope(node):
            body = self(node.body)
        if value is node.value and body is node.body:
            return node
        return s.LetStmt(node.var, value, body)

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        """Rewrite each branch where its condition holds."""
        condition = self(node.condition)
        with self.condition_scope(node.condition):
            then_case = self(node.then_case)
        else_case = node.else_case
        if else_case is not None:
            with self.condition_scope(logical_not(node.condition)):
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
        with self.condition_scope(node.condition):
            body = self(node.body)
        if condition is node.condition and body is node.body:
            return node
        return s.AssertStmt(condition, node.message, body)

    def rewrite_BlockRealize(self, node: s.BlockRealize) -> s.Stmt:  # noqa: N802
        """Rewrite the block where its predicate holds."""
        values, predicate = self.each(node.iter_values), self(node.predicate)
        with self.condition_scope(node.predicate):
            block = self(node.block)
        if values is node.iter_values and predicate is node.predicate and block is node.block:
            return node
        return s.BlockRealize(values, predicate, block)
