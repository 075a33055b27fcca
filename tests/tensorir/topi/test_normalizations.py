"""Normalizations, attention, recurrent layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import codegen
from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check, kernels_of

# ------------------------------------------------------------- Softmax and its relatives, and norms

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


# ----------------------------------------------------------- Attention, rotary embedding and losses


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
    best = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(best == -np.inf, 0, best))
    total = shares.sum(-1, keepdims=True)
    shares /= np.where(total == 0, 1, total)
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


def seen(queries: int, keys: int, lengths: np.ndarray, window: int) -> np.ndarray:
    """Return the mask `[b, 1, i, j]` of the causal order counted from the end."""
    last = np.arange(queries)[:, None] + lengths[:, None, None, None] - queries
    j = np.arange(keys)
    return (j <= last) & (j > last - window)


def test_attention_in_several_tiles() -> None:
    # The last tile of queries is not full, and the last tile of keys overlaps its neighbour.
    q, k, v = floats(2, 70, 2, 16), floats(2, 150, 1, 16), floats(2, 150, 1, 24)
    lengths = np.array([150, 41])
    rows = np.ones((70, 150), bool)
    rows[[0, 65]] = False
    tolerance = {"rtol": 1e-5, "atol": 1e-5}

    def last(*a: Any) -> Any:
        return op.nn.attention(*a[:3], causal_mask="BottomRight", window_size=100, lengths=a[3])

    def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, n: np.ndarray) -> np.ndarray:
        return attended(q, k, v, mask=seen(70, 150, n, 100))

    check(
        [
            Case("lengths", last, expected, q, k, v, lengths, **tolerance),
            Case("lengths, any sizes", last, expected, q, k, v, lengths,
                 shapes=[(2, "i", 2, 16), (2, "j", 1, 16), (2, "j", 1, 24), (2,)], **tolerance),
            Case("masked rows", op.nn.attention, lambda *a: attended(*a[:3], mask=a[3]), q, k, v, rows, **tolerance),
            Case("one query", op.nn.attention, attended, q[:, :1], k, v, **tolerance),
            Case("no query", op.nn.attention, lambda q, k, v: np.zeros((2, 0, 2, 24), "float32"), q[:, :0], k, v),
            Case("no key", op.nn.attention, lambda q, k, v: np.zeros((2, 1, 2, 24), "float32"), q[:, :1],
                 k[:, :0], v[:, :0], shapes=[(2, 1, 2, 16), (2, "j", 1, 16), (2, "j", 1, 24)]),
        ]
    )  # fmt: skip


def test_attention_of_any_length() -> None:
    # Rows are computed one by one up to 16 queries, and else in tiles.
    case = Case("any length", lambda *a: op.nn.attention(*a, causal_mask="TopLeft"), attended,
                *[floats(1, 1, 2, 16)] * 3, shapes=[(1, "n", 2, 16)] * 3)  # fmt: skip
    built = codegen.vm_build(kernels_of([case]), "llvm -opt-level=0", default_schedules=False)
    call = codegen.VirtualMachine(built, codegen.cpu())["case0"]
    for n in (1, 2, 3, 5, 16, 17, 31, 32, 33, 127, 129):
        q, k, v = (floats(1, n, 2, 16) for _ in range(3))
        expected = attended(q, k, v, mask=np.tril(np.ones((n, n), bool)))
        np.testing.assert_allclose(call(q, k, v), expected, rtol=1e-5, atol=1e-5)


def test_numbers_that_are_not_finite_stay_in_their_rows() -> None:
    q, k, v = floats(1, 3, 1, 8), floats(1, 40, 1, 8), floats(1, 40, 1, 8)
    q[0, 0, 0, 0], q[0, 1] = np.nan, 1e30
    k[0, 39] = np.inf
    with np.errstate(all="ignore"):
        expected = attended(q, k, v)
    check([Case("nan", op.nn.attention, lambda *_: expected, q, k, v, rtol=1e-5, atol=1e-5)])


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


# ---------------------------------------------------------- Recurrent layers against loops of NumPy

TIME, BATCH, IN, UNITS = 5, 2, 3, 4
rng = np.random.default_rng(0)


def random(*shape: int) -> Any:
    return rng.standard_normal(shape).astype("float32")


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


Cell = Callable[..., Any]
"""Takes direction, input and states of one sequence, gives the next states."""


def layer(cell: Cell, x: Any, states: list[Any], lens: Any, reverse: list[bool]) -> list[Any]:
    """Return all outputs and the last states, direction by direction, sequence by sequence."""
    y = np.zeros((len(x), len(reverse), x.shape[1], UNITS), "float32")
    last = [state.copy() for state in states]
    for d, backwards in enumerate(reverse):
        for b in range(x.shape[1]):
            steps = range(lens[b])
            now = [state[d, b] for state in states]
            for t in reversed(steps) if backwards else steps:
                now = list(cell(d, x[t, b], *now))
                y[t, d, b] = now[0]
            for state, value in zip(last, now, strict=True):
                state[d, b] = value
    return [y, *last]


X, X1 = random(TIME, BATCH, IN), random(TIME, BATCH, IN)
LENS = np.array([5, 3], "int32")
FULL = np.array([TIME] * BATCH)


def lstm_expected(x: Any, w: Any, r: Any, b: Any, lens: Any, h: Any, c: Any, p: Any) -> list[Any]:
    def cell(d: int, x: Any, h: Any, c: Any) -> Any:
        bias = b[d, : 4 * UNITS] + b[d, 4 * UNITS :]
        i, o, f, g = np.split(w[d] @ x + r[d] @ h + bias, 4)
        pi, po, pf = np.split(p[d], 3)
        new = sigmoid(f + pf * c) * c + sigmoid(i + pi * c) * np.tanh(g)
        return sigmoid(o + po * new) * np.tanh(new), new

    return layer(cell, x, [h, c], lens, [False, True][: len(w)])


def gru_expected(before: bool, x: Any, w: Any, r: Any, b: Any) -> list[Any]:
    def cell(d: int, x: Any, h: Any) -> Any:
        wz, wr, wh = np.split(w[d] @ x + b[d, : 3 * UNITS], 3)
        bz, br, bh = np.split(b[d, 3 * UNITS :], 3)
        rz, rr, rh = np.split(r[d], 3)
        z, reset = sigmoid(wz + rz @ h + bz), sigmoid(wr + rr @ h + br)
        inner = reset * (rh @ h + bh) if before else rh @ (reset * h) + bh
        return ((1 - z) * np.tanh(wh + inner) + z * h,)

    zero = np.zeros((1, x.shape[1], UNITS), "float32")
    return layer(cell, x, [zero], FULL, [False])


def rnn_expected(x: Any, w: Any, r: Any) -> list[Any]:
    zero = np.zeros((1, x.shape[1], UNITS), "float32")

    def cell(d: int, x: Any, h: Any) -> Any:
        return (np.clip(0.5 * np.clip(w[d] @ x + r[d] @ h, -1, 1) + 0.25, 0, None),)

    return layer(cell, x, [zero], FULL, [True])


def test_layers() -> None:
    lstm = [
        X, random(2, 4 * UNITS, IN), random(2, 4 * UNITS, UNITS), random(2, 8 * UNITS), LENS,
        random(2, BATCH, UNITS), random(2, BATCH, UNITS), random(2, 3 * UNITS),
    ]  # fmt: skip
    shapes: list[Any] = [a.shape for a in lstm]
    shapes[0] = ("time", BATCH, IN)
    gru = [X1, random(1, 3 * UNITS, IN), random(1, 3 * UNITS, UNITS), random(1, 6 * UNITS)]
    rnn = [X, random(1, UNITS, IN), random(1, UNITS, UNITS)]
    loose = {"rtol": 1e-5, "atol": 1e-5}
    check(
        [
            Case(
                "lstm of two directions, lengths, peepholes, any time",
                lambda x, w, r, b, lens, h, c, p: op.nn.lstm(
                    x, w, r, b, lens, h, c, p, direction="bidirectional"
                ),
                lstm_expected,
                *lstm,
                shapes=shapes,
                **loose,
            ),
            *(
                Case(
                    f"gru, linear_before_reset={before}",
                    lambda x, w, r, b, before=before: op.nn.gru(
                        x, w, r, b, linear_before_reset=before
                    ),
                    lambda *args, before=before: gru_expected(before, *args),
                    *gru,
                    **loose,
                )
                for before in (False, True)
            ),
            Case(
                "rnn that begins at the end, with an activation of its own",
                lambda x, w, r: op.nn.rnn(
                    x, w, r, direction="reverse", clip=1.0, activations=["HardSigmoid"],
                    activation_alpha=[0.5], activation_beta=[0.25],
                ),
                rnn_expected,
                *rnn,
                **loose,
            ),
        ]
    )  # fmt: skip


def recurrent_tensor(*shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorStructInfo(shape, dtype))


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"direction": "bidirectional"}, "nn.lstm: w is of 1 direction"),
        ({"activations": ["Tanh"]}, "expected 3 activations for each direction, got 1"),
        (
            {"activations": ["Tanh", "Tanh", "Tan"]},
            "unknown activation Tan; expected one of sigmoid",
        ),
        ({"direction": "sideways"}, "direction of nn.lstm must be"),
    ],
)
def test_what_does_not_go_together_of_recurrent(attributes: dict[str, Any], message: str) -> None:
    operands = recurrent_tensor(5, 2, 3), recurrent_tensor(1, 16, 3), recurrent_tensor(1, 16, 4)
    with pytest.raises((IRTypeError, IRValueError), match=message):
        op.nn.lstm(*operands, **attributes)
