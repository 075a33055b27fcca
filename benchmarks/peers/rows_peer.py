"""Times reductions of rows in NumPy, and in torch where it is installed, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from serve import digest, inputs, seconds_of, serve

EPSILON = 1e-5
"""What layer norm adds to the variance."""

_calls: dict[str, Callable[[], Any]] = {}


def _in_numpy(operator: str, a: np.ndarray, *weights: np.ndarray) -> Callable[[], np.ndarray]:
    """Return a call that uses the memory of large results again."""
    out, rows = np.empty_like(a), np.empty((len(a), 1), a.dtype)

    def softmax() -> np.ndarray:
        np.subtract(a, a.max(1, keepdims=True, out=rows), out=out)
        np.exp(out, out=out)
        return np.divide(out, out.sum(1, keepdims=True, out=rows), out=out)

    def layer_norm() -> np.ndarray:
        gamma, beta = weights
        np.subtract(a, a.mean(1, keepdims=True), out=out)
        variance = np.einsum("ij,ij->i", out, out)[:, None] / np.float32(a.shape[1])
        np.multiply(out, 1 / np.sqrt(variance + np.float32(EPSILON)), out=out)
        np.multiply(out, gamma, out=out)
        return np.add(out, beta, out=out)

    return {
        "softmax": softmax,
        "layer_norm": layer_norm,
        "norm": lambda: np.sqrt(np.einsum("ij,ij->i", a, a)),
        "sum": lambda: a.sum(1),
        "max": lambda: a.max(1),
        "argmax": lambda: a.argmax(1),
    }[operator]


def _in_torch(operator: str, arrays: list[np.ndarray]) -> Callable[[], Any]:
    import torch  # noqa: PLC0415 - optional
    from torch.nn import functional  # noqa: PLC0415

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    a, *weights = map(torch.from_numpy, arrays)
    return {
        "softmax": lambda: torch.softmax(a, dim=1),
        "layer_norm": lambda: functional.layer_norm(a, a.shape[1:], *weights, eps=EPSILON),
        "norm": lambda: torch.linalg.vector_norm(a, dim=1),
        "sum": lambda: a.sum(1),
        "max": lambda: a.amax(1),
        "argmax": lambda: a.argmax(1),
    }[operator]


def prepare(operator: str, shapes: list[list[int]]) -> dict[str, Any]:
    """Return what libraries there are, and what the result adds up to."""
    arrays = inputs(shapes)
    _calls.clear()
    _calls["numpy"] = _in_numpy(operator, *arrays)
    if find_spec("torch") is not None:
        _calls["torch"] = _in_torch(operator, arrays)
    return {"digests": {name: digest(np.asarray(call())) for name, call in _calls.items()}}


def run(library: str, least: float) -> dict[str, Any]:
    """Return the seconds of a call, the mean of as many as take `least` seconds."""
    return {"seconds": seconds_of(_calls[library], least)}


serve("rows", {"prepare": prepare, "run": run})
