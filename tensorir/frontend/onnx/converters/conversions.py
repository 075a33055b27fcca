"""Conversions between dtypes."""

from __future__ import annotations

from tensorir.errors import IRTypeError, IRValueError
from tensorir.frontend.onnx.dtypes import dtype_of
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.nodes.dtype import DataType
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@onnx_operator("Cast")
def cast(
    node: OnnxNode, x: GraphExpr, *, to: int, saturate: int = 1, round_mode: str = "up"
) -> GraphExpr:
    return _converted(node, x, dtype_of(to), saturate)


@onnx_operator("CastLike")
def cast_like(
    node: OnnxNode, x: GraphExpr, like: GraphExpr, *, saturate: int = 1, round_mode: str = "up"
) -> GraphExpr:
    return _converted(node, x, node.dtype(like), saturate)


def _converted(node: OnnxNode, x: GraphExpr, dtype: DataType, saturate: int) -> GraphExpr:
    if dtype == node.dtype(x):
        return x
    if "float8" in dtype and not saturate:
        raise IRValueError(f"a conversion to {dtype} without saturation is not supported")
    return op.astype(x, dtype)


@onnx_operator("BitCast")
def bit_cast(node: OnnxNode, x: GraphExpr, *, to: int) -> GraphExpr:
    dtype = dtype_of(to)
    if "bool" in (dtype, node.dtype(x)) and {dtype.nbytes, node.dtype(x).nbytes} == {1}:
        return op.astype(x, dtype)  # a bool is a byte that is 0 or 1
    if dtype.bits != node.dtype(x).bits:
        raise IRTypeError(f"{node.dtype(x)} and {dtype} have other numbers of bits")
    return op.reinterpret(x, dtype)
