"""Elementwise operators: arithmetic, comparisons, logic, bits, functions, activations, dtypes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

import numpy as np

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.converters.shapes import flatten
from tensorir.frontend.onnx.dtypes import dtype_number, dtype_of, held_dtype, narrow_integer
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr, ShapeExpr

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


def _binary(operator: Callable[..., GraphExpr]) -> Callable[..., GraphExpr]:
    return lambda node, a, b: operator(*node.broadcast_operands(a, b))


def _unary(operator: Callable[..., GraphExpr]) -> Callable[..., GraphExpr]:
    return lambda node, x: operator(x)


def _function_named(
    what: str, name: str, functions: dict[str, Callable[..., GraphExpr]]
) -> Callable[..., GraphExpr]:
    """Return the function that an attribute names. Raises IRValueError for an unknown name."""
    if name not in functions:
        raise IRValueError(f"{what} must be {' or '.join(functions)}, got {name!r}")
    return functions[name]


def _sum(node: OnnxNode, *operands: GraphExpr) -> GraphExpr:
    return reduce(op.add, node.broadcast_operands(*operands))


onnx_operators({name: _binary(operator) for name, operator in _BINARY.items()})
onnx_operators({name: _unary(operator) for name, operator in _UNARY.items()})
onnx_operators(
    {
        "Max": lambda node, first, *others: reduce(
            op.maximum, node.broadcast_operands(first, *others)
        ),
        "Min": lambda node, first, *others: reduce(
            op.minimum, node.broadcast_operands(first, *others)
        ),
        "Sum": lambda node, first, *others: _sum(node, first, *others),
        "Mean": lambda node, first, *others: op.divide(
            _sum(node, first, *others), float(1 + len(others))
        ),
        "Mod": lambda node, a, b, *, fmod=0: (op.mod if fmod else op.floor_mod)(
            *node.broadcast_operands(a, b)
        ),
        "BitShift": lambda node, x, y, *, direction: _function_named(
            "direction", direction, {"LEFT": op.left_shift, "RIGHT": op.right_shift}
        )(*node.broadcast_operands(x, y)),
        "Where": lambda node, condition, x, y: op.where(*node.broadcast_operands(condition, x, y)),
        "IsInf": lambda node, x, *, detect_negative=1, detect_positive=1: op.isinf(
            x, bool(detect_positive), bool(detect_negative)
        ),
        "Identity": lambda node, x: x,
        "Relu": lambda node, x: op.nn.relu(x),
        "LeakyRelu": lambda node, x, *, alpha=0.01: op.nn.leakyrelu(x, alpha),
        "Elu": lambda node, x, *, alpha=1.0: op.nn.elu(x, alpha),
        "Selu": lambda node, x, *, alpha=1.6732632, gamma=1.050701: op.nn.selu(x, alpha, gamma),
        "Celu": lambda node, x, *, alpha=1.0: op.nn.celu(x, alpha),
        "Gelu": lambda node, x, *, approximate="none": _function_named(
            "approximate", approximate, {"none": op.nn.gelu, "tanh": op.nn.gelu_tanh}
        )(x),
        "Swish": lambda node, x, *, alpha=1.0: op.nn.swish(x, alpha),
        "Mish": lambda node, x: op.nn.mish(x),
        "Softplus": lambda node, x: op.nn.softplus(x),
        "Softsign": lambda node, x: op.nn.softsign(x),
        "HardSigmoid": lambda node, x, *, alpha=0.2, beta=0.5: op.nn.hardsigmoid(x, alpha, beta),
        "HardSwish": lambda node, x: op.nn.hardswish(x),
        "ThresholdedRelu": lambda node, x, *, alpha=1.0: op.nn.thresholded_relu(x, alpha),
        "Shrink": lambda node, x, *, bias=0.0, lambd=0.5: op.nn.shrink(x, lambd, bias),
        "Softmax": lambda node, x, *, axis=None: _apply_along_axis(node, op.nn.softmax, x, axis),
        "LogSoftmax": lambda node, x, *, axis=None: _apply_along_axis(
            node, op.nn.log_softmax, x, axis
        ),
        "Hardmax": lambda node, x, *, axis=None: _apply_along_axis(node, op.nn.hardmax, x, axis),
        "Cast": lambda node, x, *, to, saturate=1, round_mode="up": _convert(node, x, to, saturate),
        "CastLike": lambda node, x, like, *, saturate=1, round_mode="up": _convert(
            node, x, node.known.narrow(like) or dtype_number(node.dtype(like)), saturate
        ),
    }
)


def _apply_along_axis(
    node: OnnxNode, operator: Callable[..., GraphExpr], x: GraphExpr, axis: int | None
) -> GraphExpr:
    """Return an operator along an axis.

    Before opset 13, along that axis and all later axes together.
    """
    if node.opset >= 13:
        return operator(x, -1 if axis is None else axis)
    own = node.shape(x)
    split = 1 if axis is None else axis
    if split in (-1, len(own) - 1):
        return operator(x, -1)
    return op.reshape(operator(flatten(node, x, axis=split), 1), ShapeExpr(own))


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


def _convert(node: OnnxNode, x: GraphExpr, number: int, saturate: int) -> GraphExpr:
    dtype, narrow = held_dtype(number), narrow_integer(number)
    if "float8" in dtype and not saturate:
        raise IRValueError(f"a conversion to {dtype} without saturation is not supported")
    if narrow is None:
        return x if dtype == node.dtype(x) else op.astype(x, dtype)
    if node.known.narrow(x) == number:
        return x
    # A number that is out of range keeps its lowest bits.
    wide = x if node.dtype(x) == "int32" else op.astype(x, "int32")
    count = narrow.high - narrow.low + 1
    wrapped = op.add(op.bitwise_and(op.subtract(wide, narrow.low), count - 1), narrow.low)
    return node.narrowed(op.astype(wrapped, narrow.dtype), number)


@onnx_operator("BitCast")
def bit_cast(node: OnnxNode, x: GraphExpr, *, to: int) -> GraphExpr:
    dtype = dtype_of(to)
    if "bool" in (dtype, node.dtype(x)) and {dtype.nbytes, node.dtype(x).nbytes} == {1}:
        return op.astype(x, dtype)  # a bool is a byte that is 0 or 1
    if dtype.bits != node.dtype(x).bits:
        raise IRTypeError(f"{node.dtype(x)} and {dtype} must have the same number of bits")
    return op.reinterpret(x, dtype)
