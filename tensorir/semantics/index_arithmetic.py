"""Which integer arithmetic cannot overflow, and which wraps."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from tensorir import expr as e
from tensorir.expr import Call, PrimExpr, Var

_BINARY: Final = (
    *(e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max),
    *(e.EQ, e.NE, e.LT, e.LE, e.GT, e.GE, e.And, e.Or),
)
_OPERANDS: Final[dict[type, tuple[str, ...]]] = {
    **dict.fromkeys(_BINARY, ("a", "b")),
    e.IntImm: (),
    e.Not: ("a",),
    e.Cast: ("value",),
    e.Select: ("condition", "true_value", "false_value"),
    e.Ramp: ("base", "stride"),
    e.Broadcast: ("value",),
    # The variable stands for its value.
    e.Let: ("value", "body"),
}
"""Nodes that are index arithmetic if their operands are."""
_CHOICES: Final = frozenset({"likely", "if_then_else"})
"""Intrinsics that give one of their operands."""


def is_index_arithmetic(node: PrimExpr, values: Container[Var] = frozenset()) -> bool:
    """Say whether an expression is computed from loop variables, axes, shapes and constants alone.

    `values` are the variables that hold values; `tensorir.value_variables` finds those of a
    function. A condition over index arithmetic is index arithmetic as well.
    """
    dtype = node.dtype
    if not (dtype.is_bool or (dtype.is_int and dtype.bits >= 32)):
        return False
    if isinstance(node, Var):
        return node not in values
    if isinstance(node, Call):
        name = getattr(node.op, "short_name", "")
        return name in _CHOICES and all(is_index_arithmetic(a, values) for a in node.args)
    operands = _OPERANDS.get(type(node))
    return operands is not None and all(
        is_index_arithmetic(getattr(node, name), values) for name in operands
    )
