"""exp, exp2, exp10, and what is built on them: tanh, sigmoid and erf.

The argument is reduced to `x = n * log(b) + r` with |r| half a step; a polynomial gives `b**r` and
`Formula.scaled` multiplies it by 2**n, so that overflow and subnormal results come out right.
"""

from __future__ import annotations

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


def _reduced(
    w: Formula, x: Lane, factor: float, parts: dict[int, tuple[float, float]]
) -> tuple[Lane, Exponent]:
    """Return r and integer n with `x = n * step + r`, the step being 1 / factor, in two parts."""
    n = w.exponent(x, factor)
    high, low = parts[w.bits]
    return w.fma(n.value, -low, w.fma(n.value, -high, x)), n


def reduced_by_ln2(w: Formula, x: Lane) -> tuple[Lane, Exponent]:
    """Return r and integer n with `x = n * log(2) + r`, |r| <= log(2)/2."""
    return _reduced(w, x, _LOG2_E, LN2)


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
    r, n = _reduced(w, w.clamped(x, *limits), _LOG2_10, LOG10_2)
    return w.scaled(w.polynomial(r, (1.0, *c.EXP10[w.bits])), n)


def _expm1_of_negative(w: Formula, x: Lane) -> Lane:
    """Return e**x - 1 for -40 <= x <= 0, accurate also where it is tiny."""
    r, n = reduced_by_ln2(w, x)
    tail = w.polynomial(r, c.EXPM1[w.bits])
    scale = w.power_of_two(n)
    return w.fma(scale, w.fma(r * r, tail, r), scale - 1.0)


def tanh(w: Formula, x: Lane) -> Lane:
    """Return the hyperbolic tangent, as -t / (t + 2) with t = e**(-2|x|) - 1."""
    limit = 10.0 if w.bits == 32 else 20.0  # from here on the result rounds to 1
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
    limit = 3.95 if w.bits == 32 else 5.95  # from here on the result rounds to 1
    t = w.at_most(a, limit) - 2.0
    tail = w.polynomial(t, c.ERF_TAIL[w.bits])
    # Below 1 the tail is not used, and far below it may be anything.
    outer = 1.0 - exp_of_moderate(w, -tail)
    return w.copysign(w.select(a < 1.0, inner, outer), x)
