"""Turning `init` of reduction blocks into a branch."""

from __future__ import annotations

from codegen.lower.rewriters import StatementRewriter
from tensorir.function import PrimFunc
from tensorir.memory.empty_reductions import initialise_empty_reductions
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import EQ, IterVar
from tensorir.nodes.ops import TRUE, all_of, compare
from tensorir.rewriting.visit import rewrite


def lower_init(func: PrimFunc) -> PrimFunc:
    """Run the `init` of a block as the first part of its body.

    Before: with init: S; T
    After:  if vk == 0 and vr == 0: S
            T

    The condition holds if every reduction axis has the first value of its domain; a block without
    reduction axes always initialises. The results of reductions without a step are written before
    their loops.
    """
    func = initialise_empty_reductions(func)
    return func.with_body(rewrite(func.body, {s.Block: _with_init}, over=StatementRewriter()))


def _with_init(node: s.Block) -> s.Block:
    """Return a block whose init is a part of its body."""
    if node.init is None:
        return node
    at_first = all_of(
        compare(EQ, axis.var, axis.dom.min)
        for axis in node.iter_vars
        if axis.iter_type == IterVar.COMM_REDUCE and axis.dom is not None
    )
    init = node.init if at_first is TRUE else s.IfThenElse(at_first, node.init)
    return node.with_(init=None, body=s.sequence([init, node.body]))
