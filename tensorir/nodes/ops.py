"""Smart constructors: they match operand types and fold constants, without further simplification.

The Python operators on expressions and the functions of the `T` namespace call them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.constants import FALSE as FALSE
from tensorir.nodes.constants import TRUE as TRUE
from tensorir.nodes.constants import as_expr as as_expr
from tensorir.nodes.constants import const as const
from tensorir.nodes.constants import infinity as infinity
from tensorir.nodes.constants import is_const_int as is_const_int
from tensorir.nodes.constants import max_value as max_value
from tensorir.nodes.constants import min_value as min_value
from tensorir.nodes.dtype import FLOAT64, DataType
from tensorir.nodes.expr import ExprLike, FloatImm, IntImm, PrimExpr
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.intrin import Op
from tensorir.semantics import (
    COMPARISONS,
    DIVISIONS,
    convert,
    evaluate,
    operation,
    rounding,
)

# ---------------------------------------------------------------------------------------- casting


def cast(dtype: str, value: ExprLike) -> PrimExpr:
    """Return `value` converted to `dtype`, folding immediates; a scalar may become a vector."""
    kind = DataType(dtype)
    if type(value) is float and kind.is_floating:
        return const(value, kind)
    x = as_expr(value)
    if x.dtype is kind:
        return x
    if x.dtype.is_handle or kind.is_handle:
        raise IRTypeError(f"Can't cast a handle to other types: {x.dtype} to {kind}")
    if kind.lanes > 1 and x.dtype.lanes == 1:
        return e.Broadcast(cast(kind.element, x), kind.lanes)
    if isinstance(x, (IntImm, FloatImm)) and _has_arithmetic(x.dtype) and _has_arithmetic(kind):
        return const(convert(value_of(x), x.dtype, kind), kind)
    if isinstance(x, e.Broadcast) and x.lanes == kind.lanes:
        return e.Broadcast(cast(kind.element, x.value), x.lanes)
    if isinstance(x, e.Ramp) and x.lanes == kind.lanes and _keeps_sums(x, kind):
        return e.Ramp(cast(kind.element, x.base), cast(kind.element, x.stride), x.lanes)
    return e.Cast(kind, x)


def match_types(a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    """Return the operands, cast to a common dtype.

    A float type takes precedence over all others, bfloat16 over integers, a wider type over a
    narrower one; int and uint of equal width become unsigned. A Python float with a float64 operand
    keeps all its digits. Raises IRTypeError without a common type.
    """
    if type(a) is float and isinstance(b, PrimExpr) and b.dtype.element is FLOAT64:
        return const(a, b.dtype), b
    if type(b) is float and isinstance(a, PrimExpr) and a.dtype.element is FLOAT64:
        return a, const(b, a.dtype)
    x = a if isinstance(a, PrimExpr) else as_expr(a)
    y = b if isinstance(b, PrimExpr) else as_expr(b)
    if x.dtype is y.dtype:
        return x, y
    if x.dtype.lanes != y.dtype.lanes:
        if x.dtype.lanes == 1:
            x = e.Broadcast(x, y.dtype.lanes)
        elif y.dtype.lanes == 1:
            y = e.Broadcast(y, x.dtype.lanes)
        else:
            raise IRTypeError(f"Cannot match type {x.dtype} vs {y.dtype}")
        if x.dtype is y.dtype:
            return x, y
    common = _common_type(x.dtype, y.dtype)
    return cast(common, x), cast(common, y)


def _common_type(s: DataType, t: DataType) -> DataType:
    if s.code == t.code and not s.is_handle:
        return s if s.bits >= t.bits else t
    for chosen, other in ((s, t), (t, s)):
        if chosen.is_float and not other.is_handle:
            return chosen
    for chosen, other in ((s, t), (t, s)):
        if chosen.code == "bfloat" and not other.is_handle:
            return chosen
    for chosen, other in ((s, t), (t, s)):
        if chosen.is_floating and other.is_integral:
            return chosen
    if s.is_integral and t.is_integral:
        if s.bits != t.bits:
            return s if s.bits > t.bits else t
        return s if s.is_uint else t
    raise IRTypeError(f"Cannot match type {s} vs {t}")


def value_of(x: IntImm | FloatImm) -> int | float:
    """Return the value of an immediate as `tensorir.semantics` represents it."""
    return rounding(x.dtype)(x.value) if isinstance(x, FloatImm) else x.value


def _has_arithmetic(dtype: DataType) -> bool:
    return dtype.is_integral or dtype.bits > 8


def _keeps_sums(x: PrimExpr, target: DataType) -> bool:
    """Return True if casting a sum of integers equals the sum of its cast operands."""
    if not target.is_integral or target.is_bool:
        return False
    return target.bits <= x.dtype.bits or is_index_arithmetic(x)


# ------------------------------------------------------------------------------------- arithmetic


def fold_binary(kind: type[e.BinaryOp], x: PrimExpr, y: PrimExpr) -> PrimExpr | None:
    """Return the immediate that is equal to `kind(x, y)`; None if that is not constant.

    `tensorir.semantics` defines the value. Raises IRValueError for a constant integer divisor of 0.
    """
    left, right = type(x), type(y)
    if right is IntImm:
        if y.value == 0 and kind in DIVISIONS:  # type: ignore[attr-defined]
            raise IRValueError("Divide by zero")
        if left is IntImm:
            dtype = x.dtype
            value = operation(kind, dtype)(x.value, y.value)  # type: ignore[attr-defined]
            return const(value, dtype)
    elif right is e.Broadcast and kind in DIVISIONS and is_const_int(y.value, 0):  # type: ignore[attr-defined]
        raise IRValueError("Divide by zero")
    elif left is FloatImm and right is FloatImm and _has_arithmetic(x.dtype):
        return FloatImm(x.dtype, evaluate(kind, x.dtype, value_of(x), value_of(y)))  # type: ignore[arg-type]
    return None


def _is_number(x: PrimExpr, value: int) -> bool:
    kind = type(x)
    if kind is IntImm or kind is FloatImm:
        return x.value == value  # type: ignore[attr-defined,no-any-return]
    return kind is e.Broadcast and _is_number(x.value, value)  # type: ignore[attr-defined]


def _is_integer_zero(x: PrimExpr) -> bool:
    """Return True if `x` is an integer 0; identities with a float 0 fail for NaN and -0.0."""
    return x.dtype.is_integral and _is_number(x, 0)


def _adds_nothing(x: PrimExpr) -> bool:
    """Return True if adding `x` changes no number: 0, or -0.0 (0.0 would change -0.0 to 0.0)."""
    if isinstance(x, FloatImm):
        return x.value == 0 and math.copysign(1, x.value) < 0
    if isinstance(x, e.Broadcast):
        return _adds_nothing(x.value)
    return _is_number(x, 0)


def _subtracts_nothing(x: PrimExpr) -> bool:
    return _is_number(x, 0) and (x.dtype.is_integral or not _adds_nothing(x))


_MAY_FOLD: Final = frozenset({IntImm, FloatImm, e.Broadcast})


def add(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return `a + b`."""
    x, y = match_types(a, b)
    if type(x) not in _MAY_FOLD:
        if type(y) is IntImm:
            return x if y.value == 0 else e.Add(x, y)
        if type(y) not in _MAY_FOLD:
            return e.Add(x, y)
    folded = fold_binary(e.Add, x, y)
    if folded is not None:
        return folded
    if _adds_nothing(y):
        return x
    return y if _adds_nothing(x) else e.Add(x, y)


