"""Elementwise functions of one tensor: signs, rounding, conversions, limits, real functions."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.expr import EQ, IntImm, PrimExpr, integer_limits
from tensorir.nodes.ops import cast, compare, const, select
from tensorir.relax.declaration import operator
from tensorir.relax.signature import DTypeName
from tensorir.te.tensor import Tensor


def map_elements(name: str, function: Callable[[PrimExpr], PrimExpr], x: Tensor) -> Tensor:
    """Return `function` of each element."""
    return te.compute(x.shape, lambda *i: function(x[i]), name=name)


def map_floats(name: str, function: Callable[[PrimExpr], PrimExpr], x: Tensor) -> Tensor:
    """Return `function` of each element; IRTypeError unless the elements are floats."""
    if not x.dtype.is_floating:
        raise IRTypeError(f"{name} needs floating-point numbers, got {x.dtype}; convert by astype")
    return map_elements(f"T_{name}", function, x)


@operator("negative")
def negative(x: Tensor) -> Tensor:
    """Return `-x`."""
    return map_elements("T_negative", lambda v: -v, x)


@operator("abs")
def abs(x: Tensor) -> Tensor:
    """Return the magnitude; that of the smallest integer wraps to itself."""
    return map_elements("T_abs", lambda v: v if v.dtype.is_uint else te.abs(v), x)


@operator("sign")
def sign(x: Tensor) -> Tensor:
    """Return 1, 0 or -1; NaN for NaN."""

    def function(v: PrimExpr) -> PrimExpr:
        zero, one = const(0, v.dtype), const(1, v.dtype)
        # Adding 0 turns -0.0 into 0, and leaves NaN.
        neither = v + zero if v.dtype.is_floating else v
        below = neither if v.dtype.is_uint else select(v < zero, const(-1, v.dtype), neither)
        return select(v > zero, one, below)

    return map_elements("T_sign", function, x)


@operator("square")
def square(x: Tensor) -> Tensor:
    """Return `x * x`."""
    return map_elements("T_square", lambda v: v * v, x)


@operator("reciprocal")
def reciprocal(x: Tensor) -> Tensor:
    """Return `1 / x`."""
    return map_elements("T_reciprocal", lambda v: te.div(const(1, v.dtype), v), x)


def _rounded(name: str, function: Callable[[PrimExpr], PrimExpr], x: Tensor) -> Tensor:
    """Return floats rounded; integers are unchanged."""
    return map_elements(f"T_{name}", lambda v: function(v) if v.dtype.is_floating else v, x)


@operator("ceil")
def ceil(x: Tensor) -> Tensor:
    """Return the next integer above."""
    return _rounded("ceil", te.ceil, x)


@operator("floor")
def floor(x: Tensor) -> Tensor:
    """Return the next integer below."""
    return _rounded("floor", te.floor, x)


@operator("round")
def round(x: Tensor) -> Tensor:
    """Return the nearest integer, ties to even."""
    return _rounded("round", te.round, x)


@operator("trunc")
def trunc(x: Tensor) -> Tensor:
    """Return the next integer toward zero."""
    return _rounded("trunc", te.trunc, x)


@operator("isnan")
def isnan(x: Tensor) -> Tensor:
    """Return whether elements are NaN, as bool."""
    return map_elements("T_isnan", te.isnan, x)


@operator("isinf")
def isinf(x: Tensor, detect_positive: bool = True, detect_negative: bool = True) -> Tensor:
    """Return whether elements are infinite, as bool; a sign may be excluded."""

    def function(v: PrimExpr) -> PrimExpr:
        if not v.dtype.is_floating or not (detect_positive or detect_negative):
            return te.const(False, "bool")
        if detect_positive and detect_negative:
            return te.isinf(v)
        limit = te.infinity(v.dtype)
        return compare(EQ, v, limit if detect_positive else -limit)

    return map_elements("T_isinf", function, x)


@operator("isfinite")
def isfinite(x: Tensor) -> Tensor:
    """Return whether elements are neither infinite nor NaN, as bool."""
    return map_elements("T_isfinite", te.isfinite, x)


@operator("astype")
def astype(x: Tensor, dtype: DTypeName) -> Tensor:
    """Return the elements converted to another dtype.

    To bool it is `x != 0`; floats are rounded toward zero and saturate.
    """
    return map_elements("T_cast", lambda v: cast(dtype, v), x)


@operator("clip")
def clip(x: Tensor, min: PrimExpr | None = None, max: PrimExpr | None = None) -> Tensor:
    """Return the elements, limited to a range; NaN stays."""

    def function(v: PrimExpr) -> PrimExpr:
        # A comparison with NaN is false, which selects the second operand.
        if min is not None:
            v = te.max(_limit(min, v), v)
        return v if max is None else te.min(_limit(max, v), v)

    return map_elements("T_clip", function, x)


def _limit(value: PrimExpr, like: PrimExpr) -> PrimExpr:
    """Return a limit in the dtype of elements; an integer out of range saturates."""
    if isinstance(value, IntImm) and like.dtype.is_integral:
        low, high = integer_limits(like.dtype)
        return const(
            high if value.value > high else value.value if value.value > low else low, like.dtype
        )
    return cast(like.dtype, value)


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
