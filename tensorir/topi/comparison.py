"""Comparisons, boolean logic, and selection between two operands."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.expr import EQ, GE, GT, LE, LT, NE, CmpOp, PrimExpr
from tensorir.nodes.ops import compare, select
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor
from tensorir.topi.arithmetic import binary
from tensorir.topi.broadcast import Value, elementwise, same_dtype
from tensorir.topi.elementwise import map_elements


def _compared(name: str, kind: type[CmpOp], x1: Value, x2: Value) -> Tensor:
    return binary(name, lambda a, b: compare(kind, a, b), x1, x2)


@operator("equal")
def equal(x1: Value, x2: Value) -> Tensor:
    """Return whether elements are equal, as bool."""
    return _compared("equal", EQ, x1, x2)


@operator("not_equal")
def not_equal(x1: Value, x2: Value) -> Tensor:
    """Return whether elements differ, as bool."""
    return _compared("not_equal", NE, x1, x2)


@operator("less")
def less(x1: Value, x2: Value) -> Tensor:
    """Return whether `x1 < x2`, as bool."""
    return _compared("less", LT, x1, x2)


@operator("less_equal")
def less_equal(x1: Value, x2: Value) -> Tensor:
    """Return whether `x1 <= x2`, as bool."""
    return _compared("less_equal", LE, x1, x2)


@operator("greater")
def greater(x1: Value, x2: Value) -> Tensor:
    """Return whether `x1 > x2`, as bool."""
    return _compared("greater", GT, x1, x2)


@operator("greater_equal")
def greater_equal(x1: Value, x2: Value) -> Tensor:
    """Return whether `x1 >= x2`, as bool."""
    return _compared("greater_equal", GE, x1, x2)


def _of_bools(
    name: str, function: Callable[[PrimExpr, PrimExpr], PrimExpr], x1: Value, x2: Value
) -> Tensor:
    for operand in (x1, x2):
        if not operand.dtype.is_bool:
            raise IRTypeError(f'{name} needs bools, got {operand.dtype}; astype(x, "bool") is x!=0')
    return binary(name, function, x1, x2)


@operator("logical_and")
def logical_and(x1: Value, x2: Value) -> Tensor:
    """Return whether both operands are true."""
    return _of_bools("logical_and", te.bitwise_and, x1, x2)


@operator("logical_or")
def logical_or(x1: Value, x2: Value) -> Tensor:
    """Return whether at least one operand is true."""
    return _of_bools("logical_or", te.bitwise_or, x1, x2)


@operator("logical_xor")
def logical_xor(x1: Value, x2: Value) -> Tensor:
    """Return whether exactly one operand is true."""
    return _of_bools("logical_xor", te.bitwise_xor, x1, x2)


@operator("logical_not")
def logical_not(x: Tensor) -> Tensor:
    """Return whether the operand is false."""
    if not x.dtype.is_bool:
        raise IRTypeError(f'logical_not needs bools, got {x.dtype}; astype(x, "bool") is x != 0')
    return map_elements("T_logical_not", te.bitwise_not, x)


@operator("where")
def where(condition: Tensor, x1: Value, x2: Value) -> Tensor:
    """Return `x1` where the condition, a bool, is true, and `x2` elsewhere."""
    if not condition.dtype.is_bool:
        raise IRTypeError(
            f'the condition of where is {condition.dtype}, not bool; astype(x, "bool") is x != 0'
        )
    same_dtype(x1, x2)
    return elementwise("T_where", select, condition, x1, x2)
