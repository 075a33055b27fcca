"""Softmax and its relatives, and norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def tensor(*shape: Any, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    wide = x.astype("float64")
    shares = np.exp(wide - wide.max(axis, keepdims=True))
    return (shares / shares.sum(axis, keepdims=True)).astype(x.dtype)


def hardmax(x: np.ndarray, axis: int) -> np.ndarray:
    result = np.zeros_like(x)
    np.put_along_axis(result, np.expand_dims(x.argmax(axis), axis), 1, axis)
    return result


def test_softmax() -> None:
    x, ties = floats(4, 5, 6), np.zeros((2, 3), "float32")
    cases = []
    for axis in (0, 1, -1):
        cases += [
            Case(f"softmax {axis}", lambda x, a=axis: op.nn.softmax(x, axis=a), lambda x, a=axis: softmax(x, a), x),
            Case(f"log_softmax {axis}", lambda x, a=axis: op.nn.log_softmax(x, axis=a),
                 lambda x, a=axis: np.log(softmax(x.astype("float64"), a)).astype("float32"), x),
            Case(f"hardmax {axis}", lambda x, a=axis: op.nn.hardmax(x, a), lambda x, a=axis: hardmax(x, a), x),
        ]  # fmt: skip
    check(
        [
            *cases,
            Case("any sizes", op.nn.softmax, softmax, x, shapes=[("n", 5, "m")]),
            Case("large", op.nn.softmax, softmax, x * 1000),
            Case("log of large", op.nn.log_softmax,
                 lambda x: np.array([[0, -1000], [-2000, 0]], "float32"), np.array([[1000, 0], [-1000, 1000]], "float32")),
            Case("masked", op.nn.softmax, softmax, np.array([[0, -np.inf, 1]], "float32")),
            Case("float16", op.nn.softmax, softmax, (floats(3, 3000) / 8).astype("float16"), rtol=2e-3),
            Case("the first of several", op.nn.hardmax, lambda x: hardmax(x, -1), ties),
        ]
    )  # fmt: skip


def normalized(
    x: np.ndarray,
    axes: tuple[int, ...],
    gamma: np.ndarray | float = 1.0,
    beta: np.ndarray | float = 0.0,
    epsilon: float = 1e-5,
) -> np.ndarray:
    wide = x.astype("float64")
    mean, var = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    return ((wide - mean) / np.sqrt(var + epsilon) * gamma + beta).astype(x.dtype)


def in_groups(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> np.ndarray:
    parts = normalized(x.reshape(2, 3, 2, *x.shape[2:]), (2, 3, 4)).reshape(x.shape)
    return parts * g[:, None, None] + b[:, None, None]


def rms(x: np.ndarray, w: np.ndarray | float = 1.0) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-5)) * w


def local_response(x: np.ndarray) -> np.ndarray:
    squares = np.pad(x * x, [(0, 0), (1, 2), (0, 0), (0, 0)])
    total = sum(squares[:, k : k + x.shape[1]] for k in range(4))
    return (x / (2 + 0.1 / 4 * total) ** 0.75).astype("float32")


def test_norms() -> None:
    x, y = floats(2, 5, 6), floats(2, 6, 4, 5)
    g, b, g2, b2 = floats(6), floats(6), floats(5, 6), floats(5, 6)
    by_channel = (slice(None), None, None)
    half = (floats(4, 4000) * 30).astype("float16")
    check(
        [
            Case("layer", op.nn.layer_norm, lambda x, g, b: normalized(x, (-1,), g, b), x, g, b, atol=1e-5),
            Case("layer, any sizes", op.nn.layer_norm, lambda x, g, b: normalized(x, (-1,), g, b), x, g, b,
                 shapes=[("n", "m", 6), (6,), (6,)], atol=1e-5),
            Case("layer, far from 0", op.nn.layer_norm, lambda x: normalized(x, (-1,)), x + 1000, atol=5e-4),
            Case("layer, two axes", lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-2, -1], epsilon=1e-3),
                 lambda x, g, b: normalized(x, (1, 2), g, b, 1e-3), x, g2, b2, atol=1e-5),
            Case("layer, no weights", op.nn.layer_norm, lambda x: normalized(x, (-1,)), x, atol=1e-5),
            Case("layer, float16", op.nn.layer_norm, lambda x: normalized(x, (-1,)), half, rtol=2e-3, atol=1e-3),
            Case("group", lambda x, g, b: op.nn.group_norm(x, g, b, num_groups=3), in_groups, y, g, b, atol=1e-5),
            Case("group, any sizes", lambda x, g, b: op.nn.group_norm(x, g, b, num_groups=3), in_groups, y, g, b,
                 shapes=[("n", 6, "h", "w"), (6,), (6,)], atol=1e-5),
            Case("instance", op.nn.instance_norm,
                 lambda x, g, b: normalized(x, (2, 3), g[by_channel], b[by_channel]), y, g, b, atol=1e-5),
            Case("rms", op.nn.rms_norm, rms, x, g, atol=1e-5),
            Case("rms, no weight", op.nn.rms_norm, rms, x, atol=1e-5),
            Case("lrn", lambda x: op.nn.lrn(x, 4, alpha=0.1, bias=2.0), local_response, y, atol=1e-5),
        ]
    )  # fmt: skip


def batch(x: np.ndarray, g: Any, b: Any, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    at = (slice(None), None, None)
    return ((x - mean[at]) / np.sqrt(var[at] + 1e-5) * g[at] + b[at]).astype("float32")


def trained(x: np.ndarray, g: Any, b: Any, mean: np.ndarray, var: np.ndarray) -> Any:
    own = x.mean((0, 2, 3)), x.var((0, 2, 3))
    moved = [old * 0.9 + new * 0.1 for old, new in zip((mean, var), own, strict=True)]
    return [batch(x, g, b, *own), *(m.astype("float32") for m in moved)]


def test_batch_norm() -> None:
    x, g, b, mean, var = floats(2, 6, 4, 5), floats(6), floats(6), floats(6), abs(floats(6))
    check(
        [
            Case("batch", lambda *a: op.nn.batch_norm(*a)[0], batch, x, g, b, mean, var, atol=1e-5),
            Case("any sizes", lambda *a: op.nn.batch_norm(*a)[0], batch, x, g, b, mean, var,
                 shapes=[("n", 6, "h", "w"), (6,), (6,), (6,), (6,)], atol=1e-5),
            Case("statistics", lambda *a: op.nn.batch_norm(*a), lambda *a: [batch(*a), mean, var], x, g, b, mean, var,
                 atol=1e-5),
            Case("no weights", lambda x, m, v: op.nn.batch_norm(x, None, None, m, v, axis=-3)[0],
                 lambda x, m, v: batch(x, np.ones(6), np.zeros(6), m, v), x, mean, var, atol=1e-5),
            Case("training", lambda *a: op.nn.batch_norm(*a, training=True), trained, x, g, b, mean, var, atol=1e-5),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x, w: op.nn.softmax(x, axis=3), "axis 3 is out of bounds for rank 3"),
        (lambda x, w: op.nn.softmax(op.astype(x, "int8")), "x must be of floating-point numbers"),
        (
            lambda x, w: op.nn.layer_norm(x, w),
            "dimension 0 of gamma is 4, but that of the data is 6",
        ),
        (lambda x, w: op.nn.layer_norm(x, w, axes=[1, 2]), "gamma must have 2 dimensions, got 1"),
        (
            lambda x, w: op.nn.group_norm(x, num_groups=2),
            "5 channels cannot be divided into 2 groups",
        ),
        (lambda x, w: op.nn.batch_norm(x, w, w, w, w, axis=5), "axis 5 is"),
        (lambda x, w: op.nn.lrn(x, 0), "size must be at least 1"),
    ],
)
def test_what_does_not_go_together(call: Callable[..., Any], message: str) -> None:
    with pytest.raises((IRValueError, IRTypeError), match=message):
        call(tensor(2, 5, 6), tensor(4))
