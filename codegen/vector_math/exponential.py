"""exp and functions built on it (tanh, sigmoid, erf), logarithms and powers.

The argument is reduced to `x = n * log(b) + r` with |r| half a step; a polynomial approximates
`b**r`, and `Formula.scaled` multiplies it by 2**n with correct overflow and subnormal results.
"""

from __future__ import annotations

import math

from codegen.emit.lanes import Exponent, Formula, Lane
from codegen.vector_math import coefficients as c

_LOG2_E = 1.4426950408889634
LN2 = {
    32: (float.fromhex("0x1.62e4p-1"), float.fromhex("0x1.7f7d1cp-20")),
    64: (float.fromhex("0x1.62e42fefa38p-1"), float.fromhex("0x1.ef35793c7673p-45")),
}
"""log(2) in two parts; the first has so few bits that its product with an exponent is exact."""
_LOG2_10 = 3.321928094887362
LOG10_2 = {
    32: (float.fromhex("0x1.344p-2"), float.fromhex("0x1.3509f8p-18")),
    64: (float.fromhex("0x1.34413509f78p-2"), float.fromhex("0x1.fef311f12b358p-46")),
}


def _reduce_argument(
    w: Formula, x: Lane, factor: float, parts: dict[int, tuple[float, float]]
) -> tuple[Lane, Exponent]:
    """Return r and integer n with `x = n * step + r`; `parts` of step = 1 / factor are given."""
    n = w.exponent(x, factor)
    high, low = parts[w.bits]
    return w.fma(n.value, -low, w.fma(n.value, -high, x)), n


def reduced_by_ln2(w: Formula, x: Lane) -> tuple[Lane, Exponent]:
    """Return r and integer n with `x = n * log(2) + r`, |r| <= log(2)/2."""
    return _reduce_argument(w, x, _LOG2_E, LN2)


def exp(w: Formula, x: Lane) -> Lane:
    """Return e**x."""
    limits = (-104.0, 89.0) if w.bits == 32 else (-746.0, 710.0)
    r, n = reduced_by_ln2(w, w.clamped(x, *limits))
    return w.scaled(_exp_of_rest(w, r), n)


def exp_of_moderate(w: Formula, x: Lane) -> Lane:
    """Return e**x for |x| <= 80, where nothing overflows."""
    r, n = reduced_by_ln2(w, x)
    return _exp_of_rest(w, r) * w.power_of_two(n)


def _exp_of_rest(w: Formula, r: Lane) -> Lane:
    return w.polynomial(r, (1.0, 1.0, *c.EXP[w.bits]))


def exp2(w: Formula, x: Lane) -> Lane:
    """Return 2**x."""
    clamped = w.clamped(x, *((-151.0, 129.0) if w.bits == 32 else (-1076.0, 1025.0)))
    n = w.exponent(clamped)
    return w.scaled(w.polynomial(clamped - n.value, (1.0, *c.EXP2[w.bits])), n)


def exp10(w: Formula, x: Lane) -> Lane:
    """Return 10**x."""
    limits = (-46.0, 39.0) if w.bits == 32 else (-324.0, 309.0)
    r, n = _reduce_argument(w, w.clamped(x, *limits), _LOG2_10, LOG10_2)
    return w.scaled(w.polynomial(r, (1.0, *c.EXP10[w.bits])), n)


def _expm1_of_negative(w: Formula, x: Lane) -> Lane:
    """Return e**x - 1 for -40 <= x <= 0, accurate also for tiny results."""
    r, n = reduced_by_ln2(w, x)
    tail = w.polynomial(r, c.EXPM1[w.bits])
    scale = w.power_of_two(n)
    return w.fma(scale, w.fma(r * r, tail, r), scale - 1.0)


def tanh(w: Formula, x: Lane) -> Lane:
    """Return the hyperbolic tangent, as -t / (t + 2) with t = e**(-2|x|) - 1."""
    limit = 10.0 if w.bits == 32 else 20.0  # beyond this the result rounds to 1
    t = _expm1_of_negative(w, w.at_most(w.abs(x), limit) * -2.0)
    return w.copysign(t / (t + 2.0), x)


def sigmoid(w: Formula, x: Lane) -> Lane:
    """Return 1 / (1 + e**-x), by e**-|x| so that nothing overflows."""
    t = exp(w, -w.abs(x))
    return w.select(x < 0.0, t, 1.0) / (t + 1.0)


def erf(w: Formula, x: Lane) -> Lane:
    """Return the error function: a polynomial up to 1, `1 - exp(-p(|x|))` beyond."""
    a = w.abs(x)
    inner = w.fma(a, w.polynomial(a * a, c.ERF_SMALL[w.bits]), a)
    limit = 3.95 if w.bits == 32 else 5.95  # beyond this the result rounds to 1
    t = w.at_most(a, limit) - 2.0
    tail = w.polynomial(t, c.ERF_TAIL[w.bits])
    # Below 1 the tail is not used, so its value does not matter.
    outer = 1.0 - exp_of_moderate(w, -tail)
    return w.copysign(w.select(a < 1.0, inner, outer), x)


# --------------------------------------------------------------------------------------- logarithms
#
# log, log2, log10 and log1p.
#
# `x = m * 2**e` with sqrt(1/2) <= m < sqrt(2), found by integer arithmetic on the bits; `log(m)` is
# a polynomial in m - 1 (float32) or in s = (m-1)/(m+1) (float64). The logarithm to another base
# multiplies in two parts, so that the result near x = 1 keeps its relative accuracy.


