"""Arithmetic of two operands, which broadcast and have one dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.expr import EQ, FloatImm, IntImm, Let, PrimExpr, Var
from tensorir.nodes.ops import compare, const, logical_and, logical_or, select
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import Value, elementwise, same_dtype


def binary(
    name: str, function: Callable[[PrimExpr, PrimExpr], PrimExpr], x1: Value, x2: Value
) -> Tensor:
    """Return `function` of the elements of two operands; IRTypeError if their dtypes differ."""
    same_dtype(x1, x2)
    return elementwise(f"T_{name}", function, x1, x2)


def _numbers(name: str, x1: Value, x2: Value) -> None:
    if same_dtype(x1, x2) == "bool":
        raise IRTypeError(f"{name} needs numbers, got bool; convert by astype")


@operator("add")
def add(x1: Value, x2: Value) -> Tensor:
    """Return `x1 + x2`."""
    return binary("add", te.add, x1, x2)


@operator("subtract")
def subtract(x1: Value, x2: Value) -> Tensor:
    """Return `x1 - x2`."""
    return binary("subtract", te.subtract, x1, x2)


@operator("multiply")
def multiply(x1: Value, x2: Value) -> Tensor:
    """Return `x1 * x2`."""
    return binary("multiply", te.multiply, x1, x2)


@operator("divide")
def divide(x1: Value, x2: Value) -> Tensor:
    """Return `x1 / x2`; integers round toward zero."""
    _numbers("divide", x1, x2)
    return binary("divide", te.div, x1, x2)


@operator("floor_divide")
def floor_divide(x1: Value, x2: Value) -> Tensor:
    """Return `x1 / x2` rounded toward minus infinity; for floats, consistent with `floor_mod`."""
    _numbers("floor_divide", x1, x2)

    def quotient(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if a.dtype.is_integral:
            return te.floordiv(a, b)
        # `floor(a / b)` is 1 too large if the quotient is rounded up to an integer.
        rest = te.truncmod(a, b)
        toward_zero = te.round((a - rest) / b)
        below = select(_is_beside(rest, b), toward_zero - const(1, a.dtype), toward_zero)
        return select(compare(EQ, b, const(0, a.dtype)), a / b, below)

    return binary("floor_divide", quotient, x1, x2)


def _is_beside(rest: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    """Return whether a remainder toward zero differs from the one toward minus infinity."""
    zero = const(0, rest.dtype)
    return logical_and(rest != zero, (rest < zero) != (divisor < zero))


@operator("mod")
def mod(x1: Value, x2: Value) -> Tensor:
    """Return the remainder of the division toward zero, which has the sign of `x1`."""
    _numbers("mod", x1, x2)
    return binary("mod", te.truncmod, x1, x2)


@operator("floor_mod")
def floor_mod(x1: Value, x2: Value) -> Tensor:
    """Return the remainder of the division toward minus infinity, which has the sign of `x2`."""
    _numbers("floor_mod", x1, x2)

    def remainder(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        if a.dtype.is_integral:
            return te.floormod(a, b)
        # `a - floor(a / b) * b` would lose the rounding error of the quotient.
        rest = te.truncmod(a, b)
        return select(_is_beside(rest, b), rest + b, rest)

    return binary("floor_mod", remainder, x1, x2)


@operator("power")
def power(x1: Value, x2: Value) -> Tensor:
    """Return `x1 ** x2`; integers wrap, and are rounded toward zero for `x2 < 0`."""
    _numbers("power", x1, x2)
    return binary("power", _power, x1, x2)


_EXACT: Final[dict[float, Callable[[PrimExpr], PrimExpr]]] = {
    -1.0: lambda a: te.div(const(1, a.dtype), a),
    0.5: te.sqrt,
    1.0: lambda a: a,
    2.0: lambda a: a * a,
    3.0: lambda a: a * a * a,
}
"""Powers with simpler code than the general logarithm and exponential.

