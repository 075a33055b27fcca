"""Discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tensorir import IRValueError, relax
from tensorir.relax import op
from tests.operator_cases import Case, check

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1).astype("float32")


def complex_of(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)


def test_transforms() -> None:
    x, real = floats(2, 9, 5, 2), floats(2, 10, 5, 1)
    half = parts(np.fft.rfft(real[..., 0], axis=1))
    check(
        [
            Case("last", op.signal.dft, lambda x: parts(np.fft.fft(complex_of(x), axis=2)), x, atol=1e-5),
            Case("an axis", lambda x: op.signal.dft(x, axis=1), lambda x: parts(np.fft.fft(complex_of(x), axis=1)), x,
                 atol=1e-5),
            Case("any sizes", lambda x: op.signal.dft(x, axis=1), lambda x: parts(np.fft.fft(complex_of(x), axis=1)),
                 x, shapes=[("b", "n", 5, 2)], atol=1e-5),
            Case("inverse", lambda x: op.signal.dft(x, axis=1, inverse=True),
                 lambda x: parts(np.fft.ifft(complex_of(x), axis=1)), x, atol=1e-5),
            Case("real", lambda x: op.signal.dft(x, axis=1), lambda x: parts(np.fft.fft(complex_of(x), axis=1)), real,
                 atol=1e-5),
            Case("half", lambda x: op.signal.dft(x, axis=1, onesided=True),
                 lambda x: parts(np.fft.rfft(x[..., 0], axis=1)), real, atol=1e-5),
            Case("inverse of a half", lambda x: op.signal.dft(x, axis=1, inverse=True, onesided=True),
                 lambda x: real, half, atol=1e-5),
            Case("shorter", lambda x: op.signal.dft(x, (6,), 1),
                 lambda x: parts(np.fft.fft(complex_of(x), 6, axis=1)), x, atol=1e-5),
            Case("longer", lambda x: op.signal.dft(x, (12,), 1),
                 lambda x: parts(np.fft.fft(complex_of(x), 12, axis=1)), x, atol=1e-5),
        ]
    )  # fmt: skip


def test_transforms_of_frames() -> None:
    x, window = floats(2, 30, 1), abs(floats(8))

    def expected(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        begins = range(0, 30 - 8 + 1, 3)
        found = [np.fft.rfft(x[:, b : b + 8, 0] * w, axis=1) for b in begins]
        return parts(np.stack(found, 1))

    check(
        [
            Case("frames", lambda x, w: op.signal.stft(x, (8, 3), w), expected, x, window, atol=1e-5),
            Case("any batch", lambda x, w: op.signal.stft(x, (8, 3), w), expected, x, window,
                 shapes=[("b", 30, 1), (8,)], atol=1e-5),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.signal.dft(x, axis=3), "axis 3 is none of a signal of rank 3"),
        (
            lambda x: op.signal.dft(op.reshape(x, (2, 3, 8))),
            "the last dimension of x must be 1 or 2 parts",
        ),
        (lambda x: op.signal.frames(x, (2,)), "extents must be 2 numbers, got 1"),
    ],
)
def test_what_does_not_go_together(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(IRValueError, match=message):
        call(relax.Var("x", relax.TensorStructInfo((2, 12, 2), "float32")))
