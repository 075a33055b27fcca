"""A program that stops where an index that is in its arguments is outside of what it indexes.

Indices that follow from loops alone are known to be inside when a program is built. Those that are
data are not: made up or given by a user, they may reach memory that belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from search.runner.argument_values import Requirements, choice_of
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, PrimExpr, StringImm
from tensorir.nodes.ops import cast, if_then_else
from tensorir.rewriting.fresh_copy import renew_defs
from tensorir.rewriting.visit import Rewriter, children


def with_checked_indices(func: PrimFunc) -> PrimFunc | None:
    """Return a copy of a function that fails where an index that is data is outside.

    Its loops are all serial. None if it has no such index.
    """
    copy = renew_defs(func)
    checker = _Checker(copy)
    body = checker(copy.body)
    return copy.with_body(body) if checker.found else None


class _Checker(Rewriter):
    """Puts assertions around the statements that read or write at indices that are data."""

    def __init__(self, func: PrimFunc) -> None:
        self._program = Requirements(func)
        self.found = False

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        serial = s.For(node.loop_var, node.min, node.extent, s.ForKind.SERIAL, self(node.body))
        return self._checked(serial, node.min, node.extent)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        inside = [*self._inside(node, lambda condition: condition)]
        return self._checked(node, *node.indices, node.value, own=inside)

    def rewrite_Evaluate(self, node: s.Evaluate) -> s.Stmt:  # noqa: N802
        return self._checked(node, node.value)

    def rewrite_LetStmt(self, node: s.LetStmt) -> s.Stmt:  # noqa: N802
        return self._checked(self.generic(node), node.value)

    def rewrite_IfThenElse(self, node: s.IfThenElse) -> s.Stmt:  # noqa: N802
        return self._checked(self.generic(node), node.condition)

    def _checked(
        self, node: s.Stmt, *exprs: PrimExpr, own: list[tuple[PrimExpr, str]] | None = None
    ) -> s.Stmt:
        checks = [check for x in exprs for check in self._checks(x, lambda c: c)] + (own or [])
        for condition, text in reversed(checks):
            self.found = True
            node = s.AssertStmt(condition, StringImm(text), node)
        return node

    def _checks(
        self, expr: PrimExpr, under: Callable[[PrimExpr], PrimExpr]
    ) -> Iterator[tuple[PrimExpr, str]]:
        """Yield the conditions for all loads in an expression, those in indices first.

        `under` makes a condition one that holds where the expression is not computed.
        """
        chosen = choice_of(expr) if isinstance(expr, e.Call) else None
        if chosen is not None:
            condition, if_true, if_false = chosen
            yes = e.IntImm("bool", 1)
            yield from self._checks(condition, under)
            yield from self._checks(if_true, lambda c: under(if_then_else(condition, c, yes)))
            yield from self._checks(if_false, lambda c: under(if_then_else(condition, yes, c)))
            return
        if isinstance(expr, e.Let):
            var, value = expr.var, expr.value
            yield from self._checks(value, under)
            yield from self._checks(expr.body, lambda c: under(e.Let(var, value, c)))
            return
        for part in children(expr):
            if isinstance(part, PrimExpr):
                yield from self._checks(part, under)
        if isinstance(expr, BufferLoad):
            yield from self._inside(expr, under)

    def _inside(
        self, access: BufferLoad | s.BufferStore, under: Callable[[PrimExpr], PrimExpr]
    ) -> Iterator[tuple[PrimExpr, str]]:
        for axis, (index, extent) in enumerate(
            zip(access.indices, access.buffer.shape, strict=True)
        ):
            names = [buffer.name for buffer in self._program.arguments_in(index)]
            if names and index.dtype.lanes == 1:
                low = e.LE(e.IntImm(index.dtype, 0), index)
                high = e.LT(index, cast(index.dtype, extent))
                what = "written" if isinstance(access, s.BufferStore) else "read"
                remedy = ", ".join(f'"{name}": ...' for name in names)
                yield (
                    under(e.And(low, high)),
                    f"{access.buffer.name} is {what} outside of its {extent} places along axis "
                    f"{axis}, at {index}; give arrays that stay inside with "
                    f"input_data={{{remedy}}}",
                )