For minus infinity and -0.0 the square root differs from the power, as in NumPy's own `x ** 0.5`.
"""


def _power(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if a.dtype.is_integral:
        return integer_power(a, b)
    exact = _EXACT.get(b.value) if isinstance(b, FloatImm) else None
    return te.power(a, b) if exact is None else exact(a)


@operator("maximum")
def maximum(x1: Value, x2: Value) -> Tensor:
    """Return the larger operand; NaN if either is NaN."""
    return binary("maximum", lambda a, b: _or_nan(te.max, a, b), x1, x2)


@operator("minimum")
def minimum(x1: Value, x2: Value) -> Tensor:
    """Return the smaller operand; NaN if either is NaN."""
    return binary("minimum", lambda a, b: _or_nan(te.min, a, b), x1, x2)


def _or_nan(extremum: Callable[..., PrimExpr], a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return an extremum that is NaN if either operand is NaN.

    The plain extremum of scalars is its second operand if one is NaN.
    """
    found = extremum(a, b)
    return select(te.isnan(a), a, found) if a.dtype.is_floating else found


@operator("atan2")
def atan2(x1: Value, x2: Value) -> Tensor:
    """Return the angle of the point (x2, x1), in radians from -pi to pi."""
    return _of_floats("atan2", te.atan2, x1, x2)


@operator("hypot")
def hypot(x1: Value, x2: Value) -> Tensor:
    """Return `sqrt(x1 * x1 + x2 * x2)`, without intermediate overflow."""
    return _of_floats("hypot", te.hypot, x1, x2)


@operator("copysign")
def copysign(x1: Value, x2: Value) -> Tensor:
    """Return `x1` with the sign of `x2`."""
    return _of_floats("copysign", te.copysign, x1, x2)


@operator("log_add_exp")
def log_add_exp(x1: Value, x2: Value) -> Tensor:
    """Return `log(exp(x1) + exp(x2))`, without intermediate overflow."""

    def function(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        large, small = te.max(a, b), te.min(a, b)
        # The difference of equal infinities is NaN.
        equal = select(a == b, large + te.log(const(2.0, a.dtype)), large)
        return select(te.isfinite(small), large + te.log1p(te.exp(small - large)), equal)

    return _of_floats("log_add_exp", function, x1, x2)


def _of_floats(
    name: str, function: Callable[[PrimExpr, PrimExpr], PrimExpr], x1: Value, x2: Value
) -> Tensor:
    if not x1.dtype.is_floating:
        raise IRTypeError(f"{name} needs floating-point numbers, got {x1.dtype}; convert by astype")
    return binary(name, function, x1, x2)


_BITS: Final = 8
"""The number of exponent bits that are used: larger exponents wrap for every base."""


def integer_power(base: PrimExpr, exponent: PrimExpr) -> PrimExpr:
    """Return `base ** exponent` modulo 2**bits; rounded toward zero for a negative exponent.

    Knuth, The Art of Computer Programming 2, section 4.6.3: repeated squaring, with the product of
    the squares at the set bits of the exponent.
    """
    dtype = base.dtype
    one = const(1, dtype)
    if isinstance(exponent, IntImm):
        return _constant_power(base, exponent.value) if exponent.value >= 0 else _inverse(base)
    steps = min(_BITS, dtype.bits)
    squares = [Var(f"square_{k}", dtype) for k in range(steps)]
    factors = [
        select(te.bitwise_and(exponent, const(1 << k, dtype)) != 0, square, one)
        for k, square in enumerate(squares[: dtype.bits - 1])
    ]
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    if dtype.is_int:
        result = select(exponent < 0, _inverse(base, exponent), result)
    for k in reversed(range(steps)):
        value = base if k == 0 else squares[k - 1] * squares[k - 1]
        result = Let(squares[k], value, result)
    return result


def _constant_power(base: PrimExpr, exponent: int) -> PrimExpr:
    if exponent == 0:
        return const(1, base.dtype)
    half = _constant_power(base, exponent // 2)
    square = half * half if exponent > 1 else base
    return square * base if exponent % 2 and exponent > 1 else square


def _inverse(base: PrimExpr, exponent: PrimExpr | None = None) -> PrimExpr:
    """Return the power for a negative exponent: nonzero only for the bases 1 and -1."""
    dtype = base.dtype
    one, zero = const(1, dtype), const(0, dtype)
    if exponent is None:
        return select(base == one, one, select(base == -one, base, zero))
    odd = te.bitwise_and(exponent, one) != 0
    sign = select(odd, base, one)
    return select(logical_or(base == one, base == -one), sign, zero)
