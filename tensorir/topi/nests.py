"""Loop nests of stages that are statements, with steps that may write one element in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, const
from tensorir.nodes.stmt import Block, BlockRealize, For, ForKind, Stmt
from tensorir.script.parts import complete_block


def block_nest(
    name: str,
    extents: Sequence[PrimExpr],
    in_order: Sequence[bool],
    body: Callable[[Sequence[PrimExpr]], Stmt],
    visible: dict[Var, Buffer],
) -> Stmt:
    """Return a block in a loop nest; `in_order` loops must run sequentially."""
    loops = [Var(f"i{k}", INT64) for k in range(len(extents))]
    axes = [Var(f"v_i{k}", INT64) for k in range(len(extents))]
    iters = [
        IterVar(Range(n), axis, IterVar.OPAQUE if ordered else IterVar.DATA_PAR)
        for n, axis, ordered in zip(extents, axes, in_order, strict=True)
    ]
    if not iters:
        return body([])
    block = complete_block(Block(iters, (), (), name, body(axes)), (True, True), visible)
    stmt: Stmt = BlockRealize(loops, TRUE, block)
    for loop, n in reversed(list(zip(loops, extents, strict=True))):
        stmt = For(loop, const(0, INT64), n, ForKind.SERIAL, stmt)
    return stmt
