"""Quantized numbers: conversions, and products of 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.converters.convolutions import Windows, window_of_weights
from tensorir.frontend.onnx.dtypes import dtype_of, held_dtype, narrow_integer
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr
from tensorir.topi.extents import is_number

MICROSOFT = "com.microsoft"


def _as_scalar(node: OnnxNode, value: GraphExpr | None) -> GraphExpr | None:
    """Return a scale or zero point; a tensor of one element becomes a scalar."""
    if value is None or node.rank(value) != 1:
        return value
    return op.reshape(value, ()) if is_number(node.extent(value, 0), 1) else value


@onnx_operator("QuantizeLinear")
@onnx_operator("QuantizeLinear", domain=MICROSOFT)
def quantize_linear(
    node: OnnxNode,
    x: GraphExpr,
    scale: GraphExpr,
    zero_point: GraphExpr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> GraphExpr:
    """Real numbers as quantized ones."""
    dtype = str(held_dtype(output_dtype)) if output_dtype else "uint8"
    if zero_point is not None:
        dtype = str(node.dtype(zero_point))
    if "float8" in dtype and not saturate:
        raise IRValueError(f"a conversion to {dtype} without saturation is not supported")
    if precision and str(dtype_of(precision)) != "float32":
        raise IRValueError("quotients are formed in float32; another precision is not supported")
    result = op.quantize(
        x, scale, zero_point, axis=axis, out_dtype=dtype, block_size=block_size or None
    )
    number = output_dtype if zero_point is None else node.known.narrow(zero_point) or 0
    narrow = narrow_integer(number)
    if narrow is None:
        return result
    return node.narrowed(op.clip(result, narrow.low, narrow.high), number)


@onnx_operator("DequantizeLinear")
@onnx_operator("DequantizeLinear", domain=MICROSOFT)
def dequantize_linear(
    node: OnnxNode,
    x: GraphExpr,
    scale: GraphExpr,
    zero_point: GraphExpr | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> GraphExpr:
    """Quantized numbers as real ones."""
    dtype = str(dtype_of(output_dtype) if output_dtype else node.dtype(scale))
    return op.dequantize(
        x, scale, zero_point, axis=axis, out_dtype=dtype, block_size=block_size or None
    )


@onnx_operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(node: OnnxNode, x: GraphExpr) -> Sequence[GraphExpr]:
    """Real numbers as bytes, with a scale whose range covers them and 0."""
    zero = Constant(np.float32(0))
    low = node.emit(op.minimum(op.min(x), zero))
    scale = node.emit((op.maximum(op.max(x), zero) - low) / np.float32(255))
    # If all numbers are 0, the scale is 0, and the zero point maps them back to 0.
    divisor = op.where(op.equal(scale, zero), Constant(np.float32(1)), scale)
    zero_point = node.emit(op.astype(op.clip(op.round(-low / divisor), 0, 255), "uint8"))
    return op.quantize(x, divisor, zero_point, out_dtype="uint8"), scale, zero_point


# ---------------------------------------------------------------------------------------- products


def integer_product(
    node: OnnxNode, a: GraphExpr, b: GraphExpr, a_zero: GraphExpr | None, b_zero: GraphExpr | None
) -> GraphExpr:
    """Return the product of matrices of bytes, in int32."""
    return op.quantized.matmul(a, b, _as_scalar(node, a_zero), _as_scalar(node, b_zero))


def real_product(
    node: OnnxNode,
    a: GraphExpr,
    b: GraphExpr,
    a_scale: GraphExpr,
    b_scale: GraphExpr,
    a_zero: GraphExpr | None,
    b_zero: GraphExpr | None,
    bias: GraphExpr | None,
) -> GraphExpr:
    """Return the product of quantized matrices, as real numbers."""
    total = op.astype(integer_product(node, a, b, a_zero, b_zero), "float32")
    product = total * (_number(node, a_scale) * _number(node, b_scale))
    return product if bias is None else product + bias


def _dynamic_product(
    node: OnnxNode,
    a: GraphExpr,
    b: GraphExpr,
    b_scale: GraphExpr,
    b_zero: GraphExpr | None,
    bias: GraphExpr | None,
) -> GraphExpr:
    """Return the product of a matrix, quantized at run time, and a quantized matrix."""
    rounded, scale, zero = dynamic_quantize_linear(node, a)
    return real_product(node, node.emit(rounded), b, scale, b_scale, zero, b_zero, bias)


@onnx_operator("ConvInteger")
def conv_integer(
    node: OnnxNode,
    x: GraphExpr,
    w: GraphExpr,
    x_zero_point: GraphExpr | None = None,
    w_zero_point: GraphExpr | None = None,
    *,
    group: int = 1,
    **windows: Unpack[Windows],
) -> GraphExpr:
    """The convolution of bytes, in int32."""
    window = window_of_weights(node, x, w, windows)
    zeros = _as_scalar(node, x_zero_point), _as_scalar(node, w_zero_point)
    return op.quantized.conv(x, w, *zeros, window.strides, window.padding, window.dilations, group)


def _requantize_sums(
    node: OnnxNode, total: GraphExpr, factor: GraphExpr, zero_point: GraphExpr
) -> GraphExpr:
    """Return sums in int32 as quantized numbers."""
    scaled = op.astype(total, "float32") * factor
    return op.quantize(
        scaled,
        Constant(np.float32(1)),
        _as_scalar(node, zero_point),
        out_dtype=str(node.dtype(zero_point)),
    )


def _number(node: OnnxNode, value: GraphExpr) -> GraphExpr:
    created = _as_scalar(node, value)
    assert created is not None
    return op.astype(created, "float32") if node.dtype(value) != "float32" else created


def _quantized_product(
    node: OnnxNode,
    a: Sequence[GraphExpr],
    b: Sequence[GraphExpr],
    y_scale: GraphExpr,
    y_zero: GraphExpr,
) -> GraphExpr:
    """Return the product of matrices that are given with their scales and zero points."""
    total = integer_product(node, a[0], b[0], a[2], b[2])
    rows = _number(node, a[1])
    if node.rank(rows) == 1:
        rows = op.expand_dims(rows, [-1])
    factor = rows * _number(node, b[1]) / _number(node, y_scale)
    return _requantize_sums(node, total, factor, y_zero)


@onnx_operator("QLinearConv")
def q_linear_conv(
    node: OnnxNode,
    x: GraphExpr,
    x_scale: GraphExpr,
    x_zero_point: GraphExpr,
    w: GraphExpr,
    w_scale: GraphExpr,
    w_zero_point: GraphExpr,
    y_scale: GraphExpr,
    y_zero_point: GraphExpr,
    b: GraphExpr | None = None,
    *,
    group: int = 1,
    **windows: Unpack[Windows],
) -> GraphExpr:
    """The convolution of quantized numbers, quantized."""
    total = conv_integer(node, x, w, x_zero_point, w_zero_point, group=group, **windows)
    trailing = list(range(1, node.rank(x) - 1))
    if b is not None:
        total = total + op.expand_dims(b, trailing)
    channels = _number(node, w_scale)
    if node.rank(channels) == 1:
        channels = op.expand_dims(channels, trailing)
    factor = _number(node, x_scale) * channels / _number(node, y_scale)
    return _requantize_sums(node, total, factor, y_zero_point)


# ------------------------------------------------------------------------------ in real numbers


def _requantize(
    node: OnnxNode, real: GraphExpr, like: GraphExpr, scale: GraphExpr, zero: GraphExpr | None
) -> GraphExpr:
    return op.quantize(real, scale, zero, out_dtype=str(node.dtype(like)))


def _elementwise(operator: Callable[..., GraphExpr]) -> Callable[..., GraphExpr]:
    def convert(
        node: OnnxNode,
        a: GraphExpr,
        a_scale: GraphExpr,
        a_zero_point: GraphExpr,
        b: GraphExpr,
        b_scale: GraphExpr,
        b_zero_point: GraphExpr,
        y_scale: GraphExpr,
        y_zero_point: GraphExpr | None = None,
    ) -> GraphExpr:
        left = op.dequantize(a, a_scale, a_zero_point)
        right = op.dequantize(b, b_scale, b_zero_point)
        result = operator(*node.broadcast_operands(left, right))
        return _requantize(node, result, a, y_scale, y_zero_point)

    return convert


def _mean(node: OnnxNode, x: GraphExpr, channels_last: int) -> GraphExpr:
    rank = node.rank(x)
    axes = range(1, rank - 1) if channels_last else range(2, rank)
    return op.mean(x, axis=list(axes), keepdims=True)


def _concat(
    node: OnnxNode, scale: GraphExpr, zero: GraphExpr, triples: Sequence[GraphExpr], axis: int
) -> GraphExpr:
    parts = [op.dequantize(*triples[k : k + 3]) for k in range(0, len(triples), 3)]
    return _requantize(node, op.concat(parts, axis=axis), triples[0], scale, zero)


onnx_operators(
    {
        "MatMulInteger": lambda node, a, b, a_zero=None, b_zero=None: integer_product(
            node, a, b, a_zero, b_zero
        ),
        "QLinearMatMul": lambda node, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero: (
            _quantized_product(node, (a, a_scale, a_zero), (b, b_scale, b_zero), y_scale, y_zero)
        ),
    }
)
onnx_operators(
    {
        "MatMulIntegerToFloat": (
            lambda node, a, b, a_scale, b_scale, a_zero=None, b_zero=None, bias=None: real_product(
                node, a, b, a_scale, b_scale, a_zero, b_zero, bias
            )
        ),
        "DynamicQuantizeMatMul": lambda node, a, b, b_scale, b_zero=None, bias=None: (
            _dynamic_product(node, a, b, b_scale, b_zero, bias)
        ),
        "QLinearConcat": lambda node, scale, zero, *triples, axis: _concat(
            node, scale, zero, triples, axis
        ),
        "QLinearAdd": _elementwise(op.add),
        "QLinearMul": _elementwise(op.multiply),
        "QLinearSigmoid": lambda node, x, x_scale, x_zero, scale, zero=None: _requantize(
            node, op.sigmoid(op.dequantize(x, x_scale, x_zero)), x, scale, zero
        ),
        "QLinearLeakyRelu": lambda node, x, x_scale, x_zero, scale, zero=None, *, alpha=0.01: (
            _requantize(
                node, op.nn.leakyrelu(op.dequantize(x, x_scale, x_zero), alpha), x, scale, zero
            )
        ),
        "QLinearGlobalAveragePool": lambda node, x, s, z, y_scale, y_zero, *, channels_last=0: (
            _requantize(
                node, _mean(node, op.dequantize(x, s, z), channels_last), x, y_scale, y_zero
            )
        ),
    },
    domain=MICROSOFT,
)


@onnx_operator("QGemm", domain=MICROSOFT)
def q_gemm(
    node: OnnxNode,
    a: GraphExpr,
    a_scale: GraphExpr,
    a_zero_point: GraphExpr,
    b: GraphExpr,
    b_scale: GraphExpr,
    b_zero_point: GraphExpr,
    c: GraphExpr | None = None,
    y_scale: GraphExpr | None = None,
    y_zero_point: GraphExpr | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> GraphExpr:
    """A product of quantized matrices with a bias in int32; the result is quantized or float32."""
    left = op.permute_dims(a) if transA else a
    right = op.permute_dims(b) if transB else b
    total = integer_product(node, left, right, a_zero_point, b_zero_point)
    if c is not None:
        total = total + c
    factor = _number(node, a_scale) * _number(node, b_scale) * np.float32(alpha)
    if y_scale is None or y_zero_point is None:
        return op.astype(total, "float32") * factor
    return _requantize_sums(node, total, factor / _number(node, y_scale), y_zero_point)
