"""Times torch's own operators on one thread, for the workloads that are a single one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from serve import digest, inputs, seconds_of, serve
from torch.nn import functional

torch.set_num_threads(1)

_SECONDS = 0.01
"""The least seconds of a measurement."""

_call: Callable[[], torch.Tensor]


def _matmul(a: torch.Tensor, b: torch.Tensor, /, **_: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.matmul(a, b)


def _softmax(a: torch.Tensor, /, **_: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.softmax(a, dim=1)


def _norm(a: torch.Tensor, /, **_: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.linalg.vector_norm(a, dim=(1, 2))


def _transpose_matmul(
    query: torch.Tensor, value: torch.Tensor, /, **_: int
) -> Callable[[], torch.Tensor]:
    return lambda: torch.matmul(query.permute(0, 2, 1, 3), value.permute(0, 2, 3, 1))


_LAST: dict[int, Any] = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
}
"""The memory format in which channels lie last, by the dimensions of an image."""


def _channels_second(data: torch.Tensor) -> torch.Tensor:
    """Return what torch takes for data with the channels last: the same memory, if it can."""
    return data.movedim(-1, 1)


def _convolution(
    data: torch.Tensor,
    weight: torch.Tensor,
    /,
    *rest: torch.Tensor,
    stride: int,
    padding: int,
    dilation: int = 1,
    groups: int = 1,
    **_: int,
) -> Callable[[], torch.Tensor]:
    """Convolve data with the channels last; the kernel is in the order that torch likes."""
    rank = data.dim() - 2
    image = _channels_second(data)
    kernel = weight.movedim((-1, -2), (0, 1)).contiguous(memory_format=_LAST[rank])
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    return lambda: convolve(image, kernel, None, stride, padding, dilation, groups).movedim(1, -1)


def _depthwise(
    data: torch.Tensor, weight: torch.Tensor, /, *, stride: int, padding: int, **_: int
) -> Callable[[], torch.Tensor]:
    image, channels = _channels_second(data), data.shape[-1]
    kernel = weight.permute(3, 0, 1, 2).contiguous(memory_format=torch.channels_last)
    return lambda: functional.conv2d(image, kernel, None, stride, padding, groups=channels).movedim(
        1, -1
    )


def _transposed_convolution(
    data: torch.Tensor, weight: torch.Tensor, /, *, stride: int, padding: int, **_: int
) -> Callable[[], torch.Tensor]:
    image = _channels_second(data)
    kernel = weight.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)
    return lambda: functional.conv_transpose2d(image, kernel, None, stride, padding).movedim(1, -1)


def _convolution_bn_relu(
    data: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    offset: torch.Tensor,
    scale: torch.Tensor,
    /,
    **parameters: int,
) -> Callable[[], torch.Tensor]:
    """Fold bias and scale into the kernel, as a network does that only infers."""
    folded = bias * scale + offset
    rank = data.dim() - 2
    image = _channels_second(data)
    kernel = (weight * scale).movedim((-1, -2), (0, 1)).contiguous(memory_format=_LAST[rank])
    stride, padding = parameters["stride"], parameters["padding"]
    dilation = parameters.get("dilation", 1)
    return lambda: functional.relu(
        functional.conv2d(image, kernel, folded, stride, padding, dilation), inplace=True
    ).movedim(1, -1)


def _layer_norm(
    a: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, /, **_: int
) -> Callable[[], torch.Tensor]:
    return lambda: functional.layer_norm(a, a.shape[1:], gamma, beta, eps=1e-5)


_OPERATORS: dict[str, Callable[..., Callable[[], torch.Tensor]]] = {
    "MM": _matmul,
    "GMM": _matmul,
    "TBG": _transpose_matmul,
    "SFM": _softmax,
    "NRM": _norm,
    "C1D": _convolution,
    "C2D": _convolution,
    "C3D": _convolution,
    "DIL": _convolution,
    "GRP": _convolution,
    "DEP": _depthwise,
    "T2D": _transposed_convolution,
    "CBR": _convolution_bn_relu,
    "LNM": _layer_norm,
    "SUM": lambda a, /, **_: lambda: a.sum(1),
    "MAX": lambda a, /, **_: lambda: a.amax(1),
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
