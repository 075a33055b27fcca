"""Operators along axes that are given as integer tensors, and sizes that depend on data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.expr import PrimExpr
from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr, tensor_info
from tensorir.relax.struct_info import (
    UNKNOWN_NDIM,
    PrimStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)

_Array: TypeAlias = NDArray[Any]
_Kind = Literal["sum", "mean", "prod", "max", "min", "log_sum_exp"]
_REDUCTIONS: Final[dict[str, Callable[..., _Array]]] = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "max": lambda x, **axes: np.max(x, initial=_limits(x.dtype)[0], **axes),
    "log_sum_exp": lambda x, **axes: np.logaddexp.reduce(x, **axes),
    "min": lambda x, **axes: np.min(x, initial=_limits(x.dtype)[1], **axes),
}


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the minimum and maximum of a dtype: the results of empty reductions."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return (False, True) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def _numbers(x: GraphExpr) -> TensorStructInfo:
    """Return the struct info of a tensor. Raises IRTypeError for a dtype that NumPy lacks."""
    info = tensor_info(x)
    if info.dtype is None or not (info.dtype.is_integral or info.dtype.is_float):
        raise IRTypeError(f"run-time axes are not supported for the dtype of {info}")
    return info


def _count(axes: GraphExpr) -> int | None:
    """Return the number of axes; None if it is unknown."""
    shape = tensor_info(axes).static_shape
    return None if shape is None else int(np.prod(shape))


def _with_rank(info: TensorStructInfo, change: int | None) -> TensorStructInfo:
    known = change is not None and info.ndim != UNKNOWN_NDIM
    return TensorStructInfo(None, info.dtype, info.ndim + (change or 0) if known else UNKNOWN_NDIM)


def _reduce_info(x: GraphExpr, axes: GraphExpr, kind: str, keepdims: bool) -> TensorStructInfo:
    count = _count(axes)
    return _with_rank(_numbers(x), 0 if keepdims else None if count is None else -count)


@library("reduce_at", _reduce_info)
def reduce_at(x: _Array, axes: _Array, kind: _Kind, keepdims: bool = False) -> _Array:
    """Return a reduction along `axes`, from `-ndim` to `ndim - 1`."""
    result = _REDUCTIONS[kind](x, axis=tuple(axes.reshape(-1).tolist()), keepdims=keepdims)
    return np.asarray(result, x.dtype)


@library("cumulated_at", lambda x, **_: _numbers(x))
def cumulated_at(
    x: _Array,
    axis: _Array,
    kind: Literal["cumsum", "cumprod"],
    exclusive: bool = False,
    reverse: bool = False,
) -> _Array:
    """Return cumulative sums or products along one axis; with `reverse`, starting at its end.

    With `exclusive`, an element does not include itself.
    """
    place = int(axis.reshape(-1)[0])
    source = np.flip(x, place) if reverse else x
    if exclusive:
        first = np.full_like(source.take([0], place), 0 if kind == "cumsum" else 1)
        source = np.concatenate([first, source.take(range(x.shape[place] - 1), place)], place)
    total = (np.add if kind == "cumsum" else np.multiply).accumulate(source, place, x.dtype)
    return np.ascontiguousarray(np.flip(total, place) if reverse else total)


def _squeeze_info(x: GraphExpr, axes: GraphExpr) -> TensorStructInfo:
    count = _count(axes)
    return _with_rank(_numbers(x), None if count is None else -count)


@library("squeeze_at", _squeeze_info)
def squeeze_at(x: _Array, axes: _Array) -> _Array:
    """Return `x` without these dimensions of extent 1."""
    return np.squeeze(x, tuple(axes.reshape(-1).tolist()))


@library("expand_dims_at", lambda x, axes: _with_rank(_numbers(x), _count(axes)))
def expand_dims_at(x: _Array, axes: _Array) -> _Array:
    """Return `x` with dimensions of extent 1 inserted at `axes` of the result."""
    return np.expand_dims(x, tuple(axes.reshape(-1).tolist()))


@library("slice_at", lambda x, **_: _with_rank(_numbers(x), 0))
def slice_at(
    x: _Array, begin: _Array, end: _Array, axes: _Array | None = None, steps: _Array | None = None
) -> _Array:
    """Return `x[begin:end:step]` along `axes` (None: the first ones), with Python's rules."""
    places = [slice(None)] * x.ndim
    chosen = range(len(begin)) if axes is None else axes.tolist()
    strides = [1] * len(begin) if steps is None else steps.tolist()
    for axis, first, last, step in zip(chosen, begin.tolist(), end.tolist(), strides, strict=True):
        # With a negative step, an end before the first element must stay before it.
        before_all = step < 0 and last < -x.shape[axis]
        places[axis] = slice(first, None if before_all else last, step)
    return np.ascontiguousarray(x[tuple(places)])


