"""Times torch on operators of the suite and on networks, as they are and compiled if possible."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from serve import digest, inputs, seconds_of, serve_timers
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))  # the networks, which need torch alone

import torch_models

Call = Callable[[], Any]


def _matmul(a: torch.Tensor, b: torch.Tensor, /, **_: int) -> Call:
    return lambda: torch.matmul(a, b)


def _softmax(a: torch.Tensor, /, **_: int) -> Call:
    return lambda: torch.softmax(a, dim=1)


def _norm(a: torch.Tensor, /, **_: int) -> Call:
    return lambda: torch.linalg.vector_norm(a, dim=(1, 2))


def _transpose_matmul(query: torch.Tensor, value: torch.Tensor, /, **_: int) -> Call:
    return lambda: torch.matmul(query.permute(0, 2, 1, 3), value.permute(0, 2, 3, 1))


_LAST: dict[int, Any] = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
}
"""The memory format in which channels lie last, by the dimensions of an image."""


def _convolution(
    data: torch.Tensor,
    kernel: torch.Tensor,
    bias: torch.Tensor | None = None,
    /,
    *,
    stride: int,
    padding: int,
    dilation: int = 1,
    groups: int = 1,
    **_: int,
) -> Call:
    """Convolve data with the channels last; `kernel` has the outputs first, and the window last."""
    rank = data.dim() - 2
    image = data.movedim(-1, 1)  # the same memory
    kernel = kernel.contiguous(memory_format=_LAST[rank])
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    return lambda: convolve(image, kernel, bias, stride, padding, dilation, groups).movedim(1, -1)


def _plain_convolution(data: torch.Tensor, weight: torch.Tensor, /, **named: int) -> Call:
    return _convolution(data, weight.movedim((-1, -2), (0, 1)), **named)


def _depthwise(data: torch.Tensor, weight: torch.Tensor, /, **named: int) -> Call:
    channels = {"groups": data.shape[-1], "dilation": 1}
    return _convolution(data, weight.permute(3, 0, 1, 2), **{**named, **channels})


def _transposed_convolution(
    data: torch.Tensor, weight: torch.Tensor, /, *, stride: int, padding: int, **_: int
) -> Call:
    image = data.movedim(-1, 1)
    kernel = weight.permute(2, 3, 0, 1).contiguous(memory_format=torch.channels_last)
    return lambda: functional.conv_transpose2d(image, kernel, None, stride, padding).movedim(1, -1)


def _convolution_bn_relu(
    data: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    offset: torch.Tensor,
    scale: torch.Tensor,
    /,
    **named: int,
) -> Call:
    """Fold bias and scale into the kernel, as a network does that only infers."""
    kernel = (weight * scale).movedim((-1, -2), (0, 1))
    convolve = _convolution(data, kernel, bias * scale + offset, **named)
    return lambda: functional.relu(convolve(), inplace=True)


def _layer_norm(a: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor, /, **_: int) -> Call:
    return lambda: functional.layer_norm(a, a.shape[1:], gamma, beta, eps=1e-5)


_OPERATORS: dict[str, Callable[..., Call]] = {
    "MM": _matmul,
    "GMM": _matmul,
    "TBG": _transpose_matmul,
    "SFM": _softmax,
    "NRM": _norm,
    "C1D": _plain_convolution,
    "C2D": _plain_convolution,
    "C3D": _plain_convolution,
    "DIL": _plain_convolution,
    "GRP": _plain_convolution,
    "DEP": _depthwise,
    "T2D": _transposed_convolution,
    "CBR": _convolution_bn_relu,
    "LNM": _layer_norm,
    "SUM": lambda a, /, **_: lambda: a.sum(1),
    "MAX": lambda a, /, **_: lambda: a.amax(1),
}


def prepare(operator: str = "", **request: Any) -> Any:
    """Return torch's operator or network, which needs no tuning."""
    return _of_operator(operator, **request) if operator else _of_network(**request)


def _of_operator(
    operator: str, parameters: dict[str, int], shapes: list[list[int]], threads: int = 1, **_: Any
) -> Any:
    torch.set_num_threads(threads)
    if operator not in _OPERATORS:
        raise LookupError(f"no torch operator is known for {operator}")
    arrays = [torch.from_numpy(array) for array in inputs(shapes)[:-1]]
    call = torch.inference_mode()(_OPERATORS[operator](*arrays, **parameters))
    return {"digest": digest(call().numpy())}, {"main": partial(seconds_of, call)}


def _of_network(name: str, inputs: str, threads: int, **_: Any) -> Any:
    """Return the forms of a model of `benchmarks/torch_models.py`, for the arrays of a file."""
    torch.set_num_threads(threads)
    if name not in torch_models.MODELS:
        raise LookupError(f"{name} is an ONNX file only")
    module = torch_models.MODELS[name]()[0].eval()
    arrays = [torch.from_numpy(array) for array in np.load(inputs).values()]
    compiled = torch.compile(module)
    calls = {
        "eager": torch.inference_mode()(lambda: module(*arrays)),
        "compiled": torch.inference_mode()(lambda: compiled(*arrays)),
    }
    result = calls["eager"]()
    first = result[0] if isinstance(result, (tuple, list)) else result
    try:
        calls["compiled"]()
    except Exception as error:  # noqa: BLE001 - a machine without a compiler has no such form
        print(f"torch.compile: {error}", file=sys.stderr)
        del calls["compiled"]
    return {"digest": digest(first.numpy())}, {f: partial(seconds_of, c) for f, c in calls.items()}


serve_timers(f"torch {torch.__version__.partition('+')[0]}", prepare)
