"""Values that a body binds by lets before it stores them."""

from __future__ import annotations

from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.stmt import LetStmt, Stmt
from tensorir.rewriting.visit import substitute


def bound_values(body: Stmt) -> tuple[dict[Var, PrimExpr], Stmt]:
    """Return the values that lets around a statement bind, outermost first, and the statement."""
    values: dict[Var, PrimExpr] = {}
    while isinstance(body, LetStmt):
        values[body.var] = body.value
        body = body.body
    return values, body


def written_out(body: Stmt) -> Stmt:
    """Return the statement inside lets, with the values in the places of their variables."""
    values, inner = bound_values(body)
    for var, value in reversed(values.items()):
        inner = substitute(inner, {var: value})
    return inner
