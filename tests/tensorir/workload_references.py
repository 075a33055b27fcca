"""Results of the workloads, computed by NumPy on whole arrays, with sums in float64."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorir.workloads import get
from tensorir.workloads.convolution import convolved

Array: TypeAlias = NDArray[Any]


def _inputs_by_tap(
    x: Array, kernel: int, rank: int, stride: int, padding: int, dilation: int
) -> list[tuple[tuple[int, ...], Array]]:
    """Yield the taps of a kernel, each with the input elements that it multiplies."""
    around = [(0, 0), *[(padding, padding)] * rank, *[(0, 0)] * (x.ndim - 1 - rank)]
    padded = np.pad(x.astype("float64"), around)
    sizes = [convolved(n, kernel, stride, padding, dilation) for n in x.shape[1 : rank + 1]]
    found = []
    for tap in itertools.product(range(kernel), repeat=rank):
        starts = [k * dilation for k in tap]
        cut = [
            slice(start, start + (size - 1) * stride + 1, stride)
            for start, size in zip(starts, sizes, strict=True)
        ]
        found.append((tap, padded[(slice(None), *cut)]))
    return found


def convolution(
    x: Array,
    weight: Array,
    *,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
    **_: int,
) -> Array:
    """Convolve in as many dimensions as `x` has between batch and channels."""
    rank = x.ndim - 2
    total: Any = 0
    for tap, window in _inputs_by_tap(x, weight.shape[0], rank, stride, padding, dilation):
        inputs = np.split(window, groups, axis=-1)
        outputs = np.split(weight[tap].astype("float64"), groups, axis=-1)
        products = [a @ b for a, b in zip(inputs, outputs, strict=True)]
        total = total + np.concatenate(products, axis=-1)
    return np.asarray(total)


def depthwise(
    x: Array, weight: Array, *, stride: int = 1, padding: int = 0, dilation: int = 1, **_: int
) -> Array:
    """Convolve each channel separately; outputs of one channel are adjacent."""
    total: Any = 0
    for (ky, kx), window in _inputs_by_tap(x, weight.shape[1], 2, stride, padding, dilation):
        product = window[..., :, None] * weight[:, ky, kx].T.astype("float64")
        total = total + product.reshape(*window.shape[:3], -1)
    return np.asarray(total)


def transposed_convolution(
    x: Array, weight: Array, *, stride: int = 1, padding: int = 0, **_: int
) -> Array:
    """Add a copy of the kernel to the output for each element of the input, then cut the border."""
    n, h, w, _ci = x.shape
    kernel, co = weight.shape[0], weight.shape[-1]
    whole = np.zeros((n, (h - 1) * stride + kernel, (w - 1) * stride + kernel, co))
    for i, j in itertools.product(range(h), range(w)):
        spread = np.einsum("nc,yxco->nyxo", x[:, i, j].astype("float64"), weight)
        rows = slice(i * stride, i * stride + kernel)
        whole[:, rows, j * stride : j * stride + kernel] += spread
    rows, columns = (slice(padding, size - padding) for size in whole.shape[1:3])
    return np.asarray(whole[:, rows, columns], x.dtype)


def capsule_convolution(
    x: Array, weight: Array, *, stride: int = 1, padding: int = 0, **_: int
) -> Array:
    """Convolve with products of small matrices instead of numbers."""
    total: Any = 0
    for tap, window in _inputs_by_tap(x, weight.shape[0], 2, stride, padding, 1):
        total = total + np.einsum("nhwikc,kjco->nhwijo", window, weight[tap], optimize=True)
    return np.asarray(total)


def convolution_bn_relu(
    x: Array, weight: Array, bias: Array, offset: Array, scale: Array, **parameters: int
) -> Array:
    """Convolve, add `bias`, multiply by `scale`, add `offset`, and apply ReLU."""
    product = convolution(x.astype("float64"), weight, **parameters)
    return np.asarray(np.maximum((product + bias) * scale + offset, 0), x.dtype)


REFERENCES = {
    **dict.fromkeys(["C1D", "C2D", "C3D", "GRP", "DIL"], convolution),
    "DEP": depthwise,
    "T2D": transposed_convolution,
    "CAP": capsule_convolution,
    "CBR": convolution_bn_relu,
    "GMM": lambda x, y, **_: np.matmul(x, y, dtype="float64"),
    "TBG": lambda q, v, **_: np.einsum("bihd,bjhd->bhij", q, v, dtype="float64"),
    "NRM": lambda a, **_: np.sqrt((a.astype("float64") ** 2).sum((1, 2))),
    "SFM": lambda a, **_: np.exp(a.astype("float64")) / np.exp(a).sum(1, keepdims=True),
}


def expected(name: str, *inputs: Array, **changes: int) -> Array:
    """Return the result of a workload, its first configuration with some parameters changed."""
    return np.asarray(REFERENCES[name](*inputs, **get(name).parameters(**changes)), "float32")
