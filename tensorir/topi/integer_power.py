"""Powers of integers, by squaring."""

from __future__ import annotations

from typing import Final

from tensorir import te
from tensorir.nodes.expr import IntImm, Let, PrimExpr, Var
from tensorir.nodes.ops import const, logical_or, select

_BITS: Final = 8
"""The number of exponent bits that are used: larger exponents wrap for every base."""


def integer_power(base: PrimExpr, exponent: PrimExpr) -> PrimExpr:
    """Return `base ** exponent` modulo 2**bits; rounded toward zero for a negative exponent.

    Knuth, The Art of Computer Programming 2, section 4.6.3: repeated squaring, with the product of
    the squares at the set bits of the exponent.
    """
    dtype = base.dtype
    one = const(1, dtype)
    if isinstance(exponent, IntImm):
        return _constant_power(base, exponent.value) if exponent.value >= 0 else _inverse(base)
    steps = min(_BITS, dtype.bits)
    squares = [Var(f"square_{k}", dtype) for k in range(steps)]
    factors = [
        select(te.bitwise_and(exponent, const(1 << k, dtype)) != 0, square, one)
        for k, square in enumerate(squares[: dtype.bits - 1])
    ]
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    if dtype.is_int:
        result = select(exponent < 0, _inverse(base, exponent), result)
    for k in reversed(range(steps)):
        value = base if k == 0 else squares[k - 1] * squares[k - 1]
        result = Let(squares[k], value, result)
    return result


def _constant_power(base: PrimExpr, exponent: int) -> PrimExpr:
    if exponent == 0:
        return const(1, base.dtype)
    half = _constant_power(base, exponent // 2)
    square = half * half if exponent > 1 else base
    return square * base if exponent % 2 and exponent > 1 else square


def _inverse(base: PrimExpr, exponent: PrimExpr | None = None) -> PrimExpr:
    """Return the power for a negative exponent: nonzero only for the bases 1 and -1."""
    dtype = base.dtype
    one, zero = const(1, dtype), const(0, dtype)
    if exponent is None:
        return select(base == one, one, select(base == -one, base, zero))
    odd = te.bitwise_and(exponent, one) != 0
    sign = select(odd, base, one)
    return select(logical_or(base == one, base == -one), sign, zero)
