"""Integer operations: computed exactly, then wrapped to the width of their type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import integer_limits


@cache
def wrapping(dtype: DataType) -> Callable[[int], int]:
    """Return the function that reduces an integer modulo 2**bits into the range of `dtype`."""
    if dtype.is_bool:
        return lambda value: bool(value & 1)
    mask = (1 << dtype.bits) - 1
    if dtype.is_uint:
        return lambda value: value & mask
    half = 1 << (dtype.bits - 1)
    return lambda value: value if -half <= value < half else ((value + half) & mask) - half


@cache
def saturating(dtype: DataType) -> Callable[[int], int]:
    """Return the function that returns the nearest integer of `dtype`."""
    low, high = integer_limits(dtype)
    return lambda value: low if value < low else high if value > high else value


def _divisor(b: int) -> int:
    if b == 0:
        raise IRValueError("Divide by zero")
    return b


def truncdiv(a: int, b: int) -> int:
    """Return the quotient rounded toward zero. Raises IRValueError for a divisor of 0."""
    quotient = abs(a) // abs(_divisor(b))
    return quotient if (a < 0) == (b < 0) else -quotient


def _shift_left(a: int, b: int) -> int:
    # After wrapping, a shift by the width or more is 0; a negative amount counts as such a shift.
    return a << b if 0 <= b < 64 else 0


def _shift_right(a: int, b: int) -> int:
    return a >> b if 0 <= b < 64 else -(a < 0)


EXACT: Final[dict[type | str, Callable[..., int]]] = {
    e.Add: lambda a, b: a + b,
    e.Sub: lambda a, b: a - b,
    e.Mul: lambda a, b: a * b,
    e.Div: truncdiv,
    e.Mod: lambda a, b: a - truncdiv(a, b) * b,
    e.FloorDiv: lambda a, b: a // _divisor(b),
    e.FloorMod: lambda a, b: a % _divisor(b),
    e.Min: lambda a, b: a if a < b else b,
    e.Max: lambda a, b: a if a > b else b,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "bitwise_not": lambda a: ~a,
    "shift_left": _shift_left,
    "shift_right": _shift_right,
    "fabs": abs,
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "nearbyint"), lambda a: a),
}
"""The operations on integers of any size; their results are wrapped."""

OF_BITS: Final[dict[str, Callable[[int, int], int]]] = {
    "popcount": lambda pattern, bits: pattern.bit_count(),
    "clz": lambda pattern, bits: bits - pattern.bit_length(),
}
"""The operations on the bits of an integer.

Arguments are the bits as an unsigned number, and the width.
"""

COMPARISONS: Final[dict[type | str, Callable[[float, float], bool]]] = {
    e.EQ: lambda a, b: a == b,
    e.NE: lambda a, b: a != b,
    e.LT: lambda a, b: a < b,
    e.LE: lambda a, b: a <= b,
    e.GT: lambda a, b: a > b,
    e.GE: lambda a, b: a >= b,
}
"""Comparisons of two numbers of the same type; Python compares floats as IEEE 754 does."""

DIVISIONS: Final = frozenset({e.Div, e.Mod, e.FloorDiv, e.FloorMod})
"""The operations on integers that are undefined for a divisor of 0."""


def multiply_shift(x: int, y: int, q: int, s: int) -> int:
    """Return `x * y * 2**(s - q)` rounded half up, computed in 64 bits: `q_multiply_shift`."""
    return _scaled_product(x, y, max(s, 0), q + max(-s, 0))


def multiply_shift_per_axis(
    x: int, y: int, left: int, right: int, q: int, shifts_left: bool, shifts_right: bool
) -> int:
    """Return the result of `q_multiply_shift_per_axis`, computed in 64 bits."""
    return _scaled_product(x, y, left if shifts_left else 0, q + (right if shifts_right else 0))


def _scaled_product(x: int, y: int, left: int, right: int) -> int:
    wrap = wrapping(DataType("int64"))
    product = wrap(wrap(_shift_left(x, left)) * y)
    half = 1 << (right - 1) if 0 < right <= 64 else 0
    return wrapping(DataType("int32"))(_shift_right(wrap(product + half), right))
