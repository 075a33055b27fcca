"""Integer division, remainder and shifts with every case defined.

The cases are those of `tensorir.semantics`. The processor's division traps for a divisor of 0 and
for the lowest value divided by -1, and LLVM's shifts by the width or more give poison; the code
written here avoids both. Where the definition leaves the result open, a quotient by 0 is 0 and the
remainder is the dividend.
"""

from __future__ import annotations

from typing import Final

from codegen.emit.context import FunctionEmitter
from codegen.emit.lanes import Formula, Lane
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
    """Write the division node `kind` of two values of `dtype` and of possibly known intervals."""
    w = Formula(f, dtype.bits, dtype.lanes)
    x, y = w.value(a, "i"), w.value(b, "i")
    a_range = a_range or integer_limits(dtype)
    b_range = b_range or integer_limits(dtype)
    wants_quotient = kind in _QUOTIENTS
    is_zero: Lane | None = None
    replaced: Lane | None = None
    if dtype.is_uint or (a_range[0] >= 0 and b_range[0] > 0):
        if b_range[0] > 0:
            return x.apply("udiv" if wants_quotient else "urem", y).text
        is_zero = replaced = y.equals(0)
    else:
        constant = b_range[0] if b_range[0] == b_range[1] else None
        if constant is not None and constant > 0 and kind in _FLOORS:
            return _floor_by_constant(w, x, constant, wants_quotient).text
        if not (b_range[0] > 0 or b_range[1] < -1):
            is_zero = y.equals(0)
            replaced = is_zero | (x.equals(-1 << (dtype.bits - 1)) & y.equals(-1))
    divisor = y if replaced is None else w.select(replaced, 1, y)
    quotient = _truncated_quotient(w, dtype, x, divisor)
    result = quotient
    if not wants_quotient or (kind in _FLOORS and dtype.is_int):
        remainder = x - quotient * divisor
        result = quotient if wants_quotient else remainder
        if kind in _FLOORS and dtype.is_int:
            adjust = remainder.compare("ine", 0) & ((remainder ^ divisor) < 0)
            if wants_quotient:
                result = quotient - w.convert("zext", adjust, "i")
            else:
                result = remainder + w.select(adjust, divisor, 0)
    if is_zero is None:
        return result.text
    return w.select(is_zero, 0 if wants_quotient else x, result).text


def _floor_by_constant(w: Formula, x: Lane, divisor: int, wants_quotient: bool) -> Lane:
    if divisor & (divisor - 1) == 0:
        if wants_quotient:
            return x.apply("ashr", divisor.bit_length() - 1)
        return x & divisor - 1
    remainder = x.apply("srem", divisor)
    below = remainder.apply("ashr", w.bits - 1)
    if wants_quotient:
        return x.apply("sdiv", divisor) + below
    return remainder + (below & divisor)


def _truncated_quotient(w: Formula, dtype: DataType, x: Lane, y: Lane) -> Lane:
    """Divide; vectors of up to 32 bits through doubles, since no CPU divides integer vectors.

    A double represents the operands exactly, and the relative error of its quotient is less than
    2**-53. A quotient that is not an integer differs from the next integer by at least 2**-32 of
    itself, so truncating is exact.
    """
    sign = "s" if dtype.is_int else "u"
    if w.lanes == 1 or w.bits > 32 or y.text[0] != "%":
        return x.apply(f"{sign}div", y)
    wide = Formula(w.f, 64, w.lanes)
    left, right = (wide.convert(f"{sign}itofp", v, "f") for v in (x, y))
    return w.convert(f"fpto{sign}i", left / right, "i")


def shift(
    f: FunctionEmitter, name: str, dtype: DataType, a: str, b: str, amounts: Interval | None
) -> str:
    """Write `shift_left` or `shift_right` of two values of `dtype`.

    `amounts` is the interval of b.
    """
    w = Formula(f, dtype.bits, dtype.lanes)
    x, amount = w.value(a, "i"), w.value(b, "i")
    instruction = "shl" if name == "shift_left" else ("ashr" if dtype.is_int else "lshr")
    if amounts is not None and amounts[0] >= 0 and amounts[1] < dtype.bits:
        return x.apply(instruction, amount).text
    # Read as unsigned, a negative amount is larger than the width as well.
    inside = amount.compare("iult", dtype.bits)
    if instruction == "ashr":
        return x.apply(instruction, w.select(inside, amount, dtype.bits - 1)).text
    return w.select(inside, x.apply(instruction, w.select(inside, amount, 0)), 0).text
