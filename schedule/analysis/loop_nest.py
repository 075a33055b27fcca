"""Building loop nests."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.nodes.expr import PrimExpr, Var
from tensorir.nodes.ops import const
from tensorir.nodes.stmt import For, ForKind, Stmt


def nest_of_loops(loops: Sequence[tuple[Var, PrimExpr]], body: Stmt) -> Stmt:
    """Return serial loops from 0 over the given extents, outermost first, around `body`."""
    for loop_var, extent in reversed(loops):
        body = For(loop_var, const(0, loop_var.dtype), extent, ForKind.SERIAL, body)
    return body
