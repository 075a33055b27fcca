"""Float operations: computed in float32 or float64, rounded to nearest even.

A value is a Python float that the type represents exactly.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from ctypes import c_float
from fractions import Fraction
from functools import cache
from typing import Any, Final

import numpy as np

from tensorir.errors import IRTypeError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import FLOAT32, DataType
from tensorir.nodes.float_format import FORMATS, Format


def format_of(dtype: DataType) -> Format:
    """Return the format of a scalar type. Raises IRTypeError for a type without arithmetic."""
    found = FORMATS.get(dtype)
    if found is None or dtype.bits == 8:
        raise IRTypeError(f"{dtype} has no arithmetic")
    return found


# ---------------------------------------------------------------------------------------- rounding


def nearest(value: Fraction | int, dtype: DataType) -> float:
    """Return the number of `dtype` nearest to an exact value, ties to even.

    An overflow returns infinity.
    """
    if value == 0:
        return 0.0
    precision, last_place, largest = format_of(dtype)
    size = abs(Fraction(value))
    above = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = above if size >= Fraction(2) ** above else above - 1
    unit = max(exponent - precision + 1, last_place)
    digits = round(size / Fraction(2) ** unit)
    too_large = digits * Fraction(2) ** unit > Fraction(largest)
    nearest_value = math.inf if too_large else math.ldexp(digits, unit)
    return nearest_value if value > 0 else -nearest_value


def _to_float32(value: float) -> float:
    return c_float(value).value


def _to_16_bits(format_: Format) -> Callable[[float], float]:
    precision, last_place, largest = format_

    def rounded(value: float) -> float:
        if value == 0 or not math.isfinite(value):
            return value
        if abs(value) >= 2 * largest:
            return math.copysign(math.inf, value)
        unit = max(math.frexp(value)[1] - precision, last_place)
        nearest_value = math.ldexp(round(math.ldexp(value, -unit)), unit)
        return math.copysign(nearest_value if abs(nearest_value) <= largest else math.inf, value)

    return rounded


@cache
def rounding(dtype: DataType) -> Callable[[float], float]:
    """Return the function that rounds a double to `dtype`, to nearest even."""
    if dtype.bits == 64:
        return float
    return _to_float32 if dtype == "float32" else _to_16_bits(format_of(dtype))


# -------------------------------------------------------------------------------------- operations


def _quotient(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1, b)


def _fmod(a: float, b: float) -> float:
    return math.nan if math.isinf(a) or b == 0 else math.fmod(a, b)


def _floor(value: float) -> float:
    return float(np.floor(value))


def _fused_multiply_add(a: float, b: float, c: float) -> float | Fraction:
    """Return `a * b + c`, as an exact fraction if it is finite and not 0."""
    if not (math.isfinite(a) and math.isfinite(b)) or a == 0 or b == 0:
        return a * b + c
    if not math.isfinite(c):
        return c
    return Fraction(a) * Fraction(b) + Fraction(c) or 0.0


def _ldexp(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.copysign(math.inf, value)


def _of_reals(function: Callable[..., Any]) -> Callable[..., float]:
    def apply(*values: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*values))

    return apply


def _sigmoid(x: float) -> float:
    small = np.exp(-abs(x))
    return float((small if x < 0 else 1.0) / (small + 1.0))


ROUNDED: Final[dict[type | str, Callable[..., float]]] = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.Div: _quotient,
    e.Mod: _fmod,
    e.Min: lambda a, b: a if a < b else b,
    e.Max: lambda a, b: a if a > b else b,
    "fmod": _fmod,
    "sqrt": lambda a: math.sqrt(a) if a >= 0 else a if a == 0 else math.nan,
    "fabs": abs,
    "copysign": math.copysign,
    "ldexp": _ldexp,
    "floor": _floor,
    "ceil": lambda a: float(np.ceil(a)),
    "trunc": lambda a: float(np.trunc(a)),
    "round": lambda a: float(np.rint(a)),
    "nearbyint": lambda a: float(np.rint(a)),
}
"""The operations, computed in doubles.

Rounding the double result to float32 is equal to the single rounding of a float32 operation,
because a double has more than twice the digits (S. Figueroa, When is double rounding innocuous?,
SIGNUM 30(3), 1995).
"""

REAL: Final[dict[str, Callable[..., float]]] = {
    **{
        name: _of_reals(getattr(np, name))
        for name in (
            *("exp", "exp2", "log", "log2", "log10", "log1p", "tanh", "sin", "cos", "tan"),
            *("sinh", "cosh", "hypot"),
        )
    },
    **{
        f"a{name}": _of_reals(getattr(np, "arc" + name))
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    "exp10": _of_reals(lambda x: np.power(10.0, x)),
    "pow": _of_reals(np.power),
    "atan2": _of_reals(np.arctan2),
    "erf": math.erf,
    "sigmoid": _of_reals(_sigmoid),
    "rsqrt": _of_reals(lambda x: np.float64(1.0) / np.sqrt(x)),
}
"""Functions of real variables; compiled code agrees within its documented error bounds."""


def floating(op: type | str, dtype: DataType) -> Callable[..., float] | None:
    """Return the function that computes an operation on values of a floating-point type."""
    format_of(dtype)
    to_own = rounding(dtype)
    if dtype.bits == 16 and op != "nextafter":
        # The result is rounded to float32 first, and then to the 16 bits.
        single = floating(op, FLOAT32)
        return None if single is None else lambda *values: to_own(single(*values))
    if op is e.FloorDiv:
        return lambda a, b: _floor(to_own(_quotient(a, b)))
    if op is e.FloorMod:
        return lambda a, b: to_own(a - to_own(_floor(to_own(_quotient(a, b))) * b))
    if op == "fma":
        return lambda a, b, c: _near(_fused_multiply_add(a, b, c), dtype)
    if op == "nextafter":
        return lambda a, b: _next(a, b, dtype)
    compute = ROUNDED.get(op) or REAL.get(op)  # type: ignore[arg-type]
    return None if compute is None else lambda *values: to_own(compute(*values))


def _near(value: float | Fraction, dtype: DataType) -> float:
    return nearest(value, dtype) if isinstance(value, Fraction) else rounding(dtype)(value)


def _next(a: float, b: float, dtype: DataType) -> float:
    """Return the next number of `dtype` after `a` in the direction of `b`."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b:
        return b
    if a == 0:
        return math.copysign(math.ldexp(1.0, format_of(dtype).last_place), b)
    grows = (a < b) == (a > 0)
    return from_bits(to_bits(a, dtype) + (1 if grows else -1), dtype)


# -------------------------------------------------------------------------------------------- bits


def to_bits(value: float, dtype: DataType) -> int:
    """Return the bits of a value as an unsigned number."""
    if dtype == "bfloat16":
        bits = int.from_bytes(struct.pack("<f", value), "little")
        # A NaN with its payload in the low half must not become an infinity.
        return bits >> 16 | (0x40 if math.isnan(value) else 0)
    return int.from_bytes(struct.pack(_PACKED[dtype], value), "little")


def from_bits(bits: int, dtype: DataType) -> float:
    """Return the value that has these bits."""
    if dtype == "bfloat16":
        bits, dtype = bits << 16, FLOAT32
    data = bits.to_bytes(dtype.bits // 8, "little")
    return float(struct.unpack(_PACKED[dtype], data)[0])


_PACKED: Final = {"float16": "<e", "float32": "<f", "float64": "<d"}
