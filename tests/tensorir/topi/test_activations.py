"""Activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.standard_normal(60) * 4, [0.0, -0.0, 1e-6, -1e-6, 30, -30, 90, -90]])


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softplus(x: Any) -> Any:
    return np.logaddexp(0, x)


def elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def gelu(x: Any) -> Any:
    return x * 0.5 * np.array([math.erfc(-v / math.sqrt(2)) for v in x])


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))


def selu(x: Any) -> Any:
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


REFERENCES: list[tuple[str, dict[str, float], Callable[[Any], Any]]] = [
    ("relu", {}, lambda x: np.maximum(x, 0)),
    ("relu6", {}, lambda x: np.clip(x, 0, 6)),
    ("leakyrelu", {"alpha": 0.2}, lambda x: np.where(x > 0, x, 0.2 * x)),
    ("elu", {"alpha": 0.7}, lambda x: elu(x, 0.7)),
    ("selu", {}, selu),
    ("celu", {"alpha": 2.0}, lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2))),
    ("gelu", {}, gelu),
    ("gelu_tanh", {}, gelu_tanh),
    ("silu", {}, lambda x: x * sigmoid(x)),
    ("swish", {"alpha": 1.5}, lambda x: x * sigmoid(1.5 * x)),
    ("mish", {}, lambda x: x * np.tanh(softplus(x))),
    ("softplus", {}, softplus),
    ("softplus", {"beta": 0.5}, lambda x: 2 * softplus(0.5 * x)),
    ("log_sigmoid", {}, lambda x: -softplus(-x)),
    ("softsign", {}, lambda x: x / (1 + abs(x))),
    ("hardsigmoid", {}, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    ("hardswish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("hardtanh", {"max_val": 2.0}, lambda x: np.clip(x, -1, 2)),
    ("thresholded_relu", {"alpha": 1.5}, lambda x: np.where(x > 1.5, x, 0)),
    ("threshold", {"bound": 0.5, "value": -2.0}, lambda x: np.where(x > 0.5, x, -2)),
    ("shrink", {"lambd": 1.0, "bias": 0.5},
     lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0))),
    ("hardshrink", {"lambd": 1.0}, lambda x: np.where(abs(x) > 1, x, 0)),
    ("tanhshrink", {}, lambda x: x - np.tanh(x)),
    ("dropout", {}, lambda x: x),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_activations(dtype: str) -> None:
    """float16 is as precise as its last digit: what is in between is float32."""
    tolerance = {"float32": 2e-6, "float16": 1e-3, "float64": 1e-6}[dtype]
    check(
        [
            Case(
                f"{name} {options}",
                lambda x, name=name, options=options: getattr(op.nn, name)(x, **options),
                lambda x, reference=reference: reference(x.astype("float64")).astype(x.dtype),
                X.astype(dtype),
                rtol=tolerance,
                atol=tolerance,
            )
            for name, options, reference in REFERENCES
        ]
    )


def test_nan_stays_where_elements_are_limited() -> None:
    """A model with broken weights has results that show it."""
    x = np.array([np.nan, -1.0, 7.5], "float32")
    limited = {"relu", "relu6", "hardsigmoid", "hardswish", "hardtanh"}
    check(
        [
            Case(
                f"{name} of NaN",
                lambda x, name=name, options=options: getattr(op.nn, name)(x, **options),
                lambda x, reference=reference: reference(x),
                x,
                rtol=1e-6,
            )
            for name, options, reference in REFERENCES
            if name in limited
        ]
    )


def test_activations_with_weights() -> None:
    y = RNG.standard_normal((2, 6, 3, 4)).astype("float32")
    slopes, bias = RNG.standard_normal((2, 6)).astype("float32")
    check(
        [
            Case("prelu", op.nn.prelu, lambda x, a: np.where(x > 0, x, x * a[:, None, None]), y, slopes),
            Case("prelu, stretched", lambda x, a: op.nn.prelu(x, a, axis=None),
                 lambda x, a: np.where(x > 0, x, x * a), y, slopes[:, None, None]),
            Case("prelu, last", lambda x, a: op.nn.prelu(x, a, axis=-1), lambda x, a: np.where(x > 0, x, x * a), y,
                 slopes[:4]),
            Case("glu", lambda x: op.nn.glu(x, 1), lambda x: x[:, :3] * sigmoid(x[:, 3:]), y),
            Case("bias_add", op.nn.bias_add, lambda x, b: x + b[:, None, None], y, bias),
            Case("any sizes", op.nn.gelu_tanh, gelu_tanh, y, shapes=[("n", 6, "h", 4)]),
            Case("integers", op.nn.relu, lambda x: np.maximum(x, 0), np.arange(-3, 3)),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: op.nn.gelu(op.astype(x, "int32")),
            "nn.gelu: x must be of floating-point numbers, got int32",
        ),
        (lambda x: op.nn.glu(x), "axis -1 must have an even length, got 5"),
        (
            lambda x: op.nn.prelu(x, np.zeros(3, "float32")),
            "the length of alpha is 3, but axis 1 of x is 5",
        ),
        (
            lambda x: op.nn.bias_add(x, np.zeros(3, "float32")),
            "the length of bias is 3, but axis 1",
        ),
    ],
)
def test_what_does_not_go_together(call: Callable[..., Any], message: str) -> None:
    with pytest.raises((IRValueError, IRTypeError), match=message):
        call(relax.Var("x", relax.TensorStructInfo((2, 5), "float32")))
