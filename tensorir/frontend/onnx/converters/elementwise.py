"""Operators of each element: arithmetic, comparisons, logic, bits, functions of numbers."""

from __future__ import annotations

from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@onnx_operator("Add")
def add(node: OnnxNode, a: GraphExpr, b: GraphExpr) -> GraphExpr:
    return op.add(*node.agreed(a, b))


@onnx_operator("Relu")
def relu(node: OnnxNode, x: GraphExpr) -> GraphExpr:
    return op.nn.relu(x)


@onnx_operator("Shape")
def shape(node: OnnxNode, x: GraphExpr, *, start: int = 0, end: int | None = None) -> GraphExpr:
    return node.integer_tensor(node.shape(x)[start:end])
