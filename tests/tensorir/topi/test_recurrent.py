"""Recurrent layers against loops of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRTypeError, IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

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


def tensor(*shape: int, dtype: str = "float32") -> relax.Var:
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
def test_what_does_not_go_together(attributes: dict[str, Any], message: str) -> None:
    operands = tensor(5, 2, 3), tensor(1, 16, 3), tensor(1, 16, 4)
    with pytest.raises((IRTypeError, IRValueError), match=message):
        op.nn.lstm(*operands, **attributes)
