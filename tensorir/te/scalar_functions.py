"""Functions of scalars: those of the script dialect, under the names they have there."""

from tensorir.nodes.expr import EQ, ExprLike, PrimExpr
from tensorir.nodes.ops import FALSE, TRUE, as_expr, compare, infinity, logical_and, logical_not
from tensorir.script.namespace import T

Select = T.Select
abs_, ceil, floor, nearbyint, round_, trunc = T.abs, T.ceil, T.floor, T.nearbyint, T.round, T.trunc
acos, acosh, asin, asinh, atan, atanh = T.acos, T.acosh, T.asin, T.asinh, T.atan, T.atanh
atan2, copysign, fma, fmod, hypot, ldexp, nextafter, power = (
    T.atan2, T.copysign, T.fma, T.fmod, T.hypot, T.ldexp, T.nextafter, T.pow
)  # fmt: skip
clz, isnan, likely, popcount, reinterpret = T.clz, T.isnan, T.likely, T.popcount, T.reinterpret
cos, cosh, sin, sinh, tan, tanh = T.cos, T.cosh, T.sin, T.sinh, T.tan, T.tanh
erf, exp, exp2, exp10, rsqrt, sigmoid, sqrt = (
    T.erf, T.exp, T.exp2, T.exp10, T.rsqrt, T.sigmoid, T.sqrt
)  # fmt: skip
log, log1p, log2, log10 = T.log, T.log1p, T.log2, T.log10


def isinf(value: ExprLike) -> PrimExpr:
    """Return whether a value is an infinity; an integer is none."""
    x = as_expr(value)
    return compare(EQ, abs_(x), infinity(x.dtype)) if x.dtype.is_floating else FALSE


def isfinite(value: ExprLike) -> PrimExpr:
    """Return whether a value is neither an infinity nor a NaN."""
    x = as_expr(value)
    return (
        logical_and(logical_not(isinf(x)), logical_not(isnan(x))) if x.dtype.is_floating else TRUE
    )
