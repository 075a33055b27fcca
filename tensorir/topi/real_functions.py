"""Elementwise functions of real numbers."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import te
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import const, select
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.elementwise import map_floats


def _declared(
    name: str, what: str, function: Callable[[PrimExpr], PrimExpr]
) -> Callable[[Tensor], Tensor]:
    """Declare an operator that is a function of floating-point numbers."""

    def formula(x: Tensor) -> Tensor:
        return map_floats(name, function, x)

    formula.__name__, formula.__doc__ = name, f"Return {what}."
    return operator(name)(formula)


def _expm1(v: PrimExpr) -> PrimExpr:
    # If the exponential is near 1, subtracting 1 would cancel: 2 tanh(v/2) / (1 - tanh(v/2)).
    half, one = te.tanh(v * const(0.5, v.dtype)), const(1.0, v.dtype)
    return select(te.abs(v) < one, (half + half) / (one - half), te.exp(v) - one)


exp = _declared("exp", "the exponential", te.exp)
exp2 = _declared("exp2", "`2 ** x`", te.exp2)
expm1 = _declared("expm1", "`exp(x) - 1`, exact near 0 as well", _expm1)
log = _declared("log", "the natural logarithm", te.log)
log2 = _declared("log2", "the logarithm to the base 2", te.log2)
log10 = _declared("log10", "the logarithm to the base 10", te.log10)
log1p = _declared("log1p", "`log(1 + x)`, exact near 0 as well", te.log1p)
sqrt = _declared("sqrt", "the square root", te.sqrt)
rsqrt = _declared("rsqrt", "`1 / sqrt(x)`", te.rsqrt)
sigmoid = _declared("sigmoid", "`1 / (1 + exp(-x))`", te.sigmoid)
erf = _declared("erf", "the error function", te.erf)

sin = _declared("sin", "the sine of an angle in radians", te.sin)
cos = _declared("cos", "the cosine of an angle in radians", te.cos)
tan = _declared("tan", "the tangent of an angle in radians", te.tan)
asin = _declared("asin", "the inverse sine, in radians", te.asin)
acos = _declared("acos", "the inverse cosine, in radians", te.acos)
atan = _declared("atan", "the inverse tangent, in radians", te.atan)
sinh = _declared("sinh", "the hyperbolic sine", te.sinh)
cosh = _declared("cosh", "the hyperbolic cosine", te.cosh)
tanh = _declared("tanh", "the hyperbolic tangent", te.tanh)
asinh = _declared("asinh", "the inverse hyperbolic sine", te.asinh)
acosh = _declared("acosh", "the inverse hyperbolic cosine", te.acosh)
atanh = _declared("atanh", "the inverse hyperbolic tangent", te.atanh)
