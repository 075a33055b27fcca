"""Integer division, remainder and shifts with every case defined.

The cases are those of `tensorir.semantics`. The processor's division traps for a divisor of 0 and
for the lowest value divided by -1, and LLVM's shifts by the width or more give poison; what is
written here does neither. Where the statement leaves the result open, a quotient by 0 is 0 and the
remainder is the dividend.
"""

from __future__ import annotations

from typing import Final

from codegen.emit.context import FunctionEmitter
from codegen.emit.llvm_types import integer_text, register_type, splat
from tensorir.arith.const_interval import Interval
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import integer_limits

_FLOORS: Final = frozenset({e.FloorDiv, e.FloorMod})
_QUOTIENTS: Final = frozenset({e.FloorDiv, e.Div})


def divide(
    f: FunctionEmitter,
    kind: type,
    dtype: DataType,
    a: str,
    b: str,
    a_range: Interval | None,
    b_range: Interval | None,
) -> str:
    """Write the division node `kind` of two values of `dtype` whose intervals may be known."""
    a_range = a_range or integer_limits(dtype)
    b_range = b_range or integer_limits(dtype)
    wants_quotient = kind in _QUOTIENTS
    if dtype.is_uint or (a_range[0] >= 0 and b_range[0] > 0):
        return _unsigned(f, dtype, a, b, b_range[0] > 0, wants_quotient)
    constant = b_range[0] if b_range[0] == b_range[1] else None
    if constant is not None and constant > 0 and kind in _FLOORS:
        return _floor_by_constant(f, dtype, a, constant, wants_quotient)
    may_trap = not (b_range[0] > 0 or b_range[1] < -1)
    return _signed(f, kind, dtype, a, b, may_trap)


def _constant(dtype: DataType, value: int) -> str:
    return splat(register_type(dtype.element), integer_text(dtype, value), dtype.lanes)


def _unsigned(
    f: FunctionEmitter, dtype: DataType, a: str, b: str, safe: bool, wants_quotient: bool
) -> str:
    kind, zero = register_type(dtype), _constant(dtype, 0)
    name = "udiv" if wants_quotient else "urem"
    if safe:
        return f.op(f"{name} {kind} {a}, {b}")
    mask = register_type(DataType("bool").with_lanes(dtype.lanes))
    is_zero = f.op(f"icmp eq {kind} {b}, {zero}")
    divisor = f.op(f"select {mask} {is_zero}, {kind} {_constant(dtype, 1)}, {kind} {b}")
    quotient = _truncated_quotient(f, dtype, a, divisor)
    result = quotient
    if not wants_quotient:
        product = f.op(f"mul {kind} {quotient}, {divisor}")
        result = f.op(f"sub {kind} {a}, {product}")
    return _unless_by_zero(f, dtype, is_zero, a, result, wants_quotient)


def _floor_by_constant(
    f: FunctionEmitter, dtype: DataType, a: str, divisor: int, wants_quotient: bool
) -> str:
    kind = register_type(dtype)
    if divisor & (divisor - 1) == 0:
        if wants_quotient:
            shift = _constant(dtype, divisor.bit_length() - 1)
            return f.op(f"ashr {kind} {a}, {shift}")
        return f.op(f"and {kind} {a}, {_constant(dtype, divisor - 1)}")
    by = _constant(dtype, divisor)
    remainder = f.op(f"srem {kind} {a}, {by}")
    below = f.op(f"ashr {kind} {remainder}, {_constant(dtype, dtype.bits - 1)}")
    if wants_quotient:
        quotient = f.op(f"sdiv {kind} {a}, {by}")
        return f.op(f"add {kind} {quotient}, {below}")
    correction = f.op(f"and {kind} {below}, {by}")
    return f.op(f"add {kind} {remainder}, {correction}")


