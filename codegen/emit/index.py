"""Index arithmetic in 64 bits.

A sum of products that makes up an index is computed in 64 bits from its leaves, with `nsw`: an
index that overflows its dtype is out of bounds anyway, and LLVM can then see through the addresses
of a whole loop nest without widening induction variables itself. Under a division or modulo the
exact value matters, so there 64 bits are used only if nothing in the operand can wrap around.
"""

from __future__ import annotations

from typing import Final

from codegen.emit.bounds import exact_interval
from codegen.emit.context import INDEX, FunctionEmitter
from codegen.emit.integer import divide
from codegen.emit.llvm_types import register_type
from tensorir import expr as e
from tensorir.dtype import INT64, DataType
from tensorir.expr import IntImm, PrimExpr, Var

_LINEAR: Final[dict[type, str]] = {e.Add: "add", e.Sub: "sub", e.Mul: "mul"}
_DIVISIONS: Final = frozenset({e.FloorDiv, e.FloorMod, e.Div, e.Mod})
_EXTREMA: Final[dict[type, str]] = {e.Min: "smin", e.Max: "smax"}


def emit_index(f: FunctionEmitter, node: PrimExpr) -> str:
    """Write the evaluation of a scalar integer expression; return its 64-bit value."""
    kind = type(node)
    if kind is IntImm:
        return str(node.value)  # type: ignore[attr-defined]
    if kind is Var or kind is e.SizeVar:
        known = f.wide.get(node)  # type: ignore[call-overload]
        return known if known is not None else widened(f, f.expr(node), node.dtype)
    known = f.index_values.get(id(node))
    if known is None:
        # Lowering makes equal indices one object, so that unrolled copies share their addresses.
        known = f.index_values[id(node)] = _computed(f, node, kind)
    return known


def _computed(f: FunctionEmitter, node: PrimExpr, kind: type) -> str:
    name = _LINEAR.get(kind)
    if name is not None:
        left = emit_index(f, node.a)  # type: ignore[attr-defined]
        return f.op(f"{name} nsw i64 {left}, {emit_index(f, node.b)}")  # type: ignore[attr-defined]
    if kind is e.Cast and node.value.dtype.is_int and node.dtype.bits > node.value.dtype.bits:  # type: ignore[attr-defined]
        return emit_index(f, node.value)  # type: ignore[attr-defined]
    if isinstance(node, e.BinaryOp) and node.dtype.is_integral:
        wide = _exact_binary(f, node)
        if wide is not None:
            return wide
    return widened(f, f.expr(node), node.dtype)


INDEX.append(emit_index)


def _exact_binary(f: FunctionEmitter, node: e.BinaryOp) -> str | None:
    kind = type(node)
    a = exact_interval(node.a, f.ranges)
    b = exact_interval(node.b, f.ranges)
    if a is None or b is None:
        return None
    if kind in _DIVISIONS and max(abs(v) for v in (*a, *b)) < 1 << 63:
        left, right = emit_index(f, node.a), emit_index(f, node.b)
        return divide(f, kind, INT64, left, right, a, b)
    name = _EXTREMA.get(kind)
    if name is None or max(*a, *b) >= 1 << 63:
        return None
    return f.math_intrinsic(name, INT64, emit_index(f, node.a), emit_index(f, node.b))


def widened(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Return an integer of `dtype` (any number of lanes) extended to 64 bits."""
    if dtype.bits == 64:
        return value
    extend = "sext" if dtype.is_int else "zext"
    wide = register_type(INT64.with_lanes(dtype.lanes))
    return f.op(f"{extend} {register_type(dtype)} {value} to {wide}")


def linear_lanes(f: FunctionEmitter, node: PrimExpr) -> tuple[str, int] | None:
    """Write a vector index whose lanes are evenly spaced: its first lane and constant distance.

    Returns None, having written nothing, for any other index.
    """
    stride = _lane_distance(node)
    return None if stride is None else (_first_lane(f, node), stride)


def _lane_distance(node: PrimExpr) -> int | None:
    kind = type(node)
    if kind is e.Ramp:
        stride = node.stride  # type: ignore[attr-defined]
        return int(stride) if type(stride) is IntImm else None
    if kind is e.Broadcast:
        return 0
    if kind is e.Cast and node.dtype.bits > node.value.dtype.bits and node.value.dtype.is_int:  # type: ignore[attr-defined]
        return _lane_distance(node.value)  # type: ignore[attr-defined]
    if kind in _LINEAR:
        a, b = _lane_distance(node.a), _lane_distance(node.b)  # type: ignore[attr-defined]
        if a is None or b is None:
            return None
        if kind is e.Add:
            return a + b
        if kind is e.Sub:
            return a - b
        left, right = _broadcast_constant(node.a), _broadcast_constant(node.b)  # type: ignore[attr-defined]
        if a == 0 and b == 0:
            return 0
        if right is not None:
            return a * right
        return None if left is None else b * left
    return None


def _broadcast_constant(node: PrimExpr) -> int | None:
    if type(node) is not e.Broadcast or type(node.value) is not IntImm:
        return None
    return int(node.value)


def _first_lane(f: FunctionEmitter, node: PrimExpr) -> str:
    kind = type(node)
    if kind is e.Ramp:
        return emit_index(f, node.base)  # type: ignore[attr-defined]
    if kind is e.Broadcast:
        return emit_index(f, node.value)  # type: ignore[attr-defined]
    if kind is e.Cast:
        return _first_lane(f, node.value)  # type: ignore[attr-defined]
    left = _first_lane(f, node.a)  # type: ignore[attr-defined]
    return f.op(f"{_LINEAR[kind]} nsw i64 {left}, {_first_lane(f, node.b)}")  # type: ignore[attr-defined]
