"""Building loop nests."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.expr import PrimExpr, Var
from tensorir.ops import const
from tensorir.stmt import For, ForKind, Stmt


def nest_of_loops(loops: Sequence[tuple[Var, PrimExpr]], body: Stmt) -> Stmt:
    """Return serial loops from 0 over the given extents, outermost first, around `body`."""
    for loop_var, extent in reversed(loops):
        body = For(loop_var, const(0, loop_var.dtype), extent, ForKind.SERIAL, body)
    return body
