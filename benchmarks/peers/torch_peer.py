"""Times torch's own operators on one thread, for the workloads that are a single one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from serve import digest, inputs, seconds_of, serve
from torch.nn import functional

torch.set_num_threads(1)

_SECONDS = 0.01
"""How long a measurement lasts at least."""

_call: Callable[[], torch.Tensor]


def _matmul(a: torch.Tensor, b: torch.Tensor, /, **_: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.matmul(a, b)


def _softmax(a: torch.Tensor, /, **_: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.softmax(a, dim=1)


def _conv2d(
    data: torch.Tensor,
    weight: torch.Tensor,
    /,
    *,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    **_: int,
) -> Callable[[], torch.Tensor]:
    """Convolve NHWC data; torch's layout for it is NCHW seen through strides."""
    image = data.permute(0, 3, 1, 2)
    kernel = weight.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    return lambda: functional.conv2d(
        image, kernel, None, stride, padding, dilation, groups
    ).permute(0, 2, 3, 1)


_OPERATORS = {
    "MM": _matmul,
    "GMM": _matmul,
    "SFM": _softmax,
    "C2D": _conv2d,
    "DIL": _conv2d,
    "GRP": _conv2d,
}


def tune(
    operator: str, parameters: dict[str, int], shapes: list[list[int]], **_: Any
) -> dict[str, Any]:
    """Take torch's operator: there is nothing to tune."""
    if operator not in _OPERATORS:
        raise LookupError(f"no torch operator is known for {operator}")
    arrays = [torch.from_numpy(array) for array in inputs(shapes)[:-1]]
    call = _OPERATORS[operator](*arrays, **parameters)

    global _call
    _call = call
    with torch.inference_mode():
        output = call().numpy()
    return {"seconds": 0.0, "trial_seconds": [], "digest": digest(output)}


def run() -> dict[str, Any]:
    with torch.inference_mode():
        return {"seconds": seconds_of(_call, _SECONDS)}


serve(f"torch {torch.__version__}", {"tune": tune, "run": run})
