"""Operators on two operands, which broadcast and have the same dtype: one row for each operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.expr import EQ, GE, GT, LE, LT, NE, CmpOp, FloatImm, IntImm, Let, PrimExpr, Var
from tensorir.nodes.ops import compare, const, logical_and, logical_or, select
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import Value, elementwise, same_dtype

_Binary: TypeAlias = Callable[[PrimExpr, PrimExpr], PrimExpr]


def _floor_divide(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if a.dtype.is_integral:
        return te.floordiv(a, b)
    # `floor(a / b)` is 1 too large if the quotient is rounded up to an integer.
    rest = te.truncmod(a, b)
    toward_zero = te.round((a - rest) / b)
    below = select(_needs_floor_correction(rest, b), toward_zero - const(1, a.dtype), toward_zero)
    return select(compare(EQ, b, const(0, a.dtype)), a / b, below)


def _needs_floor_correction(rest: PrimExpr, divisor: PrimExpr) -> PrimExpr:
    """Return True if the remainder toward zero differs from the remainder toward minus infinity."""
    zero = const(0, rest.dtype)
    return logical_and(rest != zero, (rest < zero) != (divisor < zero))


def _floor_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    if a.dtype.is_integral:
        return te.floormod(a, b)
    # `a - floor(a / b) * b` would lose the rounding error of the quotient.
    rest = te.truncmod(a, b)
    return select(_needs_floor_correction(rest, b), rest + b, rest)


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
        return _integer_power(a, b)
    exact = _EXACT.get(b.value) if isinstance(b, FloatImm) else None
    return te.power(a, b) if exact is None else exact(a)


def _propagate_nan(extremum: _Binary) -> _Binary:
    """Return an extremum that is NaN if either operand is NaN.

    The scalar extremum returns its second operand if either operand is NaN.
    """

    def function(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        found = extremum(a, b)
        return select(te.isnan(a), a, found) if a.dtype.is_floating else found

    return function


def log_of_sum(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return `log(exp(a) + exp(b))`, without intermediate overflow."""
    large, small = _propagate_nan(te.max)(a, b), te.min(a, b)
    # The difference of equal infinities is NaN.
    equal = select(a == b, large + te.log(const(2.0, a.dtype)), large)
    return select(te.isfinite(small), large + te.log1p(te.exp(small - large)), equal)