_SQRT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_LOG2_E_PARTS = {
    32: (float.fromhex("0x1.714p+0"), float.fromhex("0x1.47652cp-12")),
    64: (float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0bf85ddf44p-26")),
}
"""log2(e) in two parts, the first of half the precision."""
_LOG10_E = {
    32: (float.fromhex("0x1.bc8p-2"), float.fromhex("0x1.bd8a94p-13")),
    64: (float.fromhex("0x1.bcb7b1p-2"), float.fromhex("0x1.49b9438ca9aaep-28")),
}


def split(w: Formula, x: Lane) -> tuple[Lane, Lane]:
    """Return m - 1 and exponent e with `x = m * 2**e`, for finite x > 0, subnormals included."""
    smallest = 2.0 ** (1 - w.bias)
    tiny = x < smallest
    lift = w.mantissa_bits + 1
    bits = w.bits_of(w.select(tiny, x * 2.0**lift, x))
    offset = bits - _SQRT_HALF_BITS[w.bits]
    exponent = offset.apply("ashr", w.mantissa_bits)
    m = w.float_of_bits(bits - (exponent << w.mantissa_bits))
    e = w.convert("sitofp", exponent - w.select(tiny, w.operand(lift, "i"), 0), "f")
    return m - 1.0, e


def _log1p_parts(w: Formula, f: Lane) -> tuple[Lane, Lane]:
    """Return a and b with `log(1 + f) = f - a + b`, where a = f**2/2 or an equivalent."""
    if w.bits == 32:
        square = f * f
        return square * 0.5, square * f * w.polynomial(f, c.LOG_32)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return half_square, s * w.fma(z, w.polynomial(z, c.LOG_64), half_square)


def _set_special_values(w: Formula, x: Lane, result: Lane, pole: float = 0.0) -> Lane:
    """Return `result` corrected for infinity, the pole, arguments below the pole, and NaN."""
    result = w.select(x < math.inf, result, x)
    result = w.select(x < pole, math.nan, result)
    return w.select(x.equals(pole), -math.inf, result)


def log(w: Formula, x: Lane) -> Lane:
    """Return the natural logarithm."""
    f, e = split(w, x)
    return _set_special_values(w, x, _assemble(w, f, e))


def _assemble(w: Formula, f: Lane, e: Lane) -> Lane:
    a, b = _log1p_parts(w, f)
    high, low = LN2[w.bits]
    return w.fma(e, high, f - (a - w.fma(e, low, b)))


def _convert_base(
    w: Formula, x: Lane, of_e: tuple[float, float], of_2: tuple[float, float]
) -> Lane:
    """Return the logarithm in the base in which e and 2 have the logarithms `of_e` and `of_2`."""
    f, e = split(w, x)
    a, b = _log1p_parts(w, f)
    # log(m) as head + tail, the head so short that its product with of_e[0] is exact
    mask = -1 << (w.mantissa_bits // 2 + 1)
    head = w.float_of_bits(w.bits_of(f - a) & mask)
    tail = f - head - a + b
    small = w.fma(e, of_2[1], tail * of_e[0] + (head + tail) * of_e[1])
    exact = head * of_e[0]
    base = e * of_2[0]
    total = base + exact
    return _set_special_values(w, x, total + (base - total + exact + small))


def log2(w: Formula, x: Lane) -> Lane:
    """Return the logarithm to base 2."""
    return _convert_base(w, x, _LOG2_E_PARTS[w.bits], (1.0, 0.0))


def log10(w: Formula, x: Lane) -> Lane:
    """Return the logarithm to base 10."""
    return _convert_base(w, x, _LOG10_E[w.bits], LOG10_2[w.bits])


def log1p(w: Formula, x: Lane) -> Lane:
    """Return log(1 + x), accurate for small x."""
    # Close to overflow the scale below would be subnormal; there 1 + x is x at any precision.
    large = x > 2.0 ** (w.bias - 3)
    small_x = w.select(large, x * 0.25, x)
    offset = w.bits_of(small_x + 1.0) - _SQRT_HALF_BITS[w.bits]
    exponent = offset.apply("ashr", w.mantissa_bits)
    # (1 + x) * 2**-e - 1 computed from x: the product is exact, so only the sum rounds.
    scale = w.float_of_bits(w.bits_of(w.operand(1.0, "f")) - (exponent << w.mantissa_bits))
    f = small_x * scale + (scale - 1.0)
    e = w.convert("sitofp", exponent + w.select(large, w.operand(2, "i"), 0), "f")
    result = _set_special_values(w, x, _assemble(w, f, e), -1.0)
    return w.select(x.equals(0.0), x, result)


# ------------------------------------------------------------------------------------------- powers
#
# pow.
#
# For float32 the logarithm to base 2, the product and the power are computed in doubles, so the
# error is little more than the final rounding. For float64 the logarithm is the sum of two doubles;
# without fused multiply-add the C library is called lane by lane.


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
    return w.convert("fptrunc", result, "f")


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
    # s = f / (2 + f); the sum is rounded, and `miss` is its error
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
    result = w.select(one, 1.0, core)  # also for infinite y, for which 0 * inf was computed
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
