"""Predicates on side effects: expressions whose value does not depend on the time of evaluation."""

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
    """Return True if `node` reads no memory and calls no function with an effect.

    Its value then depends only on its variables, so facts about it hold while these are in scope.
    """
    return not any(type(part) is BufferLoad for part in walk(node)) and not has_effects(node)


def has_effects(node: PrimExpr) -> bool:
    """Return True if `node` contains a call with a side effect."""
    return any(
        type(part) is Call
        and not (isinstance(part.op, Op) and part.op.effect in (Effect.PURE, Effect.ANNOTATION))
        for part in walk(node)
    )


def is_exit(part: Node) -> bool:
    """Return True if a node may end the function: `T.ret`, an assertion, or a call that may fail.

    Calls of library functions and of functions of the module may fail.
    """
    return type(part) is Call and (part.op in _EXITS or type(part.op) is GlobalVar)


def may_run_anywhere(node: PrimExpr) -> bool:
    """Return True if `node` is pure and has only nonzero constants as integer divisors."""
    return is_pure(node) and not any(
        type(part) in _DIVISIONS
        and part.dtype.is_integral  # type: ignore[attr-defined]
        and not (type(part.b) is IntImm and part.b.value != 0)  # type: ignore[attr-defined]
        for part in walk(node)
    )