@library(
    "slice_bounds",
    lambda begin, **_: TensorStructInfo([2 * n for n in tensor_info(begin).shape or ()], "int64"),
)
def slice_bounds(
    begin: _Array, end: _Array, shape: Sequence[PrimExpr], steps: Sequence[int]
) -> _Array:
    """Return the begins and then the ends of slices of axes of extents `shape`, in range.

    Follows Python's rules. An end is its begin plus the length of the slice times the step.
    """
    slices = [
        range(*slice(int(first), int(last), step).indices(int(extent)))  # type: ignore[call-overload]
        for first, last, extent, step in zip(begin, end, shape, steps, strict=False)
    ]
    starts = [part.start for part in slices]
    return np.array([*starts, *(part.start + len(part) * part.step for part in slices)], np.int64)


@library(
    "pad_width_at",
    lambda pads, axes, count: TensorStructInfo([2 * count], _numbers(pads).dtype),
)
def pad_width_at(pads: _Array, axes: _Array, count: int) -> _Array:
    """Return paddings before and then after all of `count` axes, given the paddings of `axes`."""
    result = np.zeros((2, count), pads.dtype)
    result[:, axes] = pads.reshape(2, -1)
    return result.reshape(-1)


@library("tensor_to_scalars", lambda x, count: TupleStructInfo([PrimStructInfo("int64")] * count))
def tensor_to_scalars(x: NDArray[Any], count: int) -> tuple[int, ...]:
    """Return the elements of a tensor of `count` integers, as a tuple of numbers.

    A `match_cast` of the tuple defines symbolic sizes.
    """
    return tuple(int(n) for n in np.reshape(x, count))


@library("reshape_target", lambda target, **_: tensor_info(target))
def reshape_target(
    target: NDArray[Any], shape: Sequence[PrimExpr], allowzero: bool = False
) -> NDArray[Any]:
    """Return the shape that a tensor of `shape` is reshaped to.

    In `target`, 0 keeps a size unless `allowzero` is set, and one -1 means the remaining size.
    """
    sizes: list[int] = [int(n) for n in shape]  # type: ignore[call-overload]
    result = [int(n) for n in target]
    if not allowzero:
        result = [sizes[k] if n == 0 else n for k, n in enumerate(result)]
    if -1 in result:
        rest = math.prod(n for n in result if n != -1)
        if result.count(-1) == 1 and rest:
            result[result.index(-1)] = math.prod(sizes) // rest
    if min(result, default=0) < 0 or math.prod(result) != math.prod(sizes):
        raise IRValueError(f"a tensor of {sizes} cannot be reshaped to {target.tolist()}")
    return np.array(result, target.dtype)


def _broadcast_target_info(target: GraphExpr, shape: Sequence[PrimExpr]) -> TensorStructInfo:
    count = _count(target)
    return TensorStructInfo(None if count is None else [max(count, len(shape))], "int64", 1)


@library("broadcast_target", _broadcast_target_info)
def broadcast_target(target: NDArray[Any], shape: Sequence[PrimExpr]) -> NDArray[Any]:
    """Return the shape that tensors of the shapes `target` and `shape` broadcast to."""
    sizes = [int(n) for n in shape]  # type: ignore[call-overload]
    wanted = target.tolist()
    try:
        return np.array(np.broadcast_shapes(sizes, wanted), np.int64)
    except ValueError as problem:
        raise IRValueError(f"a tensor of {sizes} does not broadcast to {wanted}") from problem


@library("arange_between", lambda start, **_: TensorStructInfo(None, tensor_info(start).dtype, 1))
def arange_between(start: NDArray[Any], limit: NDArray[Any], step: NDArray[Any]) -> NDArray[Any]:
    """Return `start, start + step, ...` up to `limit`, which is excluded."""
    first, last, distance = start.item(), limit.item(), step.item()
    if distance == 0:
        raise IRValueError("arange_between: the step is 0; it must be a nonzero number")
    count = (
        len(range(first, last, distance))
        if start.dtype.kind in "iu"
        else max(0, math.ceil((last - first) / distance))
    )
    # Integers wrap around on the way to values in range.
    values: NDArray[Any] = start + np.arange(count).astype(start.dtype) * step
    return values.astype(start.dtype).reshape(count)
