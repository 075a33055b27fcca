"""Random numbers. A model computes the same numbers in each run, from its seed (0 by default)."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.frontend.onnx.dtypes import dtype_of
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr


def _dtype(node: OnnxNode, number: int | None, x: GraphExpr) -> str:
    return str(node.dtype(x) if number is None else dtype_of(number))


@onnx_operator("RandomNormal")
def random_normal(
    node: OnnxNode,
    *,
    shape: Sequence[int],
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float = 0.0,
) -> GraphExpr:
    """Numbers of the normal distribution."""
    return op.random.normal(shape, mean, scale, int(seed), dtype=str(dtype_of(dtype)))


@onnx_operator("RandomNormalLike")
def random_normal_like(
    node: OnnxNode,
    x: GraphExpr,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float = 0.0,
) -> GraphExpr:
    """Numbers of the normal distribution in the shape of another tensor."""
    return op.random.normal(node.shape(x), mean, scale, int(seed), dtype=_dtype(node, dtype, x))


@onnx_operator("RandomUniform")
def random_uniform(
    node: OnnxNode,
    *,
    shape: Sequence[int],
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float = 0.0,
) -> GraphExpr:
    """Numbers between two limits."""
    return op.random.uniform(shape, low, high, int(seed), dtype=str(dtype_of(dtype)))


@onnx_operator("RandomUniformLike")
def random_uniform_like(
    node: OnnxNode,
    x: GraphExpr,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float = 0.0,
) -> GraphExpr:
    """Numbers between two limits in the shape of another tensor."""
    return op.random.uniform(node.shape(x), low, high, int(seed), dtype=_dtype(node, dtype, x))


@onnx_operator("Bernoulli")
def bernoulli(
    node: OnnxNode, x: GraphExpr, *, dtype: int | None = None, seed: float = 0.0
) -> GraphExpr:
    """1 with the probability that the element states, else 0."""
    return op.random.bernoulli(x, int(seed), dtype=_dtype(node, dtype, x))


@onnx_operator("Multinomial")
def multinomial(
    node: OnnxNode, x: GraphExpr, *, dtype: int = 6, sample_size: int = 1, seed: float = 0.0
) -> GraphExpr:
    """Classes drawn with the log-probabilities of the input."""
    return op.random.multinomial(x, sample_size, int(seed), dtype=str(dtype_of(dtype)))
