"""Elementwise operators: arithmetic, comparisons, logic, bits, functions of numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr

_BINARY: Final = {
    "Add": op.add,
    "Sub": op.subtract,
    "Mul": op.multiply,
    "Div": op.divide,
    "Equal": op.equal,
    "Less": op.less,
    "LessOrEqual": op.less_equal,
    "Greater": op.greater,
    "GreaterOrEqual": op.greater_equal,
    "And": op.logical_and,
    "Or": op.logical_or,
    "Xor": op.logical_xor,
    "BitwiseAnd": op.bitwise_and,
    "BitwiseOr": op.bitwise_or,
    "BitwiseXor": op.bitwise_xor,
}

_UNARY: Final = {
    "Abs": op.abs,
    "Neg": op.negative,
    "Ceil": op.ceil,
    "Floor": op.floor,
    "Round": op.round,
    "Sign": op.sign,
    "Sqrt": op.sqrt,
    "Reciprocal": op.reciprocal,
    "Exp": op.exp,
    "Log": op.log,
    "Sigmoid": op.sigmoid,
    "Erf": op.erf,
    "Sin": op.sin,
    "Cos": op.cos,
    "Tan": op.tan,
    "Asin": op.asin,
    "Acos": op.acos,
    "Atan": op.atan,
    "Sinh": op.sinh,
    "Cosh": op.cosh,
    "Tanh": op.tanh,
    "Asinh": op.asinh,
    "Acosh": op.acosh,
    "Atanh": op.atanh,
    "Not": op.logical_not,
    "BitwiseNot": op.bitwise_not,
    "IsNaN": op.isnan,
}

_VARIADIC: Final = {"Max": op.maximum, "Min": op.minimum, "Sum": op.add}


def _register_binary(name: str, operator: Callable[..., GraphExpr]) -> None:
    def convert(node: OnnxNode, a: GraphExpr, b: GraphExpr) -> GraphExpr:
        return operator(*node.broadcast_operands(a, b))

    onnx_operator(name)(convert)


def _register_unary(name: str, operator: Callable[..., GraphExpr]) -> None:
    def convert(node: OnnxNode, x: GraphExpr) -> GraphExpr:
        return operator(x)

    onnx_operator(name)(convert)


def _register_variadic(name: str, operator: Callable[..., GraphExpr]) -> None:
    def convert(node: OnnxNode, first: GraphExpr, *others: GraphExpr) -> GraphExpr:
        return reduce(operator, node.broadcast_operands(first, *others))

    onnx_operator(name)(convert)


for _name, _operator in _BINARY.items():
    _register_binary(_name, _operator)
for _name, _operator in _UNARY.items():
    _register_unary(_name, _operator)
for _name, _operator in _VARIADIC.items():
    _register_variadic(_name, _operator)


@onnx_operator("Mean")
def mean(node: OnnxNode, first: GraphExpr, *others: GraphExpr) -> GraphExpr:
    return op.divide(
        reduce(op.add, node.broadcast_operands(first, *others)), float(1 + len(others))
    )


@onnx_operator("Mod")
def mod(node: OnnxNode, a: GraphExpr, b: GraphExpr, *, fmod: int = 0) -> GraphExpr:
    operands = node.broadcast_operands(a, b)
    return op.mod(*operands) if fmod else op.floor_mod(*operands)


@onnx_operator("Pow")
def pow_(node: OnnxNode, a: GraphExpr, b: GraphExpr) -> GraphExpr:
    a, b = node.broadcast_operands(a, b)
    base, exponent = node.dtype(a), node.dtype(b)
    known = node.contents(b)
    if known is not None and known.size == 1 and known.reshape(-1)[0] == 2 and known.ndim == 0:
        return op.square(a)
    if base == exponent:
        return op.power(a, b)
    if base.is_integral and exponent.is_floating:
        return op.astype(op.power(op.astype(a, exponent), b), base)
    return op.power(a, op.astype(b, base))


@onnx_operator("BitShift")
def bit_shift(node: OnnxNode, x: GraphExpr, y: GraphExpr, *, direction: str) -> GraphExpr:
    operators = {"LEFT": op.left_shift, "RIGHT": op.right_shift}
    if direction not in operators:
        raise IRValueError(f"direction must be LEFT or RIGHT, got {direction!r}")
    return operators[direction](*node.broadcast_operands(x, y))


@onnx_operator("Where")
def where(node: OnnxNode, condition: GraphExpr, x: GraphExpr, y: GraphExpr) -> GraphExpr:
    return op.where(*node.broadcast_operands(condition, x, y))


@onnx_operator("IsInf")
def is_inf(
    node: OnnxNode, x: GraphExpr, *, detect_negative: int = 1, detect_positive: int = 1
) -> GraphExpr:
    return op.isinf(x, bool(detect_positive), bool(detect_negative))


@onnx_operator("Clip")
def clip(
    node: OnnxNode,
    x: GraphExpr,
    low: GraphExpr | None = None,
    high: GraphExpr | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> GraphExpr:
    limits = (
        _number(node, low) if low is not None else min,
        _number(node, high) if high is not None else max,
    )
    if not any(isinstance(limit, GraphExpr) for limit in limits):
        return op.clip(x, *limits)
    # Limits that are computed when the model runs are tensors of rank 0.
    if limits[0] is not None:
        x = op.maximum(x, limits[0])
    return x if limits[1] is None else op.minimum(x, limits[1])


def _number(node: OnnxNode, value: GraphExpr) -> GraphExpr | float | int:
    """Return a number if it is known, otherwise the tensor that holds it."""
    known = node.contents(value)
    if known is None or known.dtype == object or known.size != 1:
        return value
    return known.reshape(-1)[0].item()  # type: ignore[no-any-return]


@onnx_operator("Identity")
def identity(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return x


@onnx_operator("Dropout")
def dropout(
    node: OnnxNode,
    x: GraphExpr,
    rate: GraphExpr | None = None,
    training: GraphExpr | None = None,
    *,
    seed: int | None = None,
    ratio: float = 0.5,
) -> list[GraphExpr]:
    is_training = training is not None and node.numbers(training, "training_mode").any()
    if is_training and (ratio if rate is None else node.numbers(rate, "ratio").any()):
        raise IRValueError("dropout in training is random; only inference is supported")
    kept = Constant(np.array(True))
    return [x, op.broadcast_to(kept, node.shape(x))] if len(node.outputs) > 1 else [x]


@onnx_operator("Constant")
def constant(
    node: OnnxNode,
    *,
    value: Constant | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
) -> GraphExpr:
    if value is not None:
        return value
    floats, integers = (value_float, value_floats), (value_int, value_ints)
    for given, dtype in [*((v, "float32") for v in floats), *((v, "int64") for v in integers)]:
        if given is not None:
            return Constant(np.array(given, dtype))
    raise IRTypeError("a constant has one value")
