"""Elements that indices name: taken, gathered, scattered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, tensor_info
from tensorir.frontend.torch.operators.shapes import FAR, axis_of
from tensorir.frontend.torch.table import Match, aten
from tensorir.nodes import ops
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.topi.broadcast import broadcast_shape


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


class _Indexed:
    """The axes of a tensor that have an index, and where their elements are.

    `indices` are one for each of the first axes, None where the axis stays whole; they are
    stretched to one another. Where the indexed axes are side by side, those of the indices are in
    their place in the result, else in front.
    """

    def __init__(self, self_: Any, indices: Sequence[Any], shape: Sequence[PrimExpr]) -> None:
        ndim = tensor_info(self_).ndim
        self.chosen = [k for k, i in enumerate(indices) if i is not None]
        parts = [_counted(indices[k], self_, k) for k in self.chosen]
        self.depth = max(tensor_info(i).ndim for i in parts)
        are_together = self.chosen == list(range(self.chosen[0], self.chosen[-1] + 1))
        before = self.chosen[0] if are_together else 0
        ndim_result = self.depth + ndim - len(self.chosen)
        self.order = [
            *range(before, before + self.depth),
            *(k for k in range(ndim_result) if not before <= k < before + self.depth),
        ]
        """The axes of the result, those of the indices first."""
        at = [shape[k] for k in self.order[: self.depth]]
        self.places = op.stack([op.broadcast_to(i, at) for i in parts], self.depth)
        """Of shape (*indices, number of indexed axes)."""
        self.axes = [*self.chosen, *(k for k in range(ndim) if k not in self.chosen)]
        """The axes of the tensor, those that have an index first."""


def _turned(value: Any, order: Sequence[int]) -> Any:
    return value if list(order) == sorted(order) else op.permute_dims(value, list(order))


def _back(value: Any, order: Sequence[int]) -> Any:
    return _turned(value, sorted(range(len(order)), key=lambda k: order[k]))


def _counted(index: Any, self: Any, axis: int) -> Any:
    """Return an index as one from the front: negative ones count from the end."""
    number = as_tensor(index, "int64")
    length = as_tensor(number_of((tensor_info(self).shape or ())[axis]), "int64")
    return op.where(op.less(number, as_tensor(0, "int64")), number + length, number)


def number_of(extent: PrimExpr) -> PrimExpr | int:
    """Return an extent as a number if it is known."""
    return extent.value if isinstance(extent, IntImm) else extent


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(self: Any, indices: Sequence[Any], result: TensorStructInfo, matched: Match) -> Any:
    """Elements at indices, which are stretched to one another; bools stand for where they are true.

    The number of elements where a bool is true is a new symbolic size.
    """
    shape = result.shape or ()
    places = _integers(indices, shape, matched)
    chosen = [k for k, i in enumerate(places) if i is not None]
    if len(chosen) == 1:
        return op.take(self, _counted(places[chosen[0]], self, chosen[0]), chosen[0])
    indexed = _Indexed(self, places, shape)
    found = op.gather_nd(_turned(self, indexed.axes), indexed.places)
    return _back(found, indexed.order)


def _integers(indices: Sequence[Any], shape: Sequence[PrimExpr], matched: Match) -> list[Any]:
    """Return indices without bools: one of bools is as many of integers as it has axes."""
    made: list[Any] = []
    for k, i in enumerate(indices):
        if i is None or dtype_of(i) not in ("bool", "uint8"):
            made.append(i)
            continue
        if any(j is not None for j in (*indices[:k], *indices[k + 1 :])):
            raise IRTypeError("an index of bools beside another index is not supported")
        rank = tensor_info(i).ndim
        found = matched(
            op.nonzero(as_tensor(i, "bool")), TensorStructInfo([rank, shape[k]], "int64")
        )
        made += [op.squeeze(op.strided_slice(found, [0], [j], [j + 1]), 0) for j in range(rank)]
    return made


@aten("nonzero.default")
def nonzero(self: Any, result: TensorStructInfo, matched: Match) -> Any:
    """The places of elements that are not 0, one row each."""
    count, rank = result.shape or ()
    found = matched(op.nonzero(self), TensorStructInfo([rank, count], "int64"))
    return op.permute_dims(found, [1, 0])


@aten("masked_select.default")
def masked_select(self: Any, mask: Any, result: TensorStructInfo, matched: Match) -> Any:
    """The elements where a mask is true."""
    ndim = max(tensor_info(self).ndim, tensor_info(mask).ndim)
    shape = (tensor_info(self).shape if tensor_info(self).ndim == ndim else None) or (
        tensor_info(mask).shape or ()
    )
    stretched = op.broadcast_to(self, shape)
    return index(stretched, [op.broadcast_to(mask, shape)], result, matched)


@aten("index_put.default", "_unsafe_index_put.default", "_index_put_impl.default")
def index_put(
    self: Any,
    indices: Sequence[Any],
    values: Any,
    matched: Match,
    accumulate: bool = False,
    **_: Any,
) -> Any:
    """Elements at indices replaced, or added to; the indices are as those of `index`."""
    first = indices[0]
    if first is not None and dtype_of(first) == "bool" and tensor_info(values).ndim == 0:
        missing = tensor_info(self).ndim - tensor_info(first).ndim
        mask = op.reshape(first, [*(tensor_info(first).shape or ()), *[1] * missing])
        return op.where(mask, self + values if accumulate else values, self)
    if any(i is not None and dtype_of(i) == "bool" for i in indices):
        raise IRTypeError("several values at an index of bools are not supported")
    shape = _shape_of_index(self, indices)
    indexed = _Indexed(self, indices, shape)
    updates = _turned(op.broadcast_to(as_tensor(values, dtype_of(self)), shape), indexed.order)
    done = op.scatter_nd(
        _turned(self, indexed.axes), indexed.places, updates, "add" if accumulate else "update"
    )
    return _back(done, indexed.axes)


def _shape_of_index(self: Any, indices: Sequence[Any]) -> list[PrimExpr]:
    """Return the shape of the elements at indices."""
    own = tensor_info(self).shape or ()
    chosen = [k for k, i in enumerate(indices) if i is not None]
    shape = broadcast_shape(*(tensor_info(indices[k]).shape or () for k in chosen))
    are_together = chosen == list(range(chosen[0], chosen[-1] + 1))
    before = chosen[0] if are_together else 0
    rest = [n for k, n in enumerate(own) if k not in chosen]
    return [*rest[:before], *shape, *rest[before:]]


_REDUCTIONS: Final = {
    None: "update",
    "add": "add",
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
}


def _scattered(self: Any, dim: int, index: Any, src: Any, reduce: str | None) -> Any:
    """Return a tensor with values at indices along an axis; `src` may reach beyond them."""
    if reduce not in _REDUCTIONS:
        raise IRTypeError(f"a reduction by {reduce} is not supported")
    axis = axis_of(dim, tensor_info(self).ndim)
    shape = list(tensor_info(index).shape or ())
    if isinstance(src, GraphExpr):
        axes = list(range(len(shape)))
        updates = op.strided_slice(src, axes, [0] * len(axes), shape)
    else:
        updates = op.full(shape, as_tensor(src, dtype_of(self)), dtype_of(self))
    return op.scatter_elements(self, index, updates, axis, _REDUCTIONS[reduce])


@aten("scatter.src", "scatter.reduce")
def scatter(self: Any, dim: int, index: Any, src: Any, reduce: str | None = None) -> Any:
    """Elements at indices along an axis replaced, or combined with others."""
    return _scattered(self, dim, index, src, reduce)


@aten("scatter.value", "scatter.value_reduce")
def scatter_value(self: Any, dim: int, index: Any, value: Any, reduce: str | None = None) -> Any:
    """Elements at indices along an axis replaced by a number, or combined with it."""
    return _scattered(self, dim, index, value, reduce)


@aten("scatter_add.default")
def scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    """Elements at indices along an axis with others added."""
    return _scattered(self, dim, index, src, "add")


@aten("scatter_reduce.two")
def scatter_reduce(
    self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool
) -> Any:
    """Elements at indices along an axis combined with others."""
    if not include_self:
        raise IRTypeError("include_self=False is not supported")
    return _scattered(self, dim, index, src, reduce)


@aten("slice_scatter.default")
def slice_scatter(self: Any, src: Any, dim: int, start: Any, end: Any, step: Any) -> Any:
    """A tensor with others in the place of every `step`-th slice from `start` to `end`."""
    info = tensor_info(self)
    axis = axis_of(dim, info.ndim)
    is_whole = end is None or (isinstance(end, int) and end >= FAR)
    stop = number_of((info.shape or ())[axis]) if is_whole else end
    return op.slice_scatter(self, src, 0 if start is None else start, stop, step, axis)


@aten("select_scatter.default")
def select_scatter(self: Any, src: Any, dim: int, index: Any) -> Any:
    """A tensor with another in the place of one slice."""
    info = tensor_info(self)
    axis = axis_of(dim, info.ndim)
    if isinstance(index, int) and index < 0:
        index = ops.add((info.shape or ())[axis], index)
    end = ops.add(index, 1)
    return op.slice_scatter(self, op.expand_dims(src, axis), index, end, 1, axis)