def sub(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return `a - b`."""
    x, y = match_types(a, b)
    if type(x) not in _MAY_FOLD:
        if type(y) is IntImm:
            return x if y.value == 0 else e.Sub(x, y)
        if type(y) not in _MAY_FOLD:
            return e.Sub(x, y)
    folded = fold_binary(e.Sub, x, y)
    if folded is not None:
        return folded
    return x if _subtracts_nothing(y) else e.Sub(x, y)


def mul(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return `a * b`."""
    x, y = match_types(a, b)
    if type(x) not in _MAY_FOLD:
        if type(y) is IntImm:
            return x if y.value == 1 else y if y.value == 0 else e.Mul(x, y)
        if type(y) not in _MAY_FOLD:
            return e.Mul(x, y)
    folded = fold_binary(e.Mul, x, y)
    if folded is not None:
        return folded
    if _is_number(y, 1) or _is_integer_zero(x):
        return x
    return y if _is_number(x, 1) or _is_integer_zero(y) else e.Mul(x, y)


def _divide(kind: type[e.BinaryOp], a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    folded = fold_binary(kind, x, y)
    if folded is not None:
        return folded
    exact = kind is e.Div or x.dtype.is_integral
    return x if _is_integer_zero(x) or (exact and _is_number(y, 1)) else kind(x, y)


def _remainder(kind: type[e.BinaryOp], a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    folded = fold_binary(kind, x, y)
    if folded is not None:
        return folded
    vanishes = x.dtype.is_integral and (_is_number(x, 0) or _is_number(y, 1))
    return const(0, x.dtype) if vanishes else kind(x, y)


def div(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return the quotient; for integers it is rounded toward zero."""
    return _divide(e.Div, a, b)


def _operator_div(a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    if x.dtype.is_int:
        raise IRTypeError(
            "`/` between integers is ambiguous; write T.floordiv, T.truncdiv or T.div"
        )
    return div(x, y)


def truncdiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return the integer quotient rounded toward zero."""
    return _divide(e.Div, *_integer_operands("truncdiv", a, b))


def truncmod(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return the remainder of the division toward zero, with the sign of `a`, also for floats."""
    return _remainder(e.Mod, *_numbers("truncmod", a, b))


def floordiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return the quotient rounded toward minus infinity, also for floats."""
    return _divide(e.FloorDiv, *_numbers("//", a, b))


def floormod(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return the remainder of the division toward minus infinity, with the sign of `b`."""
    return _remainder(e.FloorMod, *_numbers("%", a, b))


indexdiv = floordiv
indexmod = floormod


def ceildiv(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return the integer quotient rounded up."""
    return floordiv(add(a, sub(b, 1)), b)


def _numbers(name: str, a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    x, y = match_types(a, b)
    if not _has_arithmetic(x.dtype) or x.dtype.is_handle:
        raise IRTypeError(f"{name} needs numbers, got {x.dtype}")
    return x, y


def _integer_operands(name: str, a: ExprLike, b: ExprLike) -> tuple[PrimExpr, PrimExpr]:
    x, y = match_types(a, b)
    if not x.dtype.is_integral:
        raise IRTypeError(f"{name} needs integers, got {x.dtype}")
    return x, y


def _extremum(kind: type[e.BinaryOp], a: ExprLike, b: ExprLike) -> PrimExpr:
    x, y = match_types(a, b)
    folded = fold_binary(kind, x, y)
    if folded is not None:
        return folded
    if x is y:
        return x
    absorbing = math.inf if kind is e.Max else -math.inf
    # A comparison with NaN is false, so NaN as an operand selects the second operand: do not swap
    # them.
    if isinstance(y, FloatImm) and y.value == absorbing:
        return y
    if isinstance(x, FloatImm) and x.value == -absorbing:
        return y
    return kind(x, y)


def min_(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return `a < b ? a : b`, the smaller operand."""
    return _extremum(e.Min, a, b)


def max_(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return `a > b ? a : b`, the larger operand."""
    return _extremum(e.Max, a, b)


# ----------------------------------------------------------------------------- logic, comparisons


def compare(kind: type[e.CmpOp], a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return the comparison `kind` of `a` and `b`; a comparison of two immediates is folded."""
    x, y = match_types(a, b)
    immediates = isinstance(x, (IntImm, FloatImm)) and isinstance(y, (IntImm, FloatImm))
    if immediates and _has_arithmetic(x.dtype):
        return TRUE if COMPARISONS[kind](value_of(x), value_of(y)) else FALSE  # type: ignore[arg-type]
    return kind(x, y)


def logical_and(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return `a and b` for bools."""
    x, y = as_expr(a), as_expr(b)
    for this, other in ((x, y), (y, x)):
        if isinstance(this, IntImm):
            return other if this.value else this
    return e.And(x, y)


def conjuncts(condition: PrimExpr) -> list[PrimExpr]:
    """Return the conjuncts of a condition, in the order written."""
    if type(condition) is e.And:
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def logical_or(a: ExprLike, b: ExprLike) -> PrimExpr:
    """Return `a or b` for bools."""
    x, y = as_expr(a), as_expr(b)
    for this, other in ((x, y), (y, x)):
        if isinstance(this, IntImm):
            return this if this.value else other
    return e.Or(x, y)


def logical_not(a: ExprLike) -> PrimExpr:
    """Return `not a` for a bool."""
    x = as_expr(a)
    if isinstance(x, IntImm):
        return FALSE if x.value else TRUE
    return e.Not(x)


def all_of(conditions: Iterable[PrimExpr]) -> PrimExpr:
    """Return the conjunction of `conditions`, true if there are none."""
    result: PrimExpr = TRUE
    for condition in conditions:
        result = logical_and(result, condition)
    return result


# ----------------------------------------------------------------------------------------- calls


def _bitwise(name: str) -> Callable[[ExprLike, ExprLike], PrimExpr]:
    op = Op.get(name)
    shift = name.startswith("shift")

    def apply(a: ExprLike, b: ExprLike) -> PrimExpr:
        if isinstance(a, int) and isinstance(b, PrimExpr):
            a = const(a, b.dtype)
        if isinstance(b, int) and isinstance(a, PrimExpr):
            b = const(b, a.dtype)
        x, y = _integer_operands(name, a, b)
        if shift and isinstance(y, IntImm):
            if not 0 <= y.value < x.dtype.bits:
                raise IRValueError(f"shift amount {y.value} is outside [0, {x.dtype.bits})")
            if y.value == 0:
                return x
        if isinstance(x, IntImm) and isinstance(y, IntImm):
            return const(evaluate(name, x.dtype, x.value, y.value), x.dtype)
        return e.Call(x.dtype, op, (x, y))

    apply.__name__ = name
    apply.__doc__ = f"Return the {name.replace('_', ' ')} of two integers."
    return apply


_BITWISE: Final = {
    name: _bitwise(name)
    for name in ("shift_left", "shift_right", "bitwise_and", "bitwise_or", "bitwise_xor")
}
shift_left, shift_right, bitwise_and, bitwise_or, bitwise_xor = _BITWISE.values()


def bitwise_not(a: ExprLike) -> PrimExpr:
    """Return `a` with every bit flipped."""
    x = as_expr(a)
    if not x.dtype.is_integral:
        raise IRTypeError(f"bitwise_not takes an integer, got {x.dtype}")
    if isinstance(x, IntImm):
        return const(evaluate("bitwise_not", x.dtype, x.value), x.dtype)
    return e.Call(x.dtype, Op.get("bitwise_not"), (x,))


def if_then_else(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> PrimExpr:
    """Return a call that evaluates only the selected value, so the condition may guard a load."""
    c = as_expr(condition)
    if not c.dtype.is_bool or c.dtype.lanes != 1:
        raise IRTypeError(f"if_then_else takes a scalar bool condition, got {c.dtype}")
    x, y = match_types(true_value, false_value)
    if isinstance(c, IntImm):
        return x if c.value else y
    return e.Call(x.dtype, Op.get("if_then_else"), (c, x, y))


def select(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> PrimExpr:
    """Return a `Select`; both values may be evaluated."""
    x, y = match_types(true_value, false_value)
    return e.Select(as_expr(condition), x, y)


ROUNDINGS: Final = frozenset({"floor", "ceil", "trunc", "round", "nearbyint"})
"""Intrinsics that are folded, since their results are exact."""


def intrinsic(name: str, *args: ExprLike, dtype: str | None = None) -> PrimExpr:
    """Return a call of the intrinsic `name`, with the result type from the table of intrinsics.

    Rounding a constant to an integer is folded. Raises IRValueError for an unknown name,
    IRTypeError for a wrong number of operands.
    """
    op = Op.get(name)
    operands = [as_expr(a) for a in args]
    if op.arity is not None and len(operands) != op.arity:
        raise IRTypeError(f"{op.short_name} takes {op.arity} operand(s), got {len(operands)}")
    if op.result == "same":
        result = operands[0].dtype
    elif op.result == "matched":
        operands = list(match_types(*operands))
        result = operands[0].dtype
    elif op.result == "given":
        if dtype is None:
            raise IRTypeError(f"{op.short_name} needs a dtype")
        result = DataType(dtype)
    else:
        result = DataType(op.result)
        if operands and operands[0].dtype.lanes > 1 and not result.is_handle:
            result = result.with_lanes(operands[0].dtype.lanes)
    if op.short_name in ROUNDINGS and type(operands[0]) in (IntImm, FloatImm):
        value = operands[0]
        if _has_arithmetic(value.dtype):
            return const(evaluate(op.short_name, value.dtype, value_of(value)), value.dtype)  # type: ignore[arg-type]
    return e.Call(result, op, operands)


def _negative(a: ExprLike) -> PrimExpr:
    """Return `-a`, of the dtype of `a` (of int32 for a bool); unsigned integers wrap around."""
    x = as_expr(a)
    if x.dtype.is_uint and not x.dtype.is_bool:
        return sub(const(0, x.dtype), x)
    return mul(x, -1 if x.dtype.is_bool else const(-1, x.dtype))


e.smart.update(
    add=add,
    sub=sub,
    mul=mul,
    negative=_negative,
    div=_operator_div,
    floordiv=floordiv,
    floormod=floormod,
    cast=cast,
    bitwise_not=bitwise_not,
    **_BITWISE,
    **{kind.__name__.lower(): partial(compare, kind) for kind in e.COMPARISONS},
)
