"""Attention, rotary embedding and losses."""

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


def attended(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    bias: np.ndarray | float = 0.0,
    scale: float | None = None,
    mask: np.ndarray | None = None,
    softcap: float = 0.0,
) -> np.ndarray:
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat(group, 2), v.repeat(group, 2)
    scores = np.einsum("bihd,bjhd->bhij", q, k, dtype="float64")
    scores *= 1 / np.sqrt(q.shape[3]) if scale is None else scale
    if softcap:
        scores = np.tanh(scores / softcap) * softcap
    scores = scores + bias
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return np.einsum("bhij,bjhe->bihe", shares, v).astype(q.dtype)


def test_attention() -> None:
    q, k, v = floats(2, 5, 4, 8), floats(2, 7, 4, 8), floats(2, 7, 4, 6)
    bias, mask = floats(2, 1, 5, 7), RNG.random((5, 7)) > 0.3
    mask[:, 0] = True
    first, last = np.tril(np.ones((5, 7), bool)), np.tril(np.ones((5, 7), bool), 2)
    near = last & ~np.tril(np.ones((5, 7), bool), -1)
    half = [x.astype("float16") for x in (q, k, v)]
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    check(
        [
            Case("plain", op.nn.attention, attended, q, k, v, **tolerance),
            Case("any sizes", op.nn.attention, attended, q, k, v,
                 shapes=[("b", "i", 4, 8), ("b", "j", 4, 8), ("b", "j", 4, 6)], **tolerance),
            Case("bias and scale", lambda *a: op.nn.attention(*a, scale=0.3),
                 lambda *a: attended(*a, scale=0.3), q, k, v, bias, **tolerance),
            Case("bools", op.nn.attention, lambda *a: attended(*a[:3], mask=a[3]), q, k, v, mask, **tolerance),
            Case("causal", lambda *a: op.nn.attention(*a, causal_mask="TopLeft"),
                 lambda *a: attended(*a, mask=first), q, k, v, **tolerance),
            Case("causal from the end", lambda *a: op.nn.attention(*a, causal_mask="BottomRight"),
                 lambda *a: attended(*a, mask=last), q, k, v,
                 shapes=[(2, "i", 4, 8), (2, "j", 4, 8), (2, "j", 4, 6)], **tolerance),
            Case("window", lambda *a: op.nn.attention(*a, causal_mask="BottomRight", window_size=3),
                 lambda *a: attended(*a, mask=near), q, k, v, **tolerance),
            Case("heads in groups", op.nn.attention, attended, q, k[:, :, :2], v[:, :, :2], **tolerance),
            Case("softcap", lambda *a: op.nn.attention(*a, softcap=1.5),
                 lambda *a: attended(*a, softcap=1.5), q, k, v, **tolerance),
            Case("float16", op.nn.attention, attended, *half, rtol=4e-3, atol=2e-3),
        ]
    )  # fmt: skip


def rotated(x: np.ndarray, c: np.ndarray, s: np.ndarray, interleaved: bool = False) -> np.ndarray:
    c, s = c[:, :, None], s[:, :, None]
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
    parts = [a * c - b * s, b * c + a * s]
    return np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)


def test_rotary_embedding() -> None:
    x, c, s = floats(2, 3, 4, 8), floats(2, 3, 4), floats(2, 3, 4)
    rows = RNG.integers(0, 9, (2, 3))

    def in_part(x: np.ndarray, c: np.ndarray, s: np.ndarray) -> np.ndarray:
        return np.concatenate([rotated(x[..., :4], c, s), x[..., 4:]], -1)

    check(
        [
            Case("halves", op.nn.rotary_embedding, rotated, x, c, s),
            Case("neighbours", lambda *a: op.nn.rotary_embedding(*a, interleaved=True),
                 lambda *a: rotated(*a, True), x, c, s),
            Case("a part", lambda *a: op.nn.rotary_embedding(*a, rotary_dim=4), in_part, x, c[..., :2], s[..., :2]),
            Case("rows of a table", op.nn.rotary_embedding, lambda x, c, s, p: rotated(x, c[p], s[p]), x,
                 floats(9, 4), floats(9, 4), rows),
            Case("heads in front", lambda *a: op.nn.rotary_embedding(*a, sequence_axis=2),
                 lambda x, c, s: rotated(x.swapaxes(1, 2), c, s).swapaxes(1, 2), x.swapaxes(1, 2), c, s),
        ]
    )  # fmt: skip


def nll(
    p: np.ndarray, t: np.ndarray, w: np.ndarray, reduction: str, ignored: int = -100
) -> np.ndarray:
    counted = t != ignored
    safe = np.where(counted, t, 0)
    weights = np.where(counted, w[safe], 0)
    losses = -np.take_along_axis(p, safe[:, None], 1)[:, 0] * weights
    if reduction == "none":
        return losses.astype("float32")
    total = losses.sum() / (weights.sum() if reduction == "mean" else 1)
    return total.astype("float32")


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def test_losses() -> None:
    scores, w = floats(4, 5, 3), abs(floats(5))
    p, t = log_softmax(scores), RNG.integers(0, 5, (4, 3))
    t[0, 0], t[1, 1] = 2, 2
    cases = []
    for reduction in ("none", "mean", "sum"):
        cases += [
            Case(f"nll {reduction}", lambda p, t, r=reduction: op.nn.nll_loss(p, t, reduction=r),
                 lambda p, t, r=reduction: nll(p, t, np.ones(5), r), p, t, rtol=1e-5),
            Case(f"nll, weights {reduction}",
                 lambda p, t, w, r=reduction: op.nn.nll_loss(p, t, w, r, ignore_index=2),
                 lambda p, t, w, r=reduction: nll(p, t, w, r, 2), p, t, w, rtol=1e-5),
            Case(f"cross entropy {reduction}",
                 lambda s, t, w, r=reduction: op.nn.cross_entropy(s, t, w, r, 2),
                 lambda s, t, w, r=reduction: nll(log_softmax(s), t, w, r, 2), scores, t, w, rtol=1e-5),
        ]  # fmt: skip
    labels = abs(floats(4, 5))
    check(
        [
            *cases,
            Case("with logits", op.nn.cross_entropy_with_logits, lambda p, t: -(p * t).sum() / 4, floats(4, 5), labels),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda q, k: op.nn.attention(q, k, k), "3 heads of query cannot share the 2 heads"),
        (
            lambda q, k: op.nn.attention(q, q, op.nn.relu(k)),
            "the length of value is 7, but that of key is 5",
        ),
        (lambda q, k: op.nn.attention(q, q, q, window_size=2), "window_size needs a causal_mask"),
        (lambda q, k: op.nn.attention(tensor(2, 3), q, q), "query must have 4 dimensions, got 2"),
        (
            lambda q, k: op.nn.rotary_embedding(q, tensor(2, 5, 3), tensor(2, 5, 4)),
            "the last extent of cos is 3",
        ),
        (lambda q, k: op.nn.nll_loss(q, tensor(2, 3, 8)), "targets must be integers, got float32"),
    ],
)
def test_what_does_not_go_together(call: Callable[..., Any], message: str) -> None:
    with pytest.raises((IRValueError, IRTypeError), match=message):
        call(tensor(2, 5, 3, 8), tensor(2, 7, 2, 8))
