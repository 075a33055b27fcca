"""Functions of scalars: those of the script dialect, under the names they have there."""

from tensorir.script.namespace import T

Select = T.Select
abs_, ceil, floor, nearbyint, round_, trunc = T.abs, T.ceil, T.floor, T.nearbyint, T.round, T.trunc
acos, acosh, asin, asinh, atan, atanh = T.acos, T.acosh, T.asin, T.asinh, T.atan, T.atanh
atan2, copysign, fmod, hypot, nextafter, power = (
    T.atan2, T.copysign, T.fmod, T.hypot, T.nextafter, T.pow
)  # fmt: skip
clz, isnan, likely, popcount = T.clz, T.isnan, T.likely, T.popcount
cos, cosh, sin, sinh, tan, tanh = T.cos, T.cosh, T.sin, T.sinh, T.tan, T.tanh
erf, exp, exp2, exp10, rsqrt, sigmoid, sqrt = (
    T.erf, T.exp, T.exp2, T.exp10, T.rsqrt, T.sigmoid, T.sqrt
)  # fmt: skip
log, log1p, log2, log10 = T.log, T.log1p, T.log2, T.log10
