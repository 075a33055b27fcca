"""log, log2, log10 and log1p.

`x = m * 2**e` with sqrt(1/2) <= m < sqrt(2), found by integer arithmetic on the bits; `log(m)` is
a polynomial in m - 1 (float32) or in s = (m-1)/(m+1) (float64). The logarithm to another base
multiplies in two parts, so that the result near x = 1 keeps its relative accuracy.
"""

from __future__ import annotations

import math

from codegen.emit.lanes import Formula, Lane
from codegen.vector_math import coefficients as c
from codegen.vector_math.exponential import LN2, LOG10_2

_SQRT_HALF_BITS = {32: 0x3F3504F3, 64: 0x3FE6A09E667F3BCD}
_LOG2_E = {
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
    e = w.changed("sitofp", exponent - w.select(tiny, w.operand(lift, "i"), 0), "f")
    return m - 1.0, e


def _log1p_parts(w: Formula, f: Lane) -> tuple[Lane, Lane]:
    """Return a and b with `log(1 + f) = f - a + b`, a = f**2/2 or what takes its place."""
    if w.bits == 32:
        square = f * f
        return square * 0.5, square * f * w.polynomial(f, c.LOG_32)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return half_square, s * w.fma(z, w.polynomial(z, c.LOG_64), half_square)


def _finished(w: Formula, x: Lane, result: Lane, pole: float = 0.0) -> Lane:
    """Return `result` with infinity, the pole, what is below it and NaN put right."""
    result = w.select(x < math.inf, result, x)
    result = w.select(x < pole, math.nan, result)
    return w.select(x.equals(pole), -math.inf, result)


def log(w: Formula, x: Lane) -> Lane:
    """Return the natural logarithm."""
    f, e = split(w, x)
    return _finished(w, x, _assembled(w, f, e))


def _assembled(w: Formula, f: Lane, e: Lane) -> Lane:
    a, b = _log1p_parts(w, f)
    high, low = LN2[w.bits]
    return w.fma(e, high, f - (a - w.fma(e, low, b)))


def _in_base(w: Formula, x: Lane, of_e: tuple[float, float], of_2: tuple[float, float]) -> Lane:
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
    return _finished(w, x, total + (base - total + exact + small))


def log2(w: Formula, x: Lane) -> Lane:
    """Return the logarithm to base 2."""
    return _in_base(w, x, _LOG2_E[w.bits], (1.0, 0.0))


def log10(w: Formula, x: Lane) -> Lane:
    """Return the logarithm to base 10."""
    return _in_base(w, x, _LOG10_E[w.bits], LOG10_2[w.bits])


def log1p(w: Formula, x: Lane) -> Lane:
    """Return log(1 + x), accurate for small x."""
    # Close to overflow the scale below would be subnormal; there 1 + x is x at any precision.
    large = x > 2.0 ** (w.bias - 3)
    small_x = w.select(large, x * 0.25, x)
    offset = w.bits_of(small_x + 1.0) - _SQRT_HALF_BITS[w.bits]
    exponent = offset.apply("ashr", w.mantissa_bits)
    # (1 + x) * 2**-e - 1 from x itself: the product is exact, so the one rounding is the sum's.
    scale = w.float_of_bits(w.bits_of(w.operand(1.0, "f")) - (exponent << w.mantissa_bits))
    f = small_x * scale + (scale - 1.0)
    e = w.changed("sitofp", exponent + w.select(large, w.operand(2, "i"), 0), "f")
    result = _finished(w, x, _assembled(w, f, e), -1.0)
    return w.select(x.equals(0.0), x, result)
