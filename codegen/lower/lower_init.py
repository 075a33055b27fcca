"""Turning `init` of reduction blocks into a branch."""

from __future__ import annotations

from tensorir.function import PrimFunc
from tensorir.memory.empty_reductions import initialise_empty_reductions
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import EQ, IterVar
from tensorir.nodes.ops import TRUE, all_of, compare
from tensorir.rewriting.visit import Rewriter


def lower_init(func: PrimFunc) -> PrimFunc:
    """Run the `init` of a block as the first part of its body.

    Before: with init: S; T
    After:  if vk == 0 and vr == 0: S
            T

    The condition says that every reduction axis is at the first value of its domain; a block
    without such axes initialises always. What reductions without a step leave is written before
    their loops.
    """
    func = initialise_empty_reductions(func)
    return func.with_body(_LowerInit()(func.body))


class _LowerInit(Rewriter):
    def rewrite_PrimExpr(self, node: object) -> object:  # noqa: N802
        return node

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        if node.init is None:
            body = self(node.body)
            return node if body is node.body else node.with_(body=body)
        at_first = all_of(
            compare(EQ, axis.var, axis.dom.min)
            for axis in node.iter_vars
            if axis.iter_type == IterVar.COMM_REDUCE and axis.dom is not None
        )
        init = self(node.init)
        if at_first is not TRUE:
            init = s.IfThenElse(at_first, init)
        return node.with_(init=None, body=s.sequence([init, self(node.body)]))
