"""Elementwise functions of one tensor: one row for each function without other arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import EQ, IntImm, PrimExpr, integer_limits
from tensorir.nodes.ops import cast, compare, const, select
from tensorir.relax.declaration import operator
from tensorir.relax.signature import DTypeName
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import map_elements
from tensorir.topi.special_functions import erfc, lgamma

_Unary: TypeAlias = Callable[[PrimExpr], PrimExpr]


def _sign(v: PrimExpr) -> PrimExpr:
    zero, one = const(0, v.dtype), const(1, v.dtype)
    # Adding 0 turns -0.0 into 0, and does not change NaN.
    neither = v + zero if v.dtype.is_floating else v
    below = neither if v.dtype.is_uint else select(v < zero, const(-1, v.dtype), neither)
    return select(v > zero, one, below)


def _rounding(function: _Unary) -> _Unary:
    """Return a function of floats that leaves integers unchanged."""
    return lambda v: function(v) if v.dtype.is_floating else v


def _expm1(v: PrimExpr) -> PrimExpr:
    # Near 0, `exp(v) - 1` loses digits, so it is computed as 2 tanh(v/2) / (1 - tanh(v/2)).
    half, one = te.tanh(v * const(0.5, v.dtype)), const(1.0, v.dtype)
    return select(te.abs(v) < one, (half + half) / (one - half), te.exp(v) - one)


_OF_ANY: Final[dict[str, tuple[_Unary, str]]] = {
    "negative": (lambda v: -v, "`-x`"),
    "abs": (
        lambda v: v if v.dtype.is_uint else te.abs(v),
        "the magnitude; for the smallest integer it wraps around to the same integer",
    ),
    "sign": (_sign, "1, 0 or -1; NaN for NaN"),
    "square": (lambda v: v * v, "`x * x`"),
    "reciprocal": (lambda v: te.div(const(1, v.dtype), v), "`1 / x`"),
    "ceil": (_rounding(te.ceil), "the next integer above"),
    "floor": (_rounding(te.floor), "the next integer below"),
    "round": (_rounding(te.round), "the nearest integer, ties to even"),
    "trunc": (_rounding(te.trunc), "the next integer toward zero"),
    "isnan": (te.isnan, "whether elements are NaN, as bool"),
    "isfinite": (te.isfinite, "whether elements are neither infinite nor NaN, as bool"),
}
_OF_FLOATS: Final[dict[str, tuple[_Unary, str]]] = {
    "exp": (te.exp, "the exponential"),
    "exp2": (te.exp2, "`2 ** x`"),
    "expm1": (_expm1, "`exp(x) - 1`, exact near 0 as well"),
    "log": (te.log, "the natural logarithm"),
    "log2": (te.log2, "the logarithm to the base 2"),
    "log10": (te.log10, "the logarithm to the base 10"),
    "log1p": (te.log1p, "`log(1 + x)`, exact near 0 as well"),
    "sqrt": (te.sqrt, "the square root"),
    "rsqrt": (te.rsqrt, "`1 / sqrt(x)`"),
    "sigmoid": (te.sigmoid, "`1 / (1 + exp(-x))`"),
    "erf": (te.erf, "the error function"),
    "erfc": (erfc, "`1 - erf(x)`, exact where `erf(x)` is close to 1 as well"),
    "lgamma": (lgamma, "the logarithm of the magnitude of the gamma function"),
    "sin": (te.sin, "the sine of an angle in radians"),
    "cos": (te.cos, "the cosine of an angle in radians"),
    "tan": (te.tan, "the tangent of an angle in radians"),
    "asin": (te.asin, "the inverse sine, in radians"),
    "acos": (te.acos, "the inverse cosine, in radians"),
    "atan": (te.atan, "the inverse tangent, in radians"),
    "sinh": (te.sinh, "the hyperbolic sine"),
    "cosh": (te.cosh, "the hyperbolic cosine"),
    "tanh": (te.tanh, "the hyperbolic tangent"),
    "asinh": (te.asinh, "the inverse hyperbolic sine"),
    "acosh": (te.acosh, "the inverse hyperbolic cosine"),
    "atanh": (te.atanh, "the inverse hyperbolic tangent"),
}
_OF_BOOLS: Final[dict[str, tuple[_Unary, str]]] = {
    "logical_not": (te.bitwise_not, "whether the operand is false")
}
_OF_INTEGERS: Final[dict[str, tuple[_Unary, str]]] = {
    "bitwise_not": (te.bitwise_not, "every bit flipped")
}


def _declare(name: str, function: _Unary, what: str, allow: _Allow, error: str) -> None:
    def formula(x: Tensor) -> Tensor:
        if not allow(x.dtype):
            raise IRTypeError(f"{name} needs {error.format(x.dtype)}")
        return map_elements(f"T_{name}", function, x)

    formula.__name__, formula.__doc__ = name, f"Return {what}."
    operator(name)(formula)


_Allow: TypeAlias = Callable[[DataType], bool]
_Table: TypeAlias = tuple[dict[str, tuple[_Unary, str]], _Allow, str]
_TABLES: Final[tuple[_Table, ...]] = (
    (_OF_ANY, lambda t: True, ""),
    (_OF_FLOATS, lambda t: t.is_floating, "floating-point numbers, got {}; convert by astype"),
    (_OF_BOOLS, lambda t: t.is_bool, 'bools, got {}; astype(x, "bool") is x != 0'),
    (_OF_INTEGERS, lambda t: t.is_integral, "integers or bools, got {}"),
)
for _rows, _allow, _error in _TABLES:
    for _name, (_function, _what) in _rows.items():
        _declare(_name, _function, _what, _allow, _error)


@operator("isinf")
def isinf(x: Tensor, detect_positive: bool = True, detect_negative: bool = True) -> Tensor:
    """Return True for infinite elements; the arguments may exclude a sign."""

    def function(v: PrimExpr) -> PrimExpr:
        if not v.dtype.is_floating or not (detect_positive or detect_negative):
            return te.const(False, "bool")
        if detect_positive and detect_negative:
            return te.isinf(v)
        limit = te.infinity(v.dtype)
        return compare(EQ, v, limit if detect_positive else -limit)

    return map_elements("T_isinf", function, x)


@operator("astype")
def astype(x: Tensor, dtype: DTypeName) -> Tensor:
    """Return the elements converted to another dtype.

    The conversion to bool is `x != 0`; floats are rounded toward zero and saturate.
    """
    return map_elements("T_cast", lambda v: cast(dtype, v), x)


@operator("clip")
def clip(x: Tensor, min: PrimExpr | None = None, max: PrimExpr | None = None) -> Tensor:
    """Return the elements, limited to a range; NaN is not changed."""

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


@operator("reinterpret")
def reinterpret(x: Tensor, dtype: DTypeName) -> Tensor:
    """Return the bits of elements as elements of another dtype of equal width."""
    if DataType(dtype).bits != x.dtype.bits:
        raise IRTypeError(f"elements of {x.dtype} and {dtype} must have the same number of bits")
    return map_elements("T_reinterpret", lambda v: te.reinterpret(dtype, v), x)
