"""Random numbers from explicit seeds: a call returns the same numbers each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError
from tensorir.nodes.expr import PrimExpr
from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr, tensor_info
from tensorir.relax.library.sorting import info_like
from tensorir.relax.signature import DTypeName
from tensorir.relax.struct_info import UNKNOWN_NDIM, StructInfo, TensorStructInfo

Array = NDArray[Any]


def _lengths(shape: Any) -> tuple[int, ...]:
    """Return the run-time value of a shape."""
    return tuple(map(int, shape))


@library("random.uniform", lambda shape, dtype, **_: TensorStructInfo(shape, dtype))
def uniform(
    shape: Sequence[PrimExpr],
    low: float = 0.0,
    high: float = 1.0,
    seed: int = 0,
    dtype: DTypeName = "float32",
) -> Array:
    """Return uniformly distributed numbers between two limits, the upper one excluded."""
    return np.random.default_rng(seed).uniform(low, high, _lengths(shape)).astype(dtype)


@library("random.normal", lambda shape, dtype, **_: TensorStructInfo(shape, dtype))
def normal(
    shape: Sequence[PrimExpr],
    mean: float = 0.0,
    scale: float = 1.0,
    seed: int = 0,
    dtype: DTypeName = "float32",
) -> Array:
    """Return normally distributed numbers; `scale` is the standard deviation."""
    return np.random.default_rng(seed).normal(mean, scale, _lengths(shape)).astype(dtype)


@library("random.randint", lambda shape, dtype, **_: TensorStructInfo(shape, dtype))
def randint(
    shape: Sequence[PrimExpr], low: int, high: int, seed: int = 0, dtype: DTypeName = "int64"
) -> Array:
    """Return uniformly distributed integers from `low` up to `high`, which is excluded."""
    return np.random.default_rng(seed).integers(low, high, _lengths(shape)).astype(dtype)


@library("random.bernoulli", lambda x, dtype, **_: info_like(x, dtype))
def bernoulli(x: Array, seed: int = 0, dtype: DTypeName = "float32") -> Array:
    """Return 1 with the probability that the element of `x` is, else 0."""
    return (np.random.default_rng(seed).random(x.shape) < x).astype(dtype)


def _multinomial_info(x: GraphExpr, sample_size: int, dtype: str, **_: Any) -> StructInfo:
    info = tensor_info(x)
    if info.ndim not in (2, UNKNOWN_NDIM):
        raise IRTypeError(f"x must be a matrix, got {info}")
    shape: list[PrimExpr | int] | None = None
    if info.shape is not None:
        shape = [info.shape[0], sample_size]
    return TensorStructInfo(shape, dtype, 2)


@library("random.multinomial", _multinomial_info)
def multinomial(x: Array, sample_size: int = 1, seed: int = 0, dtype: DTypeName = "int32") -> Array:
    """Return `sample_size` classes for each row, drawn with the log-probabilities of the row.

    The logarithms need not be normalised. A class may be drawn several times.
    """
    generator = np.random.default_rng(seed)
    weights = np.exp(x.astype(np.float64) - np.max(x, 1, keepdims=True))
    limits = np.cumsum(weights, 1)
    drawn = generator.random((x.shape[0], sample_size)) * limits[:, -1:]
    rows = [np.searchsorted(limit, d, side="right") for limit, d in zip(limits, drawn, strict=True)]
    classes: Array = np.minimum(np.stack(rows), x.shape[1] - 1)
    return classes.astype(dtype)
