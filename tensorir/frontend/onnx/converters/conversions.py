"""Conversions between dtypes."""

from __future__ import annotations

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.dtypes import dtype_number, dtype_of, held_dtype, narrow_integer
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@onnx_operator("Cast")
def cast(
    node: OnnxNode, x: GraphExpr, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> GraphExpr:
    return _converted(node, x, to, saturate)


@onnx_operator("CastLike")
def cast_like(
    node: OnnxNode, x: GraphExpr, like: GraphExpr, *, saturate: int = 1, round_mode: str = "up"
) -> GraphExpr:
    return _converted(node, x, node.narrow(like) or dtype_number(node.dtype(like)), saturate)


def _converted(node: OnnxNode, x: GraphExpr, number: int, saturate: int) -> GraphExpr:
    dtype, narrow = held_dtype(number), narrow_integer(number)
    if "float8" in dtype and not saturate:
        raise IRValueError(f"a conversion to {dtype} without saturation is not supported")
    if narrow is None:
        return x if dtype == node.dtype(x) else op.astype(x, dtype)
    if node.narrow(x) == number:
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
