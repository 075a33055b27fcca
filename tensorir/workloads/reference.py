"""Reference results of the workloads, written with NumPy on whole arrays.

Each function accepts the inputs in the order of the workload's parameters, and the relevant options
of its configuration by name. Sums are computed in float64, so the results serve as exact
references.
"""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    return np.asarray(total, x.dtype)


def depthwise(
    x: Array, weight: Array, *, stride: int = 1, padding: int = 0, dilation: int = 1, **_: int
) -> Array:
    """Convolve each channel separately; outputs of one channel are adjacent."""
    total: Any = 0
    for (ky, kx), window in _inputs_by_tap(x, weight.shape[1], 2, stride, padding, dilation):
        product = window[..., :, None] * weight[:, ky, kx].T.astype("float64")
        total = total + product.reshape(*window.shape[:3], -1)
    return np.asarray(total, x.dtype)


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
    return np.asarray(total, x.dtype)


def convolution_bn_relu(
    x: Array, weight: Array, bias: Array, offset: Array, scale: Array, **parameters: int
) -> Array:
    """Convolve, add `bias`, multiply by `scale`, add `offset`, and apply ReLU."""
    product = convolution(x.astype("float64"), weight, **parameters)
    return np.asarray(np.maximum((product + bias) * scale + offset, 0), x.dtype)


def matmul(x: Array, y: Array, **_: int) -> Array:
    """Multiply stacks of matrices."""
    return np.asarray(np.matmul(x, y, dtype="float64"), x.dtype)


def transpose_matmul(query: Array, value: Array, **_: int) -> Array:
    """Multiply the heads of `query` with those of `value`, transposed."""
    product = np.einsum("bihd,bjhd->bhij", query, value, dtype="float64", optimize=True)
    return np.asarray(product, query.dtype)


def norm(a: Array, **_: int) -> Array:
    """Return the Frobenius norm of each matrix."""
    return np.asarray(np.sqrt((a.astype("float64") ** 2).sum((1, 2))), a.dtype)


def softmax(a: Array, **_: int) -> Array:
    """Return the softmax of each row."""
    shifted = np.exp(a.astype("float64") - a.max(1, keepdims=True))
    return np.asarray(shifted / shifted.sum(1, keepdims=True), a.dtype)
