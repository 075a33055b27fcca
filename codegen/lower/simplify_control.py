"""Deciding branches, and removing loops that run once or never."""

from __future__ import annotations

from typing import Any

from codegen.lower.purity import has_effects, is_pure
from codegen.lower.scoped_facts import ScopedRewriter, given, inside_loop
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import if_then_else, logical_not, select
from tensorir.rewriting.visit import collect_vars, substitute

_IF_THEN_ELSE = Op.get("if_then_else")


def simplify_control(func: PrimFunc) -> PrimFunc:
    """Simplify conditions, loop bounds and integer values by what is known of loop variables.

    A branch whose condition is decided goes; inside a branch its condition is known to hold. A
    loop of extent 0 goes, one of extent 1 is replaced by its body, unless it carries annotations,
    which are meant for the loops inside it. Indices of loads and stores are left as they are:
    flattening has simplified them.
    """
    return func.with_body(_SimplifyControl(func)(func.body))


class _SimplifyControl(ScopedRewriter):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self._units: dict[Var, PrimExpr] = {}
        self._in_arithmetic = False

    # ---------------------------------------------------------------------------------- statements

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        extent = self._integer(node.extent)
        low = self._integer(node.min)
        if type(extent) is IntImm and extent.value <= 0:
            return _NOTHING
        if type(extent) is IntImm and extent.value == 1 and not node.annotations:
            if not is_pure(low):
                return s.LetStmt(node.loop_var, low, self(node.body))
            self._units[node.loop_var] = low
            with inside_loop(self.analyzer, node):
                return self(node.body)
        with inside_loop(self.analyzer, node):
            body = self(node.body)
        if s.is_no_op(body) and not has_effects(low) and not has_effects(extent):
            return _NOTHING
        if body is node.body and low is node.min and extent is node.extent:
            return node
        return s.For(node.loop_var, low, extent, node.kind, body, None, node.annotations)

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        condition = self._condition(node.condition)
        if type(condition) is IntImm:
            taken = node.then_case if condition.value else node.else_case
            return _NOTHING if taken is None else self(taken)
        with given(self.analyzer, condition):
            then_case = self(node.then_case)
        else_case = None
        if node.else_case is not None:
            with given(self.analyzer, logical_not(condition)):
                else_case = self(node.else_case)
            if s.is_no_op(else_case):
                else_case = None
        if s.is_no_op(then_case):
            if else_case is None:
                return s.Evaluate(condition) if has_effects(condition) else _NOTHING
            return s.IfThenElse(logical_not(condition), else_case)
        return s.IfThenElse(condition, then_case, else_case)

    def rewrite_AssertStmt(self, node: s.AssertStmt) -> s.Stmt:  # noqa: N802
        condition = self._condition(node.condition)
        if type(condition) is IntImm and condition.value:
            return self(node.body)
        with given(self.analyzer, condition):
            return s.AssertStmt(condition, node.message, self(node.body))

    def rewrite_Allocate(self, node: s.Allocate) -> s.Stmt:  # noqa: N802
        new = self.generic(node)
        return _NOTHING if s.is_no_op(new.body) else new

    def rewrite_AttrStmt(self, node: s.AttrStmt) -> s.Stmt:  # noqa: N802
        new = self.generic(node)
        return _NOTHING if s.is_no_op(new.body) else new

    # --------------------------------------------------------------------------------- expressions

    def _integer(self, node: PrimExpr) -> PrimExpr:
        return node if type(node) is IntImm else self._reduced(node)

    def _condition(self, node: PrimExpr) -> PrimExpr:
        return node if type(node) is IntImm else self._reduced(self(node))

    def _reduced(self, node: PrimExpr) -> PrimExpr:
        """Simplify an expression, unless a call in it does more than give a value.

        Two such calls are not the same number, and none of them may go.
        """
        return node if has_effects(node) else self.analyzer.simplify(node)

    def rewrite_Var(self, node: Var) -> PrimExpr:  # noqa: N802
        return self._units.get(node, node)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        indices = self._indices(node.indices)
        if node.predicate is None and indices is node.indices:
            return node
        return BufferLoad(node.buffer, indices, self.maybe(node.predicate))

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        value, predicate = self(node.value), self.maybe(node.predicate)
        indices = self._indices(node.indices)
        if value is node.value and predicate is node.predicate and indices is node.indices:
            return node
        return s.BufferStore(node.buffer, value, indices, predicate)

    def _indices(self, indices: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
        """Return indices without the loops that are gone: flattening drops most of them."""
        if not self._units:
            return indices
        if not any(part in self._units for index in indices for part in collect_vars(index)):
            return indices
        return tuple(substitute(index, self._units) for index in indices)

    def rewrite_BinaryOp(self, node: e.BinaryOp) -> PrimExpr:  # noqa: N802
        if node.dtype.is_int and node.dtype.lanes == 1:
            return self._simplified(node)
        return self.generic(node)

    def rewrite_CmpOp(self, node: e.CmpOp) -> PrimExpr:  # noqa: N802
        return self._simplified(node)

    def _simplified(self, node: PrimExpr) -> PrimExpr:
        """Simplify arithmetic as a whole.

        A value that is a constant would look like an index if operands were simplified first, and
        what is added to it would be taken not to overflow.
        """
        if self._in_arithmetic:
            return self.generic(node)
        self._in_arithmetic = True
        try:
            inner = self.generic(node)
        finally:
            self._in_arithmetic = False
        return self._reduced(inner)

    def rewrite_Select(self, node: e.Select) -> PrimExpr:  # noqa: N802
        if self._in_arithmetic:
            return self.generic(node)
        condition = self._condition(node.condition)
        if type(condition) is IntImm:
            return self(node.true_value if condition.value else node.false_value)
        yes, no = self(node.true_value), self(node.false_value)
        same = condition is node.condition and yes is node.true_value and no is node.false_value
        return node if same else select(condition, yes, no)

    def rewrite_Call(self, node: Call) -> PrimExpr:  # noqa: N802
        if node.op is not _IF_THEN_ELSE or self._in_arithmetic:
            return self.generic(node)
        condition = self._condition(node.args[0])
        if type(condition) is IntImm:
            return self(node.args[1] if condition.value else node.args[2])
        return if_then_else(condition, self(node.args[1]), self(node.args[2]))

    def value(self, value: Any) -> Any:
        return value


_NOTHING = s.sequence([])