def _signed(f: FunctionEmitter, node: type, dtype: DataType, a: str, b: str, may_trap: bool) -> str:
    kind, zero = register_type(dtype), _constant(dtype, 0)
    mask = register_type(DataType("bool").with_lanes(dtype.lanes))
    divisor, is_zero = b, ""
    if may_trap:
        is_zero = f.op(f"icmp eq {kind} {b}, {zero}")
        lowest = f.op(f"icmp eq {kind} {a}, {_constant(dtype, -(1 << (dtype.bits - 1)))}")
        minus_one = f.op(f"icmp eq {kind} {b}, {_constant(dtype, -1)}")
        overflow = f.op(f"and {mask} {lowest}, {minus_one}")
        replaced = f.op(f"or {mask} {is_zero}, {overflow}")
        divisor = f.op(f"select {mask} {replaced}, {kind} {_constant(dtype, 1)}, {kind} {b}")
    quotient = _truncated_quotient(f, dtype, a, divisor)
    product = f.op(f"mul {kind} {quotient}, {divisor}")
    remainder = f.op(f"sub {kind} {a}, {product}")
    if node in _FLOORS:
        inexact = f.op(f"icmp ne {kind} {remainder}, {zero}")
        signs = f.op(f"xor {kind} {remainder}, {divisor}")
        differ = f.op(f"icmp slt {kind} {signs}, {zero}")
        adjust = f.op(f"and {mask} {inexact}, {differ}")
        if node in _QUOTIENTS:
            one = f.op(f"zext {mask} {adjust} to {kind}") if dtype.bits > 1 else adjust
            quotient = f.op(f"sub {kind} {quotient}, {one}")
        else:
            correction = f.op(f"select {mask} {adjust}, {kind} {divisor}, {kind} {zero}")
            remainder = f.op(f"add {kind} {remainder}, {correction}")
    result = quotient if node in _QUOTIENTS else remainder
    if is_zero:
        return _unless_by_zero(f, dtype, is_zero, a, result, node in _QUOTIENTS)
    return result


def _unless_by_zero(
    f: FunctionEmitter, dtype: DataType, is_zero: str, a: str, result: str, wants_quotient: bool
) -> str:
    kind = register_type(dtype)
    mask = register_type(DataType("bool").with_lanes(dtype.lanes))
    instead = _constant(dtype, 0) if wants_quotient else a
    return f.op(f"select {mask} {is_zero}, {kind} {instead}, {kind} {result}")


def _truncated_quotient(f: FunctionEmitter, dtype: DataType, a: str, b: str) -> str:
    """Divide; vectors of up to 32 bits through doubles, since no CPU divides integer vectors.

    A double holds the operands exactly and its quotient errs by less than 2**-53 of itself, while a
    quotient that is no integer is at least 2**-32 of itself away from one, so truncating is right.
    """
    kind, sign = register_type(dtype), "s" if dtype.is_int else "u"
    if dtype.lanes == 1 or dtype.bits > 32 or b[0] != "%":
        return f.op(f"{sign}div {kind} {a}, {b}")
    double = f"<{dtype.lanes} x double>"
    left = f.op(f"{sign}itofp {kind} {a} to {double}")
    right = f.op(f"{sign}itofp {kind} {b} to {double}")
    quotient = f.op(f"fdiv {double} {left}, {right}")
    return f.op(f"fpto{sign}i {double} {quotient} to {kind}")


def shift(
    f: FunctionEmitter, name: str, dtype: DataType, a: str, b: str, amounts: Interval | None
) -> str:
    """Write `shift_left` or `shift_right` of two values of `dtype`, b being among `amounts`."""
    kind = register_type(dtype)
    instruction = "shl" if name == "shift_left" else ("ashr" if dtype.is_int else "lshr")
    if amounts is not None and amounts[0] >= 0 and amounts[1] < dtype.bits:
        return f.op(f"{instruction} {kind} {a}, {b}")
    mask = register_type(DataType("bool").with_lanes(dtype.lanes))
    # Read as unsigned, a negative amount is larger than the width as well.
    inside = f.op(f"icmp ult {kind} {b}, {_constant(dtype, dtype.bits)}")
    if instruction == "ashr":
        most = _constant(dtype, dtype.bits - 1)
        amount = f.op(f"select {mask} {inside}, {kind} {b}, {kind} {most}")
        return f.op(f"ashr {kind} {a}, {amount}")
    zero = _constant(dtype, 0)
    amount = f.op(f"select {mask} {inside}, {kind} {b}, {kind} {zero}")
    shifted = f.op(f"{instruction} {kind} {a}, {amount}")
    return f.op(f"select {mask} {inside}, {kind} {shifted}, {kind} {zero}")
