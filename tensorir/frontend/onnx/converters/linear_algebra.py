"""Products of matrices, and sums of products."""

from __future__ import annotations

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


@onnx_operator("MatMul")
def matmul(node: OnnxNode, a: GraphExpr, b: GraphExpr) -> GraphExpr:
    return op.matmul(*matching_matrices(node, a, b))


def matching_matrices(node: OnnxNode, a: GraphExpr, b: GraphExpr) -> list[GraphExpr]:
    """Return operands of a matrix product; unproved equal sizes are checked at run time."""
    first, second = node.rank(a), node.rank(b)
    places = [[(0, first - 1), (1, max(second - 2, 0))]]
    for k in range(3, min(first, second) + 1):
        places.append([(0, first - k), (1, second - k)])
    return node.equal_sizes([a, b], places)


@onnx_operator("Gemm")
def gemm(
    node: OnnxNode, a: GraphExpr, b: GraphExpr, c: GraphExpr | None = None, *,
    alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
) -> GraphExpr:  # fmt: skip
    if node.rank(a) != 2 or node.rank(b) != 2:
        raise IRValueError(f"A and B must be matrices, got {a.struct_info} and {b.struct_info}")
    a, b = node.equal_sizes([a, b], [[(0, 0 if transA else 1), (1, 1 if transB else 0)]])
    result = op.matmul(
        op.permute_dims(a, [1, 0]) if transA else a, op.permute_dims(b, [1, 0]) if transB else b
    )
    if alpha != 1:
        result = op.multiply(result, _scale(node, a, alpha))
    if c is None or beta == 0:
        return result
    return op.add(
        *node.broadcast_operands(result, c if beta == 1 else op.multiply(c, _scale(node, c, beta)))
    )


def _scale(node: OnnxNode, x: GraphExpr, factor: float) -> float | int:
    if not node.dtype(x).is_integral:
        return factor
    if factor != int(factor):
        raise IRValueError(f"the factor {factor} for integers must be an integer")
    return int(factor)


@onnx_operator("Einsum")
def einsum(node: OnnxNode, first: GraphExpr, *others: GraphExpr, equation: str) -> GraphExpr:
    return op.einsum([first, *others], equation.replace(" ", ""))
