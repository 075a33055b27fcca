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
    for part in walk(node):
        kind = type(part)
        if kind is BufferLoad:
            return False
        if kind is Call and not (
            isinstance(part.op, Op)  # type: ignore[attr-defined]
            and part.op.effect in (Effect.PURE, Effect.ANNOTATION)  # type: ignore[attr-defined]
        ):
            return False
    return True


def may_run_anywhere(node: PrimExpr) -> bool:
    """Say whether `node` is pure and cannot fault: it divides integers by constants but 0 only."""
    return is_pure(node) and not any(
        type(part) in _DIVISIONS
        and part.dtype.is_integral  # type: ignore[attr-defined]
        and not (type(part.b) is IntImm and part.b.value != 0)  # type: ignore[attr-defined]
        for part in walk(node)
    )
