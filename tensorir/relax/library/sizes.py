"""Elements of tensors as sizes, and sizes that depend on data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorir.errors import IRValueError
from tensorir.nodes.expr import PrimExpr
from tensorir.relax.declaration import library
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo


def _scalars(x: GraphExpr, count: int) -> TupleStructInfo:
    return TupleStructInfo(PrimStructInfo("int64") for _ in range(count))


@library("tensor_to_scalars", _scalars)
def tensor_to_scalars(x: NDArray[Any], count: int) -> tuple[int, ...]:
    """Return the elements of a tensor of `count` integers, as a tuple of numbers.

    `match_cast` defines symbolic sizes by them.
    """
    return tuple(int(n) for n in np.reshape(x, count))


def _target(
    target: GraphExpr, shape: Sequence[PrimExpr], allowzero: bool = False
) -> TensorStructInfo:
    info = target.struct_info
    assert isinstance(info, TensorStructInfo)
    return info


@library("reshape_target", _target)
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
        rest = int(np.prod([n for n in result if n != -1]))
        if result.count(-1) > 1 or rest == 0 or int(np.prod(sizes)) % rest:
            raise IRValueError(f"a tensor of {sizes} cannot be reshaped to {target.tolist()}")
        result[result.index(-1)] = int(np.prod(sizes)) // rest
    return np.array(result, target.dtype)


def _between(start: GraphExpr, limit: GraphExpr, step: GraphExpr) -> TensorStructInfo:
    info = start.struct_info
    assert isinstance(info, TensorStructInfo)
    return TensorStructInfo(None, info.dtype, 1)


@library("arange_between", _between)
def arange_between(start: NDArray[Any], limit: NDArray[Any], step: NDArray[Any]) -> NDArray[Any]:
    """Return `start, start + step, ...` up to `limit`, which is excluded."""
    count = max(0, int(np.ceil((limit - start) / step)))
    values: NDArray[Any] = start + np.arange(count, dtype=start.dtype) * step
    return values.astype(start.dtype).reshape(count)
