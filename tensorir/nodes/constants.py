"""Immediates, and Python values as expressions."""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np

from tensorir.errors import IRTypeError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import BOOL, FLOAT32, FLOAT64, INT32, INT64, DataType
from tensorir.nodes.expr import FloatImm, IntImm, PrimExpr, StringImm
from tensorir.nodes.float_format import FORMATS

Number: TypeAlias = int | float | bool

_SMALL: Final[dict[tuple[DataType, int], IntImm]] = {
    (dtype, value): IntImm(dtype, value) for dtype in (INT32, INT64) for value in range(-16, 1025)
}
TRUE: Final = IntImm(BOOL, 1)
FALSE: Final = IntImm(BOOL, 0)


def const(value: Number, dtype: str | None = None) -> PrimExpr:
    """Return `value` as an immediate; a vector dtype gives its broadcast.

    Without a dtype, a bool becomes bool, an int int32 (int64 if it does not fit), a float float32
    (float64 if it does not fit); a NumPy scalar keeps its dtype.
    """
    if type(value) is int:
        small = _SMALL.get((dtype, value))  # type: ignore[arg-type]
        if small is not None:
            return small
    if dtype is None:
        return _default_const(value)
    kind = DataType(dtype)
    if kind.lanes > 1:
        return e.Broadcast(const(value, kind.element), kind.lanes)
    if kind.is_bool:
        return TRUE if value else FALSE
    if kind.is_integral:
        number = int(value)
        return _SMALL.get((kind, number)) or IntImm(kind, number)
    if kind.is_floating:
        return FloatImm(kind, float(value))
    raise IRTypeError(f"a constant cannot have the dtype {kind}")


def _default_const(value: Number) -> PrimExpr:
    if isinstance(value, np.generic):
        return const(value.item(), DataType(value.dtype.name))
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        number = int(value)
        return const(number, INT32 if -(1 << 31) <= number < (1 << 31) else INT64)
    wide = math.isfinite(value) and abs(value) > 3.4028234663852886e38
    return FloatImm(FLOAT64 if wide else FLOAT32, float(value))


def as_expr(value: Any) -> PrimExpr:
    """Return a Python value, axis or deferred comparison as an expression.

    Raises IRTypeError for other values.
    """
    if isinstance(value, PrimExpr):
        return value
    if type(value) is int:
        return _SMALL.get((INT32, value)) or _default_const(value)
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return _default_const(value)  # type: ignore[arg-type]
    if isinstance(value, e.EqualOp):
        return value.as_expr()
    if isinstance(value, e.IterVar):
        return value.var
    if isinstance(value, str):
        return StringImm(value)
    convert = getattr(value, "as_expr", None)
    if convert is not None:
        return convert()  # type: ignore[no-any-return]
    raise IRTypeError(f"cannot use a {type(value).__name__} as an expression: {value!r}")


def min_value(dtype: str) -> PrimExpr:
    """Return the smallest finite value of `dtype`."""
    kind = DataType(dtype)
    return const(e.integer_limits(kind)[0] if kind.is_integral else -FORMATS[kind].largest, kind)


def max_value(dtype: str) -> PrimExpr:
    """Return the largest finite value of `dtype`."""
    kind = DataType(dtype)
    return const(e.integer_limits(kind)[1] if kind.is_integral else FORMATS[kind].largest, kind)


def infinity(dtype: str) -> PrimExpr:
    """Return positive infinity of a floating point `dtype`."""
    return FloatImm(dtype, math.inf)


def is_const_int(value: PrimExpr, equals: int | None = None) -> bool:
    """Return True if `value` is an integer immediate (equal to `equals` if given)."""
    return isinstance(value, IntImm) and (equals is None or value.value == equals)
