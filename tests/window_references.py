"""What convolutions, poolings and their relatives give, by loops over windows, with NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Sides = Sequence[tuple[int, int]]


def windows(
    x: np.ndarray, taps: Sequence[int], stride: int, dilation: int = 1
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Yield the place of each window along the axes from 2 on, and its elements `[n, c, *taps]`."""
    counts = [
        (size - dilation * (k - 1) - 1) // stride + 1
        for size, k in zip(x.shape[2:], taps, strict=True)
    ]
    for place in itertools.product(*map(range, counts)):
        part = tuple(
            slice(o * stride, o * stride + dilation * (k - 1) + 1, dilation)
            for o, k in zip(place, taps, strict=True)
        )
        yield place, x[(slice(None), slice(None), *part)]


def padded(x: np.ndarray, sides: Sides, value: float = 0) -> np.ndarray:
    return np.pad(x, [(0, 0), (0, 0), *sides], constant_values=value)


def convolved(
    x: np.ndarray,
    w: np.ndarray,
    stride: int = 1,
    sides: Sides | None = None,
    dilation: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """Return the convolution of `x[n, c, ...]` with `w[o, c / groups, ...]`."""
    source = padded(x, sides or [(0, 0)] * (x.ndim - 2))
    found: dict[tuple[int, ...], np.ndarray] = {}
    for place, window in windows(source, w.shape[2:], stride, dilation):
        parts = np.split(window.astype("float64"), groups, 1)
        kernels = np.split(w.astype("float64"), groups)
        sums = [
            part.reshape(len(x), -1) @ kernel.reshape(len(kernel), -1).T
            for part, kernel in zip(parts, kernels, strict=True)
        ]
        found[place] = np.concatenate(sums, 1)
    return _joined(found, x.dtype)


def spread(
    x: np.ndarray,
    w: np.ndarray,
    stride: int = 1,
    padding: int = 0,
    extra: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """Return the transposed convolution of `x[n, c, ...]` with `w[c, o / groups, ...]`."""
    rank = x.ndim - 2
    sizes = [
        (n - 1) * stride + dilation * (k - 1) + 1 + extra
        for n, k in zip(x.shape[2:], w.shape[2:], strict=True)
    ]
    result = np.zeros((len(x), w.shape[1] * groups, *sizes))
    inputs, outputs = x.shape[1] // groups, w.shape[1]
    for g in range(groups):
        for place in np.ndindex(*x.shape[2:]):
            part = tuple(
                slice(i * stride, i * stride + dilation * (k - 1) + 1, dilation)
                for i, k in zip(place, w.shape[2:], strict=True)
            )
            values = x[(slice(None), slice(g * inputs, (g + 1) * inputs), *place)]
            kernel = w[g * inputs : (g + 1) * inputs]
            added = np.tensordot(values, kernel, 1)
            result[(slice(None), slice(g * outputs, (g + 1) * outputs), *part)] += added
    inside = tuple(slice(padding, n - padding) for n in sizes)
    assert rank == len(inside)
    return result[(slice(None), slice(None), *inside)].astype(x.dtype)


def pooled(
    x: np.ndarray,
    reduce: Callable[..., Any],
    size: int,
    stride: int,
    padding: int = 0,
    dilation: int = 1,
    ceil_mode: bool = False,
    value: float = np.nan,
) -> np.ndarray:
    """Return `reduce(window, axis)` of the windows of `x[n, c, ...]`; padding is `value`, NaN.

    In `ceil_mode` windows that begin before the end of the data go beyond it.
    """
    rank = x.ndim - 2
    reach = dilation * (size - 1) + 1
    counts = []
    for n in x.shape[2:]:
        count = (n + 2 * padding - reach) // stride + 1
        if ceil_mode and count * stride < n + padding and (n + 2 * padding - reach) % stride:
            count += 1
        counts.append(count)
    sides = [
        (padding, max(padding, (count - 1) * stride + reach - n - padding))
        for n, count in zip(x.shape[2:], counts, strict=True)
    ]
    found = {}
    for place, window in windows(padded(x, sides, value), [size] * rank, stride, dilation):
        if all(o < count for o, count in zip(place, counts, strict=True)):
            found[place] = reduce(window, tuple(range(2, 2 + rank)))
    return _joined(found, x.dtype)


def shared_out(x: np.ndarray, reduce: Callable[..., Any], sizes: Sequence[int]) -> np.ndarray:
    """Return `reduce(window, axis)` of windows that share out the axes of `x[n, c, ...]`."""
    rank = len(sizes)
    found = {}
    for place in np.ndindex(*sizes):
        part = tuple(
            slice(o * n // m, -(-(o + 1) * n // m))
            for o, n, m in zip(place, x.shape[2:], sizes, strict=True)
        )
        window = x[(slice(None), slice(None), *part)]
        found[place] = reduce(window, tuple(range(2, 2 + rank)))
    return _joined(found, x.dtype)


def _joined(found: dict[tuple[int, ...], np.ndarray], dtype: np.dtype[Any]) -> np.ndarray:
    """Return results `[n, c]` of places as one array `[n, c, *places]`."""
    sizes = [max(place[k] for place in found) + 1 for k in range(len(next(iter(found))))]
    first = next(iter(found.values()))
    result = np.empty((*first.shape, *sizes), first.dtype)
    for place, value in found.items():
        result[(slice(None), slice(None), *place)] = value
    return result.astype(dtype)
