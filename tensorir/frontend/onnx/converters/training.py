"""Steps of optimizers: the next weights from gradients and from what the optimizer remembers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr

TRAINING = "ai.onnx.preview.training"


def _each(
    inputs: Sequence[GraphExpr], kinds: int, step: Callable[..., Sequence[GraphExpr]]
) -> list[GraphExpr]:
    """Return the results of a step for each of several weights, kind by kind as inputs are.

    There are `kinds` inputs of each weight: itself, its gradient, and what is remembered of it.
    """
    count = len(inputs) // kinds
    if count == 0 or len(inputs) % kinds:
        raise IRValueError(f"there are {kinds} inputs for each of the weights, got {len(inputs)}")
    rows = [step(*inputs[k::count]) for k in range(count)]
    return [value for column in zip(*rows, strict=True) for value in column]


def _is_first(node: OnnxNode, count: GraphExpr) -> GraphExpr:
    return op.equal(count, Constant(np.array(0, str(node.dtype(count)))))


@onnx_operator("Adagrad", domain=TRAINING)
def adagrad(
    node: OnnxNode,
    rate: GraphExpr,
    count: GraphExpr,
    *inputs: GraphExpr,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> Sequence[GraphExpr]:
    """A step whose rate shrinks with the squares of gradients (Duchi et al., 2011)."""

    def step(x: GraphExpr, g: GraphExpr, h: GraphExpr) -> list[GraphExpr]:
        dtype = str(node.dtype(x))
        slowed = rate / (op.astype(count, dtype) * decay_factor + 1)
        gradient = node.emit(x * norm_coefficient + g)
        squares = node.emit(h + gradient * gradient)
        return [x - slowed * gradient / (op.sqrt(squares) + epsilon), squares]

    return _each(inputs, 3, step)


@onnx_operator("Adam", domain=TRAINING)
def adam(
    node: OnnxNode,
    rate: GraphExpr,
    count: GraphExpr,
    *inputs: GraphExpr,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> Sequence[GraphExpr]:
    """A step by running means of gradients and of their squares (Kingma and Ba, 2015)."""

    def step(x: GraphExpr, g: GraphExpr, v: GraphExpr, h: GraphExpr) -> list[GraphExpr]:
        dtype = str(node.dtype(x))
        gradient = node.emit(x * norm_coefficient + g)
        mean = node.emit(v * alpha + gradient * (1 - alpha))
        square = node.emit(h * beta + gradient * gradient * (1 - beta))
        rounds = op.astype(count, dtype)
        unbiased = (
            rate * op.sqrt(1 - _power(beta, rounds, dtype)) / (1 - _power(alpha, rounds, dtype))
        )
        adjusted = op.where(_is_first(node, count), rate, unbiased)
        new = x - adjusted * mean / (op.sqrt(square) + epsilon)
        return [new * (1 - norm_coefficient_post), mean, square]

    return _each(inputs, 4, step)


def _power(base: float, exponent: GraphExpr, dtype: str) -> GraphExpr:
    return op.power(Constant(np.array(base, dtype)), exponent)


@onnx_operator("Momentum", domain=TRAINING)
def momentum(
    node: OnnxNode,
    rate: GraphExpr,
    count: GraphExpr,
    *inputs: GraphExpr,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> Sequence[GraphExpr]:
    """A step along a running sum of gradients, or ahead of it (Nesterov's)."""
    if mode not in ("standard", "nesterov"):
        raise IRValueError(f"mode must be standard or nesterov, got {mode!r}")

    def step(x: GraphExpr, g: GraphExpr, v: GraphExpr) -> list[GraphExpr]:
        dtype = str(node.dtype(x))
        one, other = (Constant(np.array(n, dtype)) for n in (1.0, beta))
        gradient = node.emit(x * norm_coefficient + g)
        total = node.emit(v * alpha + op.where(_is_first(node, count), one, other) * gradient)
        direction = total if mode == "standard" else gradient + total * alpha
        return [x - rate * direction, total]

    return _each(inputs, 3, step)
