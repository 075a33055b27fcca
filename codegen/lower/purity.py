"""Which expressions have the same value wherever and whenever they are evaluated."""

from __future__ import annotations

from tensorir import expr as e
from tensorir.expr import BufferLoad, Call, IntImm, PrimExpr
from tensorir.intrin import Effect, Op
from tensorir.visit import walk

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


def may_run_anywhere(node: PrimExpr) -> bool:
    """Say whether `node` is pure and cannot fault: it divides integers by constants but 0 only."""
    return is_pure(node) and not any(
        type(part) in _DIVISIONS
        and part.dtype.is_integral  # type: ignore[attr-defined]
        and not (type(part.b) is IntImm and part.b.value != 0)  # type: ignore[attr-defined]
        for part in walk(node)
    )
