"""Elements that indices name: taken, gathered, scattered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, tensor_info
from tensorir.frontend.torch.operators.shapes import axis_of
from tensorir.frontend.torch.table import aten
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo


@aten("embedding.default")
def embedding(weight: Any, indices: Any, **_: Any) -> Any:
    """Rows of a table."""
    return op.take(weight, indices, 0)


@aten("index_select.default")
def index_select(self: Any, dim: int, index: Any) -> Any:
    """Slices along an axis."""
    return op.take(self, index, axis_of(dim, tensor_info(self).ndim))


@aten("gather.default")
def gather(self: Any, dim: int, index: Any, **_: Any) -> Any:
    """Elements at indices along an axis, at the same place along the others."""
    return op.gather_elements(self, index, axis_of(dim, tensor_info(self).ndim))


@aten("take_along_dim.default")
def take_along_dim(self: Any, indices: Any, dim: int | None, result: TensorStructInfo) -> Any:
    """Elements at indices along an axis."""
    if dim is None:
        return op.gather_elements(op.flatten(self), op.flatten(indices), 0)
    return gather(self, dim, op.broadcast_to(indices, result.shape))


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(self: Any, indices: Sequence[Any], result: TensorStructInfo) -> Any:
    """Elements at indices, which are stretched to one another; an axis without any stays whole.

    The axes of the indices are in the place of the indexed axes if those are side by side, else in
    front.
    """
    ndim = tensor_info(self).ndim
    chosen = [k for k, i in enumerate(indices) if i is not None]
    if any(dtype_of(indices[k]) == "bool" for k in chosen):
        raise IRTypeError("an index of bools is not supported: its shape depends on data")
    if len(chosen) == 1:
        return op.take(self, _counted(indices[chosen[0]], self, chosen[0]), chosen[0])
    rest = [k for k in range(ndim) if k not in chosen]
    front = op.permute_dims(self, [*chosen, *rest])
    parts = [_counted(indices[k], self, k) for k in chosen]
    depth = max(tensor_info(i).ndim for i in parts)
    are_together = chosen == list(range(chosen[0], chosen[-1] + 1))
    before = chosen[0] if are_together else 0
    shape = (result.shape or ())[before : before + depth]
    places = op.stack([op.broadcast_to(i, shape) for i in parts], depth)
    found = op.gather_nd(front, places)
    order = [*range(depth, depth + before), *range(depth), *range(depth + before, result.ndim)]
    return op.permute_dims(found, order) if before else found


def _counted(index: Any, self: Any, axis: int) -> Any:
    """Return an index as one from the front: negative ones count from the end."""
    number = as_tensor(index, "int64")
    length = as_tensor((tensor_info(self).shape or ())[axis], "int64")
    return op.where(op.less(number, as_tensor(0, "int64")), number + length, number)


@aten(
    "scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add.default"
)
def scatter(
    self: Any, dim: int, index: Any, src: Any = None, value: Any = None, reduce: str | None = None
) -> Any:
    """Elements at indices along an axis replaced."""
    raise NotImplementedError