def _integer_power(base: PrimExpr, exponent: PrimExpr) -> PrimExpr:
    """Return `base ** exponent` modulo 2**bits; for a negative exponent, rounded toward zero.

    Knuth, The Art of Computer Programming 2, section 4.6.3: repeated squaring, with the product of
    the squares at the set bits of the exponent.
    """
    dtype = base.dtype
    one = const(1, dtype)
    if isinstance(exponent, IntImm):
        return _constant_power(base, exponent.value) if exponent.value >= 0 else _inverse(base)
    steps = dtype.bits - 1 if dtype.is_int else dtype.bits
    squares = [Var(f"square_{k}", dtype) for k in range(steps)]
    factors = [
        select(te.bitwise_and(exponent, const(1 << k, dtype)) != 0, square, one)
        for k, square in enumerate(squares)
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


def _comparison(kind: type[CmpOp]) -> _Binary:
    return lambda a, b: compare(kind, a, b)


class _Operands(NamedTuple):
    """The dtypes that operands may have, and the error for other dtypes."""

    allow: Callable[[Value], bool]
    error: str


_ANY: Final = _Operands(lambda x: True, "")
_NUMBERS: Final = _Operands(
    lambda x: not x.dtype.is_bool, "{} needs numbers, got {}; convert by astype"
)
_FLOATS: Final = _Operands(
    lambda x: x.dtype.is_floating, "{} needs floating-point numbers, got {}; convert by astype"
)
_INTEGERS: Final = _Operands(lambda x: x.dtype.is_integral, "{} needs integers or bools, got {}")
_BOOLS: Final = _Operands(
    lambda x: x.dtype.is_bool, '{} needs bools, got {}; astype(x, "bool") is x != 0'
)

_ROWS: Final[dict[str, tuple[_Operands, _Binary, str]]] = {
    "add": (_ANY, te.add, "`x1 + x2`"),
    "subtract": (_ANY, te.subtract, "`x1 - x2`"),
    "multiply": (_ANY, te.multiply, "`x1 * x2`"),
    "divide": (_NUMBERS, te.div, "`x1 / x2`; integers round toward zero"),
    "floor_divide": (
        _NUMBERS,
        _floor_divide,
        "`x1 / x2` rounded toward minus infinity; for floats, consistent with `floor_mod`",
    ),
    "mod": (
        _NUMBERS,
        te.truncmod,
        "the remainder of the division toward zero, which has the sign of `x1`",
    ),
    "floor_mod": (
        _NUMBERS,
        _floor_mod,
        "the remainder of the division toward minus infinity, which has the sign of `x2`",
    ),
    "power": (
        _NUMBERS,
        _power,
        "`x1 ** x2`; integers wrap, and are rounded toward zero for `x2 < 0`",
    ),
    "maximum": (_ANY, _propagate_nan(te.max), "the larger operand; NaN if either is NaN"),
    "minimum": (_ANY, _propagate_nan(te.min), "the smaller operand; NaN if either is NaN"),
    "atan2": (_FLOATS, te.atan2, "the angle of the point (x2, x1), in radians from -pi to pi"),
    "hypot": (_FLOATS, te.hypot, "`sqrt(x1 * x1 + x2 * x2)`, without intermediate overflow"),
    "copysign": (_FLOATS, te.copysign, "`x1` with the sign of `x2`"),
    "log_add_exp": (
        _FLOATS,
        log_of_sum,
        "`log(exp(x1) + exp(x2))`, without intermediate overflow",
    ),
    "equal": (_ANY, _comparison(EQ), "whether elements are equal, as bool"),
    "not_equal": (_ANY, _comparison(NE), "whether elements differ, as bool"),
    "less": (_ANY, _comparison(LT), "whether `x1 < x2`, as bool"),
    "less_equal": (_ANY, _comparison(LE), "whether `x1 <= x2`, as bool"),
    "greater": (_ANY, _comparison(GT), "whether `x1 > x2`, as bool"),
    "greater_equal": (_ANY, _comparison(GE), "whether `x1 >= x2`, as bool"),
    "logical_and": (_BOOLS, te.bitwise_and, "whether both operands are true"),
    "logical_or": (_BOOLS, te.bitwise_or, "whether at least one operand is true"),
    "logical_xor": (_BOOLS, te.bitwise_xor, "whether exactly one operand is true"),
    "bitwise_and": (_INTEGERS, te.bitwise_and, "the bits that are set in both operands"),
    "bitwise_or": (_INTEGERS, te.bitwise_or, "the bits that are set in one or both operands"),
    "bitwise_xor": (_INTEGERS, te.bitwise_xor, "the bits in which the operands differ"),
    "left_shift": (
        _INTEGERS,
        te.shift_left,
        "the bits of `x1` shifted left by `x2`; 0 if `x2` is at least the width",
    ),
    "right_shift": (
        _INTEGERS,
        te.shift_right,
        "the bits of `x1` shifted right by `x2`, filled with the sign",
    ),
}


def _declare(name: str, operands: _Operands, function: _Binary, what: str) -> None:
    def formula(x1: Value, x2: Value) -> Tensor:
        same_dtype(x1, x2)
        if not operands.allow(x1):
            raise IRTypeError(operands.error.format(name, x1.dtype))
        return elementwise(f"T_{name}", function, x1, x2)

    formula.__name__, formula.__doc__ = name, f"Return {what}."
    operator(name)(formula)


for _name, _row in _ROWS.items():
    _declare(_name, *_row)


@operator("where")
def where(condition: Tensor, x1: Value, x2: Value) -> Tensor:
    """Return `x1` where the condition, a bool, is true, and `x2` elsewhere."""
    if not condition.dtype.is_bool:
        raise IRTypeError(
            f'the condition of where is {condition.dtype}, not bool; astype(x, "bool") is x != 0'
        )
    same_dtype(x1, x2)
    return elementwise("T_where", select, condition, x1, x2)
