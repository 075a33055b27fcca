"""Indices as values of one width, of one lane or several.

Index arithmetic (`tensorir.nodes.index_arithmetic`) does not overflow, as lowering has checked. It
is computed from its leaves in the index type of the function, with `nsw`, so that LLVM can analyse
the addresses of a whole loop nest without widening induction variables itself. The index type has
64 bits. A kernel of a GPU, whose registers have 32, uses 32 if all indices fit (`index_width`).
Value arithmetic wraps at the width of its type: it is computed in the index type only if bounds
prove that it does not wrap, else in its own type and then converted.

Equal instructions in one block share one value, even if they come from different nodes. Looking up
a node before writing it again only saves time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from codegen.emit.context import INDEX, FunctionEmitter
from codegen.emit.integer import divide
from codegen.emit.llvm_text import integer_text, register_type
from tensorir.arith.const_interval import exact_interval
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Call, IntImm, PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.intrin import Op
from tensorir.rewriting.visit import children

_LINEAR: Final[dict[type, str]] = {e.Add: "add", e.Sub: "sub", e.Mul: "mul"}
_DIVISIONS: Final = frozenset({e.FloorDiv, e.FloorMod, e.Div, e.Mod})
_EXTREMA: Final[dict[type, str]] = {e.Min: "smin", e.Max: "smax"}


def emit_index(f: FunctionEmitter, node: PrimExpr) -> str:
    """Write the evaluation of an integer expression; return it in the index type, per lane."""
    kind = type(node)
    if kind is IntImm:
        return str(node.value)  # type: ignore[attr-defined]
    if kind is Var or kind is e.SizeVar:
        known = f.wide.get(node)  # type: ignore[call-overload]
        return known if known is not None else extend_index(f, f.expr(node), node.dtype)
    known = f.index_values.get(node)
    if known is not None:
        return known
    if is_index_arithmetic(node, f.value_variables):
        return _index_arithmetic(f, node)
    if f.fits_index(exact_interval(node, f.ranges)):
        return _emit_exact(f, node, emit_index)
    return extend_index(f, f.expr(node), node.dtype)


INDEX.append(emit_index)


def _index_arithmetic(f: FunctionEmitter, node: PrimExpr) -> str:
    """Write index arithmetic. A node is written once in a block, since it contains no load."""
    kind = type(node)
    if kind is IntImm or kind is Var or kind is e.SizeVar:
        return emit_index(f, node)
    known = f.index_values.get(node)
    if known is None:
        is_choice = kind is e.Select or (kind is Call and node.op is _IF_THEN_ELSE)  # type: ignore[attr-defined]
        written = (
            _emit_both_choices(f, node) if is_choice else _emit_exact(f, node, _index_arithmetic)
        )
        known = f.index_values[node] = written
    return known


def _emit_exact(
    f: FunctionEmitter, node: PrimExpr, operand: Callable[[FunctionEmitter, PrimExpr], str]
) -> str:
    """Write an expression in which nothing wraps in the index type; `operand` writes its parts."""
    kind, wide = type(node), f.index_dtype.with_lanes(node.dtype.lanes)
    if kind is e.Cast:
        inner: PrimExpr = node.value  # type: ignore[attr-defined]
        if inner.dtype.is_integral and not inner.dtype.is_bool and _widens(node.dtype, inner):
            return operand(f, inner)
    elif kind in _EXACT:
        left, right = operand(f, node.a), operand(f, node.b)  # type: ignore[attr-defined]
        name = _LINEAR.get(kind)
        if name is not None:
            return f.pure(f"{name} nsw {register_type(wide)} {left}, {right}")
        if kind in _DIVISIONS:
            a = exact_interval(node.a, f.ranges)  # type: ignore[attr-defined]
            b = exact_interval(node.b, f.ranges)  # type: ignore[attr-defined]
            return divide(f, kind, wide, left, right, a, b)
        return f.math_intrinsic(_EXTREMA[kind], wide, left, right)
    elif kind is e.Broadcast:
        return f.splat(operand(f, node.value), f.index_type, node.lanes)  # type: ignore[attr-defined]
    elif kind is e.Ramp:
        base, stride = operand(f, node.base), operand(f, node.stride)  # type: ignore[attr-defined]
        return ramp(f, f.index_dtype, base, stride, wide.lanes)
    return extend_index(f, f.expr(node), node.dtype)


def _emit_both_choices(f: FunctionEmitter, node: PrimExpr) -> str:
    """Write both choices, which is safe because they load nothing, and no division traps."""
    condition, yes, no = (part for part in children(node) if isinstance(part, PrimExpr))
    test = register_type(condition.dtype)
    kind = register_type(f.index_dtype.with_lanes(node.dtype.lanes))
    choices = f"{kind} {_index_arithmetic(f, yes)}, {kind} {_index_arithmetic(f, no)}"
    return f.op(f"select {test} {f.expr(condition)}, {choices}")


def ramp(
    f: FunctionEmitter, element: DataType, base: str, stride: str, lanes: int, first: int = 0
) -> str:
    """Write the vector of `base + first + k * stride` for each lane k, all of type `element`."""
    scalar, vector = register_type(element), register_type(element.with_lanes(lanes))

    def constants(values: Iterable[int]) -> str:
        return "<" + ", ".join(f"{scalar} {integer_text(element, v)}" for v in values) + ">"

    start = f.splat(base, scalar, lanes)
    if stride[0] != "%":
        steps = (first + k * int(stride) for k in range(lanes))
        return f.op(f"add {vector} {start}, {constants(steps)}")
    if first:
        start = f.op(f"add {vector} {start}, {constants([first] * lanes)}")
    scaled = f.op(f"mul {vector} {f.splat(stride, scalar, lanes)}, {constants(range(lanes))}")
    return f.op(f"add {vector} {start}, {scaled}")


def _widens(dtype: DataType, inner: PrimExpr) -> bool:
    """Return True if a cast to `dtype` keeps every value."""
    source = inner.dtype
    if source.is_uint:
        return dtype.bits > source.bits
    return dtype.is_int and dtype.bits >= source.bits


_IF_THEN_ELSE: Final = Op.get("if_then_else")
_EXACT: Final = frozenset({*_LINEAR, *_DIVISIONS, *_EXTREMA})


def extend_index(f: FunctionEmitter, value: str, dtype: DataType) -> str:
    """Return an integer of `dtype` (any number of lanes) in the index type."""
    return resize(f, value, dtype, f.index_dtype)


def resize(f: FunctionEmitter, value: str, source: DataType, target: DataType) -> str:
    """Return an integer of type `source` (any number of lanes) extended or cut to `target`."""
    if source.bits == target.bits:
        return value
    extend = "trunc" if target.bits < source.bits else "sext" if source.is_int else "zext"
    kind = register_type(target.with_lanes(source.lanes))
    return f.pure(f"{extend} {register_type(source)} {value} to {kind}")


def linear_lanes(f: FunctionEmitter, node: PrimExpr) -> tuple[PrimExpr, int] | None:
    """Return first lane and constant distance of a vector index whose lanes are evenly spaced.

    Lanes of 32 or more signed bits do not wrap in bounds, because all lanes together span less than
    half the values of their type. Narrower or unsigned lanes must be proved not to wrap. Returns
    None for any other index.
    """
    wraps_out_of_bounds = node.dtype.is_int and node.dtype.bits >= 32
    if not wraps_out_of_bounds and exact_interval(node, f.ranges) is None:
        return None
    return _spaced(f, node)


def _spaced(f: FunctionEmitter, node: PrimExpr) -> tuple[PrimExpr, int] | None:
    kind = type(node)
    if kind is e.Ramp:
        stride = node.stride  # type: ignore[attr-defined]
        return (node.base, int(stride)) if type(stride) is IntImm else None  # type: ignore[attr-defined]
    if kind is e.Broadcast:
        return node.value, 0  # type: ignore[attr-defined]
    if kind is e.Cast:
        inner: PrimExpr = node.value  # type: ignore[attr-defined]
        if not inner.dtype.is_int or not _widens(node.dtype, inner):
            return None
        if not is_index_arithmetic(inner, f.value_variables) and (
            exact_interval(inner, f.ranges) is None
        ):
            return None
        found = _spaced(f, inner)
        return None if found is None else (e.Cast(node.dtype.element, found[0]), found[1])
    if kind not in _LINEAR:
        return None
    a, b = _spaced(f, node.a), _spaced(f, node.b)  # type: ignore[attr-defined]
    if a is None or b is None:
        return None
    first = kind(a[0], b[0])  # type: ignore[call-arg]
    if kind is e.Add:
        return first, a[1] + b[1]
    if kind is e.Sub:
        return first, a[1] - b[1]
    for (_, step), (factor, distance) in ((a, b), (b, a)):
        if distance == 0 and (step == 0 or type(factor) is IntImm):
            return first, step * int(factor) if step else 0  # type: ignore[call-overload]
    return None
