"""erfc and lgamma, as formulas of other functions, computed in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Final

from tensorir import te
from tensorir.nodes.dtype import FLOAT64
from tensorir.nodes.expr import Let, PrimExpr, Var
from tensorir.nodes.ops import cast, const, select

_CENTRE: Final = 3.75
_ERFCX: Final = (
    1.2375126308378275, -0.14024059858554522, 0.0035854154854663067, 0.08227673848999159,
    -0.10880393014193915, 0.09230432116435616, -0.058693398584491845, 0.028362277371370044,
    -0.00974657962081509, 0.0017556261692276722, 0.00029371408777227685, -0.0002901553656394713,
    5.164737123871838e-05, 2.238759272534769e-05, -1.143961526007595e-05, -9.792975290998228e-07,
    1.7438577411359181e-06, -5.0816911811698266e-08, -2.499653803740525e-07,
    1.8778501156468835e-08, 3.256499083798517e-08, -1.9527901629748448e-09,
    -2.729394133253394e-09,
)  # fmt: skip
"""`(1 + 2x) exp(x**2) erfc(x)` as a polynomial in `(x - 3.75) / (x + 3.75)`, from degree 0."""
_STIRLING: Final = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400
)  # fmt: skip
"""The coefficients of 1/x, 1/x**3, ... in Stirling's series."""
_SHIFT: Final = 8
"""From this number on, the series is exact to the precision of float64."""


def erfc(v: PrimExpr) -> PrimExpr:
    """Return `1 - erf(v)`, without the cancellation of this difference.

    The relative error of float64 grows to 1e-13 at the end of the range, where `v * v` is rounded.

    M. M. Shepherd and J. G. Laframboise, Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x in
    0 <= x < infinity, 1981.
    """

    def of_magnitude(x: PrimExpr) -> PrimExpr:
        scaled = _let("t", (x - _CENTRE) / (x + _CENTRE), lambda t: _polynomial(t, _ERFCX))
        tail = te.exp(-x * x) * scaled / (x + x + 1.0)
        return select(wide < 0.0, 2.0 - tail, tail)

    wide = cast(FLOAT64, v)
    # Beyond 30 the result is 0. The minimum with a NaN is its second operand.
    return cast(v.dtype, _let("x", te.min(const(30.0, FLOAT64), te.abs(wide)), of_magnitude))


def lgamma(v: PrimExpr) -> PrimExpr:
    """Return `log(abs(gamma(v)))` by Stirling's series (Abramowitz and Stegun, 1964, 6.1.41).

    Numbers below 8 are increased by `gamma(x + 1) = x gamma(x)` (6.1.15), numbers below 0.5 first
    reflected by `gamma(x) gamma(1 - x) = pi / sin(pi x)` (6.1.17).
    """

    def of_positive(x: PrimExpr) -> PrimExpr:
        product = reduce(lambda total, k: total * (x + float(k)), range(1, _SHIFT), x)
        is_small = x < float(_SHIFT)
        increased = _let("y", select(is_small, x + float(_SHIFT), x), _stirling)
        return increased - select(is_small, te.log(product), const(0.0, FLOAT64))

    def reflected(x: PrimExpr) -> PrimExpr:
        sine = te.abs(te.sin((wide - te.round(wide)) * math.pi))
        other = _let(
            "z",
            of_positive(x),
            lambda z: select(wide < 0.5, -te.log(sine) + math.log(math.pi) - z, z),
        )
        return select(te.isinf(wide), te.infinity("float64"), other)

    wide = cast(FLOAT64, v)
    return cast(v.dtype, _let("x", select(wide < 0.5, 1.0 - wide, wide), reflected))


def _stirling(x: PrimExpr) -> PrimExpr:
    series = _let("s", 1.0 / (x * x), lambda s: _polynomial(s, _STIRLING)) / x
    log: PrimExpr = te.log(x)
    return (x - 0.5) * (log - 1.0) + series + (math.log(2 * math.pi) - 1) / 2


def _polynomial(x: PrimExpr, coefficients: Sequence[float]) -> PrimExpr:
    start, *others = map(float, reversed(coefficients))
    return reduce(lambda total, c: total * x + c, others, const(start, FLOAT64))


def _let(name: str, value: PrimExpr, body: Callable[[Var], PrimExpr]) -> PrimExpr:
    """Return a body that uses a value several times; it is computed once."""
    var = Var(name, value.dtype)
    return Let(var, value, body(var))
