"""Elements at the indices in other tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tensorir import te
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const, max_, min_, select
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes
from tensorir.relax.expr import Constant
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import Value, broadcast_shape, element, shape_of, shape_text
from tensorir.topi.extents import axis_of, is_number, size_analyzer
from tensorir.topi.reshaping import flatten


def check_indices(name: str, indices: Value) -> None:
    """Raise IRTypeError unless the operand called `name` holds integers."""
    if not indices.dtype.is_integral or indices.dtype.is_bool:
        raise IRTypeError(f"{name} must be integers, got {indices.dtype}")


def clamp_index(index: PrimExpr, extent: PrimExpr) -> PrimExpr:
    """Return an index clamped to an extent, as int64."""
    if isinstance(index, IntImm) and isinstance(extent, IntImm) and 0 <= index.value < extent.value:
        return const(index.value, INT64)
    return max_(const(0, INT64), min_(extent - 1, cast(INT64, index)))


def normalize_index(index: PrimExpr, extent: PrimExpr) -> PrimExpr:
    """Return an index as int64; a negative index counts from the end."""
    wide = cast(INT64, index)
    return wide if index.dtype.is_uint else select(wide < 0, wide + extent, wide)


def _as_int64(arguments: dict[str, Any]) -> dict[str, Any]:
    """Convert plain integers to index tensors, independently of the dtype of the elements."""
    given = arguments.get("indices")
    if isinstance(given, (int, list, tuple)):
        array = np.array(given)
        if array.dtype == np.int64:
            return {**arguments, "indices": Constant(array)}
    return arguments


@operator("take", dimension_order=axes("axis"), prepare=_as_int64)
def take(
    x: Tensor,
    indices: Value,
    axis: int | None = None,
    mode: Literal["fast", "clip", "wrap", "normalize"] = "fast",
) -> Tensor:
    """Return the elements at indices along an axis; the shape of the indices replaces the axis.

    Without an axis the elements are in row-major order. `mode` treats indices out of range: they
    are clamped ("clip"), taken modulo the extent ("wrap"), count from the end if negative
    ("normalize"), or give undefined elements ("fast").
    """
    check_indices("indices", indices)
    if axis is None:
        x, axis = (x if x.ndim == 1 else flatten(x)), 0
    k = axis_of(axis, x.ndim)
    extent, shape = x.shape[k], shape_of(indices)
    if is_number(extent, 0) and not any(is_number(n, 0) for n in shape):
        raise IRValueError(f"axis {k} of {shape_text(x.shape)} has no elements")

    def taken(*i: PrimExpr) -> PrimExpr:
        place = element(indices, i[k : k + len(shape)])
        if mode == "wrap":
            place = te.floormod(cast(INT64, place), extent)
        elif mode == "normalize":
            place = clamp_index(normalize_index(place, extent), extent)
        else:
            place = clamp_index(place, extent)
        return x[(*i[:k], place, *i[k + len(shape) :])]

    return te.compute([*x.shape[:k], *shape, *x.shape[k + 1 :]], taken, name="T_take")


@operator("gather_elements")
def gather_elements(data: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """Return, for each index, the element of `data` at the index along an axis, and at the position
    of the index along the others.

    Negative indices count from the end. The result has the shape of the indices, which exceeds the
    shape of `data` at most along the axis.
    """
    check_indices("indices", indices)
    k = axis_of(axis, data.ndim)
    analyzer = size_analyzer(data.shape, indices.shape)
    fits = indices.ndim == data.ndim and not any(
        n != k and analyzer.can_prove(a < b)
        for n, (a, b) in enumerate(zip(data.shape, indices.shape, strict=True))
    )
    if not fits:
        raise IRValueError(
            f"indices of shape {shape_text(indices.shape)} do not fit data of shape "
            f"{shape_text(data.shape)}"
        )
    extent = data.shape[k]
    return te.compute(
        indices.shape,
        lambda *i: data[
            (*i[:k], clamp_index(normalize_index(indices[i], extent), extent), *i[k + 1 :])
        ],
        name="T_gather",
    )


def tuple_length(data: Tensor, indices: Tensor, batch_dims: int) -> int:
    """Return the number of dimensions of `data` that a tuple in the last dimension of `indices`
    selects.

    Raises IRTypeError and IRValueError for indices that do not fit the data.
    """
    check_indices("indices", indices)
    length = indices.shape[-1] if indices.ndim else None
    if not isinstance(length, IntImm):
        raise IRValueError(f"the last dimension of the indices must be constant, got {length}")
    if not 0 <= batch_dims < max(1, indices.ndim) or batch_dims + length.value > data.ndim:
        raise IRValueError(
            f"indices of shape {shape_text(indices.shape)} with {batch_dims} batch dimension(s) do "
            f"not fit data of shape {shape_text(data.shape)}"
        )
    analyzer = size_analyzer(data.shape, indices.shape)
    for a, b in zip(data.shape[:batch_dims], indices.shape[:batch_dims], strict=True):
        if analyzer.can_prove(a != b):
            raise IRValueError(
                f"the batch dimensions of {shape_text(data.shape)} and {shape_text(indices.shape)} "
                "differ"
            )
    return length.value


@operator("gather_nd")
def gather_nd(data: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Return the slices of `data` at tuples of indices in the last dimension of `indices`.

    The first `batch_dims` dimensions are common to both. Negative indices count from the end.
    """
    count = tuple_length(data, indices, batch_dims)
    outer = indices.shape[:-1]
    extents = data.shape[batch_dims : batch_dims + count]

    def part(*i: PrimExpr) -> PrimExpr:
        places = [
            clamp_index(
                normalize_index(indices[(*i[: len(outer)], const(n, INT64))], extent), extent
            )
            for n, extent in enumerate(extents)
        ]
        return data[(*i[:batch_dims], *places, *i[len(outer) :])]

    rest = data.shape[batch_dims + count :]
    return te.compute([*outer, *rest], part, name="T_gather_nd")


@operator("index_tensor")
def index_tensor(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """Return `data[indices]` by NumPy's rules, for integer arrays as indices of the first
    dimensions.

    The indices broadcast together. Negative indices count from the end.
    """
    shape = stretched_indices(data, indices)

    def found(*i: PrimExpr) -> PrimExpr:
        places = [
            clamp_index(normalize_index(element(index, i[: len(shape)]), extent), extent)
            for index, extent in zip(indices, data.shape, strict=False)
        ]
        return data[(*places, *i[len(shape) :])]

    return te.compute([*shape, *data.shape[len(indices) :]], found, name="T_index")


def stretched_indices(data: Tensor, indices: Sequence[Tensor]) -> list[PrimExpr]:
    """Return the broadcast shape of indices.

    Raises IRTypeError or IRValueError if they do not fit `data`.
    """
    if not 0 < len(indices) <= data.ndim:
        raise IRValueError(f"{len(indices)} indices are given for {data.ndim} dimension(s)")
    for index in indices:
        check_indices("indices", index)
    return broadcast_shape(*(index.shape for index in indices))
