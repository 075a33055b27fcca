"""The expressions that have the same value wherever and whenever they are evaluated."""

from __future__ import annotations

from tensorir.nodes import expr as e
from tensorir.nodes.expr import BufferLoad, Call, GlobalVar, IntImm, PrimExpr
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.node import Node
from tensorir.nodes.packed_call import CALL_PACKED
from tensorir.rewriting.visit import walk

_EXITS = frozenset({Op.get("ret"), CALL_PACKED})
_DIVISIONS = frozenset({e.Div, e.Mod, e.FloorDiv, e.FloorMod})


def is_pure(node: PrimExpr) -> bool:
    """Say whether `node` reads no memory and calls nothing with an effect.

    Its value then changes only with its variables: what is known of it stays known while they live.
    """
    return not any(type(part) is BufferLoad for part in walk(node)) and not has_effects(node)


def has_effects(node: PrimExpr) -> bool:
    """Say whether `node` calls something that does more than give a value."""
    return any(
        type(part) is Call
        and not (isinstance(part.op, Op) and part.op.effect in (Effect.PURE, Effect.ANNOTATION))
        for part in walk(node)
    )


def is_exit(part: Node) -> bool:
    """Say whether a node may end the function: `T.ret`, or a call of a function that may fail.

    Such are functions of the library and of the module. An assertion may end it as well.
    """
    return type(part) is Call and (part.op in _EXITS or type(part.op) is GlobalVar)


def may_run_anywhere(node: PrimExpr) -> bool:
    """Say whether `node` is pure and cannot fault: it divides integers by constants but 0 only."""
    return is_pure(node) and not any(
        type(part) in _DIVISIONS
        and part.dtype.is_integral  # type: ignore[attr-defined]
        and not (type(part.b) is IntImm and part.b.value != 0)  # type: ignore[attr-defined]
        for part in walk(node)
    )
