"""Times the model of two linear layers in eager torch, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from serve import digest, inputs, seconds_of, serve

torch.set_num_threads(1)

_call: Callable[[], torch.Tensor]


def prepare(shapes: list[list[int]], **_: Any) -> dict[str, Any]:
    """Make a `torch.nn.Sequential` of the weights."""
    global _call
    x, *parameters = (torch.from_numpy(array) for array in inputs(shapes))
    w0, b0, w1, b1 = (torch.nn.Parameter(p, requires_grad=False) for p in parameters)
    first = torch.nn.Linear(w0.shape[1], w0.shape[0])
    second = torch.nn.Linear(w1.shape[1], w1.shape[0])
    first.weight, first.bias, second.weight, second.bias = w0, b0, w1, b1
    model = torch.nn.Sequential(first, torch.nn.ReLU(), second).eval()
    _call = lambda: model(x)  # noqa: E731
    with torch.inference_mode():
        return {"digest": digest(np.asarray(_call())), "forms": [""]}


def run(*, least: float, **_: Any) -> dict[str, Any]:
    """Time a call; there is but one form, an empty name."""
    with torch.inference_mode():
        return {"seconds": seconds_of(_call, least)}


serve(f"torch {torch.__version__}", {"prepare": prepare, "run": run})
