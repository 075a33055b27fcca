"""Operators of classical machine learning, domain `ai.onnx.ml`."""

from __future__ import annotations

from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr

CLASSICAL = "ai.onnx.ml"


@onnx_operator("ArrayFeatureExtractor", domain=CLASSICAL)
def array_feature_extractor(node: OnnxNode, x: GraphExpr, indices: GraphExpr) -> GraphExpr:
    """Columns of a matrix; a row of features is a matrix of one row."""
    columns = op.reshape(indices, [-1])
    rows = op.expand_dims(x, [0]) if node.rank(x) == 1 else x
    return op.take(rows, columns, axis=node.rank(rows) - 1)


@onnx_operator("Binarizer", domain=CLASSICAL)
def binarizer(node: OnnxNode, x: GraphExpr, *, threshold: float = 0.0) -> GraphExpr:
    """1 for numbers above a threshold, else 0."""
    return op.astype(op.greater(x, threshold), str(node.dtype(x)))
