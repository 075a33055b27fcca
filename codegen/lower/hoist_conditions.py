"""Moving conditions out of loops on which they do not depend."""

from __future__ import annotations

from collections.abc import Callable

from codegen.lower.rewriters import StatementRewriter
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import EQ, Add, IntImm, Mul, PrimExpr, Var
from tensorir.nodes.ops import all_of, conjuncts, const
from tensorir.rewriting.visit import uses_var
from tensorir.semantics.purity import may_run_anywhere


def hoist_conditions(func: PrimFunc) -> PrimFunc:
    """Test conditions that do not change in a loop before the loop.

    Before: for k: if i < 30 and k < 5: S
    After:  if i < 30: for k: if k < 5: S

    Before: for k in range(n): (if k == 0: S); T          (an initialisation, n at least 1)
    After:  S; for k in range(n): T

    Conditions that may fault or that read memory stay, and none moves out of a launch. The parts
    of a conjunction move separately, and `k0 * 4 + k1 == 0` over loops that start at 0 counts as
    `k0 == 0 and k1 == 0`.
    """
    return func.with_body(_HoistConditions()(func.body))


class _HoistConditions(StatementRewriter):
    def __init__(self) -> None:
        self._from_zero: set[Var] = set()

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if node.kind is s.ForKind.THREAD_BINDING:
            return self.generic(node)
        if type(node.min) is IntImm and node.min.value == 0:
            self._from_zero.add(node.loop_var)
        body = self(node.body)
        first = _first_iteration(node, body)
        if first is not None:
            prologue, rest = first
            return s.sequence([prologue, self._guard(node, rest)])
        return self._guard(node, body)

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        new: s.IfThenElse = self.generic(node)
        parts = conjuncts(new.condition)
        split = [zero for part in parts for zero in self._zeros(part)]
        if len(split) == len(parts):
            return new
        return s.IfThenElse(all_of(split), new.then_case, new.else_case)

    def _zeros(self, condition: PrimExpr) -> list[PrimExpr]:
        """Split `a * 4 + b == 0`, where neither is negative, into `a == 0` and `b == 0`."""
        if type(condition) is EQ and type(condition.b) is IntImm and condition.b.value == 0:
            variables = _nonnegative_terms(condition.a, self._from_zero)
            if variables is not None:
                return [EQ(var, const(0, var.dtype)) for var in variables]
        return [condition]

    def _guard(self, node: s.For, body: s.Stmt) -> s.Stmt:
        invariant: list[PrimExpr] = []
        if type(body) is s.IfThenElse and body.else_case is None:
            invariant, varying = _divide_conjuncts(
                body.condition, lambda c: not uses_var(c, node.loop_var)
            )
            if invariant:
                body = s.IfThenElse(all_of(varying), body.then_case) if varying else body.then_case
        loop = node.changed(body=body)
        return s.IfThenElse(all_of(invariant), loop) if invariant else loop


def _nonnegative_terms(index: PrimExpr, from_zero: set[Var]) -> list[Var] | None:
    """Return the variables of a sum with positive constant factors; None for anything else."""
    if type(index) is Add:
        left = _nonnegative_terms(index.a, from_zero)
        right = _nonnegative_terms(index.b, from_zero)
        return None if left is None or right is None else left + right
    if type(index) is Mul and type(index.b) is IntImm and index.b.value > 0:
        return _nonnegative_terms(index.a, from_zero)
    return [index] if isinstance(index, Var) and index in from_zero else None


def _divide_conjuncts(
    condition: PrimExpr, test: Callable[[PrimExpr], bool]
) -> tuple[list[PrimExpr], list[PrimExpr]]:
    chosen: list[PrimExpr] = []
    others: list[PrimExpr] = []
    for part in conjuncts(condition):
        # Later parts may rely on earlier ones, so only parts that can be evaluated anywhere move.
        (chosen if may_run_anywhere(part) and test(part) else others).append(part)
    return chosen, others


def _first_iteration(loop: s.For, body: s.Stmt) -> tuple[s.Stmt, s.Stmt] | None:
    """Split off the first statement of the body if it runs in the first iteration only."""
    if type(body) is not s.SeqStmt or type(body.seq[0]) is not s.IfThenElse:
        return None
    if loop.kind is not s.ForKind.SERIAL and loop.kind is not s.ForKind.UNROLLED:
        return None
    if type(loop.extent) is not IntImm or loop.extent.value < 1:
        return None
    branch = body.seq[0]
    if branch.else_case is not None:
        return None
    at_first, others = _divide_conjuncts(branch.condition, lambda c: _is_first(c, loop))
    if not at_first or any(uses_var(c, loop.loop_var) for c in (*others, branch.then_case)):
        return None
    prologue = s.IfThenElse(all_of(others), branch.then_case) if others else branch.then_case
    return prologue, s.sequence(body.seq[1:])


def _is_first(condition: PrimExpr, loop: s.For) -> bool:
    """Return whether `condition` is `loop_var == min`."""
    if type(condition) is not EQ or type(loop.min) is not IntImm:
        return False
    a, b = condition.a, condition.b
    return a is loop.loop_var and type(b) is IntImm and b.value == loop.min.value
