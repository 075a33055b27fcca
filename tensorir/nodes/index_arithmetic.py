"""The distinction of index arithmetic, which cannot overflow, from arithmetic that wraps around."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Call, PrimExpr, Var

_TRANSPARENT = frozenset({"likely", "if_then_else"})
"""Intrinsics that return one of their operands."""


def is_index_arithmetic(
    node: PrimExpr,
    values: Container[Var] = frozenset(),
    known: dict[PrimExpr, bool] | None = None,
) -> bool:
    """Return True if an expression depends only on loop variables, axes, shapes and constants.

    `values` are the variables that hold run-time values: see `tensorir.memory.value_variables`. A
    condition over index arithmetic is index arithmetic as well. `known` caches the results for
    repeated calls on nested expressions.
    """
    if known is None:
        return _is_index(node, values, None)
    found = known.get(node)
    if found is None:
        found = known[node] = _is_index(node, values, known)
    return found


def _is_index(node: PrimExpr, values: Container[Var], known: dict[PrimExpr, bool] | None) -> bool:
    kind = type(node)
    if kind in _BINARY:
        # Operands have the type of the result, so only leaves and casts have to be inspected.
        return is_index_arithmetic(node.a, values, known) and is_index_arithmetic(  # type: ignore[attr-defined]
            node.b,  # type: ignore[attr-defined]
            values,
            known,
        )
    if kind is e.IntImm:
        return _is_index_type(node.dtype)
    if isinstance(node, Var):
        return _is_index_type(node.dtype) and node not in values
    if isinstance(node, Call):
        name = getattr(node.op, "short_name", "")
        return name in _TRANSPARENT and all(
            is_index_arithmetic(a, values, known) for a in node.args
        )
    if kind is e.Cast and not _is_index_type(node.dtype):
        return False
    parts = _OPERANDS.get(kind)
    return parts is not None and all(
        is_index_arithmetic(getattr(node, name), values, known) for name in parts
    )


def holds_indices(dtype: DataType) -> bool:
    """Return True if numbers of a dtype may be indices, whose arithmetic does not overflow."""
    return dtype.is_int and dtype.bits >= 32


def is_scalar_integer(dtype: DataType) -> bool:
    """Return True for the dtype of a scalar integer; bool is not an integer here."""
    return dtype.is_integral and dtype.lanes == 1 and not dtype.is_bool


def _is_index_type(dtype: DataType) -> bool:
    return dtype.is_bool or holds_indices(dtype)


_BINARY = frozenset(e.BINARY_OPS)
_OPERANDS: dict[type, tuple[str, ...]] = {
    e.Not: ("a",),
    e.Cast: ("value",),
    e.Select: ("condition", "true_value", "false_value"),
    e.Ramp: ("base", "stride"),
    e.Broadcast: ("value",),
    # A bound variable counts as its value.
    e.Let: ("value", "body"),
}
INDEX_NODES: Final = frozenset({*_BINARY, *_OPERANDS, e.IntImm, e.Var, e.SizeVar, Call})
"""The node classes of index arithmetic."""
