"""Sorting and searching."""

from __future__ import annotations

from typing import Any

from tensorir.frontend.torch.dtypes import tensor_info
from tensorir.frontend.torch.operators.shapes import axis_of
from tensorir.frontend.torch.table import aten
from tensorir.relax import op


@aten("topk.default")
def topk(self: Any, k: Any, dim: int, largest: bool, **_: Any) -> Any:
    """The `k` greatest elements along an axis, in order, and their indices."""
    axis = axis_of(dim, tensor_info(self).ndim)
    return op.topk(self, k, axis, "both", largest, "int64")


@aten("sort.default", "sort.stable")
def sort(self: Any, dim: int, descending: bool, **_: Any) -> Any:
    """Elements sorted along an axis, and their original indices."""
    axis = axis_of(dim, tensor_info(self).ndim)
    index = op.argsort(self, axis, descending, "int64")
    return op.sort(self, axis, descending), index


@aten("argsort.default", "argsort.stable")
def argsort(self: Any, dim: int, descending: bool, **_: Any) -> Any:
    """The indices that sort elements along an axis."""
    return op.argsort(self, axis_of(dim, tensor_info(self).ndim), descending, "int64")


@aten("bucketize.Tensor")
def bucketize(self: Any, boundaries: Any, out_int32: bool, right: bool) -> Any:
    """The positions of elements among sorted boundaries."""
    return op.bucketize(self, boundaries, out_int32, right)


@aten("searchsorted.Tensor")
def searchsorted(
    sorted_sequence: Any, self: Any, out_int32: bool, right: bool, side: str | None
) -> Any:
    """The positions of elements among a sorted sequence."""
    return op.searchsorted(sorted_sequence, self, out_int32, right or side == "right")
