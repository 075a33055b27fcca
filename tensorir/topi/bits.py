"""Operators of the bits of integers."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.relax.declaration import operator
from tensorir.relax.signature import DTypeName
from tensorir.te.tensor import Tensor
from tensorir.topi.arithmetic import binary
from tensorir.topi.broadcast import Value
from tensorir.topi.elementwise import map_elements


def _of_integers(name: str, *operands: Value) -> None:
    for operand in operands:
        if not operand.dtype.is_integral:
            raise IRTypeError(f"{name} needs integers or bools, got {operand.dtype}")


def _bitwise(
    name: str, function: Callable[[PrimExpr, PrimExpr], PrimExpr], x1: Value, x2: Value
) -> Tensor:
    _of_integers(name, x1, x2)
    return binary(name, function, x1, x2)


@operator("bitwise_and")
def bitwise_and(x1: Value, x2: Value) -> Tensor:
    """Return the bits that are set in both."""
    return _bitwise("bitwise_and", te.bitwise_and, x1, x2)


@operator("bitwise_or")
def bitwise_or(x1: Value, x2: Value) -> Tensor:
    """Return the bits that are set in one or both."""
    return _bitwise("bitwise_or", te.bitwise_or, x1, x2)


@operator("bitwise_xor")
def bitwise_xor(x1: Value, x2: Value) -> Tensor:
    """Return the bits in which the two differ."""
    return _bitwise("bitwise_xor", te.bitwise_xor, x1, x2)


@operator("bitwise_not")
def bitwise_not(x: Tensor) -> Tensor:
    """Return every bit flipped."""
    _of_integers("bitwise_not", x)
    return map_elements("T_bitwise_not", te.bitwise_not, x)


@operator("left_shift")
def left_shift(x1: Value, x2: Value) -> Tensor:
    """Return the bits of `x1` moved up by `x2`; 0 where that is the width or more."""
    return _bitwise("left_shift", te.shift_left, x1, x2)


@operator("right_shift")
def right_shift(x1: Value, x2: Value) -> Tensor:
    """Return the bits of `x1` moved down by `x2`, filled with the sign."""
    return _bitwise("right_shift", te.shift_right, x1, x2)


@operator("reinterpret")
def reinterpret(x: Tensor, dtype: DTypeName) -> Tensor:
    """Return the bits of elements as elements of another dtype of equal width."""
    if DataType(dtype).bits != x.dtype.bits:
        raise IRTypeError(f"elements of {x.dtype} and {dtype} must have the same number of bits")
    return map_elements("T_reinterpret", lambda v: te.reinterpret(dtype, v), x)
