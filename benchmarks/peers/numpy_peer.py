"""Times NumPy, whose matrix products are OpenBLAS's, for the workloads that it has operators of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from serve import digest, inputs, seconds_of, serve_timers


def _matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    if a.ndim == 3 and len(a) == 1:  # NumPy has other code for stacks
        a, b, out = a[0], b[0], out[0]
    return lambda: np.matmul(a, b, out=out)


def _softmax(a: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    def call() -> None:
        np.exp(a - a.max(1, keepdims=True), out=out)
        out.__itruediv__(out.sum(1, keepdims=True))

    return call


def _norm(a: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    flat = a.reshape(len(a), -1)
    return lambda: np.sqrt(np.einsum("bi,bi->b", flat, flat), out=out)


def _layer_norm(
    a: np.ndarray, gamma: np.ndarray, beta: np.ndarray, out: np.ndarray
) -> Callable[[], Any]:
    def call() -> None:
        np.subtract(a, a.mean(1, keepdims=True), out=out)
        variance = np.einsum("ij,ij->i", out, out)[:, None] / np.float32(a.shape[1])
        np.multiply(out, 1 / np.sqrt(variance + np.float32(1e-5)), out=out)
        np.add(np.multiply(out, gamma, out=out), beta, out=out)

    return call


_OPERATORS: dict[str, Callable[..., Callable[[], Any]]] = {
    "MM": _matmul,
    "GMM": _matmul,
    "SFM": _softmax,
    "NRM": _norm,
    "LNM": _layer_norm,
    "SUM": lambda a, out: lambda: a.sum(1, out=out),
    "MAX": lambda a, out: lambda: a.max(1, out=out),
}


def prepare(operator: str, shapes: list[list[int]], **_: Any) -> Any:
    """Return NumPy's operator, which needs no tuning."""
    if operator not in _OPERATORS:
        raise LookupError(f"no NumPy operator is known for {operator}")
    arrays = inputs(shapes)
    call = _OPERATORS[operator](*arrays)
    call()
    return {"digest": digest(arrays[-1])}, {"main": partial(seconds_of, call)}


serve_timers(f"numpy {np.__version__}", prepare)
