"""The test of whether two samples have different means."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

_MOST_TERMS: Final = 500
_PRECISION: Final = 1e-12
_TINY: Final = 1e-300


def welch_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability of means at least as different as those, if they were the same.

    This is Welch's test (Biometrika 34, 1947) of two samples of at least two numbers each, whose
    variances may differ. Samples without any variance have 0, or 1 where their means are equal.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    difference = float(a.mean() - b.mean())
    if va + vb == 0:
        return float(difference == 0)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    t_squared = difference**2 / (va + vb)
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t_squared))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function, which Student's distribution is one of."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # the continued fraction converges fast on the other side
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return front * _continued_fraction(a, b, x) / a


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the fraction from the front, by Lentz's method."""
    value = c = 1.0
    d = 0.0
    for term in range(_MOST_TERMS):
        m = term // 2
        if term == 0:
            numerator = 1.0
        elif term % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + numerator * d or _TINY)
        c = 1 + numerator / c or _TINY
        value *= c * d
        if abs(1 - c * d) < _PRECISION:
            break
    return value - 1
