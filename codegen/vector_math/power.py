"""pow.

For float32 the logarithm to base 2, the product and the power are computed in doubles, which leaves
hardly more than the final rounding. For float64 the logarithm is the sum of two doubles; without
fused multiply-add the C library does it, lane by lane.
"""

from __future__ import annotations

import math

from codegen.emit.lanes import Formula, Lane
from codegen.vector_math import coefficients as c
from codegen.vector_math.exponential import LN2, reduced_by_ln2
from codegen.vector_math.logarithm import split

_TWO_THIRDS = (float.fromhex("0x1.5555555555555p-1"), float.fromhex("0x1.5555555555555p-55"))


def power(w: Formula, x: Lane, y: Lane) -> Lane:
    """Return x**y with the special cases of C's pow."""
    size = w.abs(x)
    core = _power_32(w, size, y) if w.bits == 32 else _power_64(w, size, y)
    return _special_cases(w, x, y, size, core)


def _power_32(w: Formula, size: Lane, y: Lane) -> Lane:
    wide, base = w.widened(size)
    _, exponent = w.widened(y)
    f, e = split(wide, base)
    s = f / (f + 2.0)
    logarithm = wide.fma(s, wide.polynomial(s * s, c.LOG2_FOR_POW_32), e)
    product = wide.value(exponent.text) * logarithm
    clamped = wide.clamped(product, -300.0, 300.0)
    n = wide.exponent(clamped)
    r = clamped - n.value
    result = wide.fma(r, wide.polynomial(r, c.EXP2_FOR_POW_32), 1.0) * wide.power_of_two(n)
    return w.changed("fptrunc", result, "f")


def _power_64(w: Formula, size: Lane, y: Lane) -> Lane:
    high, low = _logarithm_in_two(w, size)
    product = y * high
    rest = w.fma(y, low, w.fma(y, high, -product))
    # Out of range the result is 0 or infinity, and the rest may be inf - inf.
    inside = w.abs(product) < 800.0
    product = w.clamped(product, -800.0, 800.0)
    rest = w.select(inside, rest, 0.0)
    r, n = reduced_by_ln2(w, product)
    r = r + rest
    return w.scaled(w.fma(r * r, w.polynomial(r, c.EXP[64]), r) + 1.0, n)


def _logarithm_in_two(w: Formula, x: Lane) -> tuple[Lane, Lane]:
    """Return the natural logarithm of x > 0 as the sum of two doubles, good to 2**-65."""
    f, e = split(w, x)
    # s = f / (2 + f); the sum is rounded, its error is `miss`
    divisor = f + 2.0
    miss = f - (divisor - 2.0)
    s = f / divisor
    s_low = w.fma(-s, miss, w.fma(-s, divisor, f)) / divisor
    # log(1 + f) = 2s + s**3 * (2/3 + z * P(z)); the cube needs its first error too
    z = s * s
    z_low = w.fma(s, s, -z) + s * s_low * 2.0
    inner = z * w.polynomial(z, c.LOG_FOR_POW_64)
    factor = inner + _TWO_THIRDS[0]
    factor_low = _TWO_THIRDS[0] - factor + inner + _TWO_THIRDS[1]
    cube = z * s
    cube_low = w.fma(z, s, -cube) + z * s_low + z_low * s
    term = cube * factor
    term_low = w.fma(cube, factor, -term) + cube * factor_low + cube_low * factor
    # e * log(2) + 2s + term, largest first
    base = e * LN2[64][0]
    double = s * 2.0
    first = base + double
    first_low = base - first + double
    only_double = e.equals(0.0)
    first_low = w.select(only_double, 0.0, first_low)
    total = first + term
    total_low = first - total + term
    low = total_low + (first_low + (term_low + s_low * 2.0 + e * LN2[64][1]))
    result = total + low
    return result, total - result + low


def _special_cases(w: Formula, x: Lane, y: Lane, size: Lane, core: Lane) -> Lane:
    one, infinite = size.equals(1.0), size.equals(math.inf)
    result = w.select(one, 1.0, core)  # also for infinite y, where 0 * inf came out
    is_zero = size.equals(0.0)
    vanishes = is_zero ^ (y < 0.0)
    result = w.select(is_zero | infinite, w.select(vanishes, 0.0, math.inf), result)
    # A negative base: the sign of odd powers, NaN for non-integer powers.
    whole = w.intrinsic("trunc", y).equals(y)
    half = y * 0.5
    odd = whole & ~w.intrinsic("trunc", half).equals(half)
    signed = w.copysign(result, x)
    result = w.select(odd, signed, result)
    fails = (x < 0.0) & ~whole & ~infinite
    result = w.select(fails, math.nan, result)
    result = w.select(x.is_nan() | y.is_nan(), x + y, result)
    return w.select(x.equals(1.0) | y.equals(0.0), 1.0, result)
