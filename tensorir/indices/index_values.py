"""Index arithmetic on NumPy arrays: the values of an expression for many indices at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError
from tensorir.nodes import expr as e
from tensorir.nodes.expr import PrimExpr, Var
from tensorir.semantics import COMPARISONS


def _truncated_quotient(a: Any, b: Any) -> Any:
    return np.sign(a) * np.sign(b) * (abs(a) // abs(b))


_BINARY: Final[dict[type | str, Callable[[Any, Any], Any]]] = {
    e.Add: operator.add,
    e.Sub: operator.sub,
    e.Mul: operator.mul,
    e.FloorDiv: operator.floordiv,
    e.FloorMod: operator.mod,
    e.Div: _truncated_quotient,
    e.Mod: lambda a, b: a - _truncated_quotient(a, b) * b,
    e.Min: np.minimum,
    e.Max: np.maximum,
    **COMPARISONS,
    e.And: np.logical_and,
    e.Or: np.logical_or,
}


def index_values(expr: PrimExpr, values: Mapping[Var, NDArray[np.int64]]) -> Any:
    """Return the values of an index expression, as int64, given the values of its variables.

    The arrays of the variables must broadcast to one shape. Raises IRTypeError for an expression
    that is not index arithmetic, and for a variable without values.
    """
    if isinstance(expr, Var) and expr in values:
        return values[expr]
    if isinstance(expr, e.IntImm):
        return np.int64(expr.value)
    if isinstance(expr, e.BinaryOp):
        return _BINARY[type(expr)](index_values(expr.a, values), index_values(expr.b, values))
    if isinstance(expr, e.Cast) and expr.dtype.is_int:
        return index_values(expr.value, values)
    if isinstance(expr, e.Not):
        return np.logical_not(index_values(expr.a, values))
    if isinstance(expr, e.Select):
        parts = (expr.condition, expr.true_value, expr.false_value)
        return np.where(*(index_values(part, values) for part in parts))
    raise IRTypeError(f"{expr} is not arithmetic on the indices {[v.name for v in values]}")
