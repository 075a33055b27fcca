"""Elements in order, and the greatest of them."""

from __future__ import annotations

from typing import Any

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, common_dtype, tensor_info
from tensorir.frontend.torch.operators.shapes import axis_of
from tensorir.frontend.torch.table import aten
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo


@aten("topk.default")
def topk(self: Any, k: Any, dim: int, largest: bool, **_: Any) -> Any:
    """The `k` greatest elements along an axis, in order, and their indices."""
    axis = axis_of(dim, tensor_info(self).ndim)
    return op.topk(self, k, axis, "both", largest, "int64")


@aten("sort.default", "sort.stable")
def sort(self: Any, dim: int, descending: bool, **_: Any) -> Any:
    """Elements in order along an axis, and the indices that they had."""
    axis = axis_of(dim, tensor_info(self).ndim)
    index = op.argsort(self, axis, descending, "int64")
    return op.sort(self, axis, descending), index


@aten("argsort.default", "argsort.stable")
def argsort(self: Any, dim: int, descending: bool, **_: Any) -> Any:
    """The indices that put elements in order along an axis."""
    return op.argsort(self, axis_of(dim, tensor_info(self).ndim), descending, "int64")


@aten("bucketize.Tensor")
def bucketize(self: Any, boundaries: Any, right: bool, result: TensorStructInfo, **_: Any) -> Any:
    """The places of elements among boundaries in order."""
    return _placed(boundaries, self, right, result)


@aten("searchsorted.Tensor")
def searchsorted(
    sorted_sequence: Any,
    self: Any,
    right: bool,
    side: str | None,
    result: TensorStructInfo,
    **_: Any,
) -> Any:
    """The places of elements among others in order."""
    if tensor_info(sorted_sequence).ndim != 1:
        raise IRTypeError("a sorted sequence of several dimensions is not supported")
    return _placed(sorted_sequence, self, right or side == "right", result)


def _placed(boundaries: Any, self: Any, right: bool, result: TensorStructInfo) -> Any:
    """Return how many boundaries come before each element, or are equal to it if `right`."""
    dtype = common_dtype(boundaries, self)
    values = op.expand_dims(as_tensor(self, dtype), -1)
    compare = op.greater_equal if right else op.greater
    before = op.astype(compare(values, as_tensor(boundaries, dtype)), str(result.dtype))
    return op.sum(before, [-1])
