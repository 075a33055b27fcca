"""Calls for their effect, whose number and order must stay as they are."""

from __future__ import annotations

from schedule.errors import Problem, fail
from schedule.sref import StmtSRef
from tensorir.nodes.expr import Call
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.stmt import Block
from tensorir.rewriting.visit import walk

EFFECT = Problem(
    "OpaqueCallError",
    "{0} calls `{call}`, which may have an effect or give another value each time, and would run "
    "another number of times or in another order",
    "a call that does neither is written as T.call_pure_extern or T.call_llvm_pure_intrin",
)


def check_no_effect(block: StmtSRef) -> None:
    """Raise if a block calls something for its effect."""
    call = effect_in(block.block)
    if call is not None:
        fail(EFFECT, block, call=call)


def effect_in(block: Block) -> Call | None:
    """Return a call in a block that is made for its effect, None if there is none."""
    for node in walk(block.body):
        if isinstance(node, Call) and (
            not isinstance(node.op, Op) or node.op.effect in (Effect.OPAQUE, Effect.JUMP)
        ):
            return node
    return None
