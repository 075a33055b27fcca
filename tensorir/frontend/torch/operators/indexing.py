"""Indexing, scattering, sorting and searching."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, axis_of, dtype_of, in_shape, tensor_info
from tensorir.frontend.torch.operators.shapes import FAR
from tensorir.frontend.torch.table import Match, aten, aten_rows
from tensorir.nodes.expr import PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo


@aten("gather.default")
def gather(self: Any, dim: int, index: Any, **_: Any) -> Any:
    """Elements at indices along an axis.

    An index applies to its own position along the other axes.
    """
    return op.gather_elements(self, index, axis_of(dim, self))


class _Places:
    """The order of axes in a tensor that is indexed, and in the result of indexing.

    `indices` has one index for each leading axis; None means the whole axis. The indices are
    broadcast together. If the indexed axes are adjacent, the axes of the indices replace them in
    the result; otherwise they come first.
    """

    def __init__(self, ndim: int, indices: Sequence[Any]) -> None:
        chosen = [k for k, i in enumerate(indices) if i is not None]
        self.indices = [as_tensor(indices[k], "int64") for k in chosen]
        self.axes = [*chosen, *(k for k in range(ndim) if k not in chosen)]
        """The axes of the tensor, indexed axes first."""
        are_together = chosen == list(range(chosen[0], chosen[-1] + 1))
        before = chosen[0] if are_together else 0
        own = range(before, before + max(tensor_info(i).ndim for i in self.indices))
        self.order = [*own, *(k for k in range(len(own) + ndim - len(chosen)) if k not in own)]
        """The axes of the result, axes of the indices first."""


def _permute_axes(value: Any, order: Sequence[int]) -> Any:
    return value if list(order) == sorted(order) else op.permute_dims(value, list(order))


def _inverse_permute(value: Any, order: Sequence[int]) -> Any:
    return _permute_axes(value, sorted(range(len(order)), key=lambda k: order[k]))


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(self: Any, indices: Sequence[Any], result: TensorStructInfo, matched: Match) -> Any:
    """Elements at indices, which are broadcast together; a bool index selects its true positions.

    The number of elements where a bool is true is a new symbolic size.
    """
    found = _integer_indices(indices, result.shape or (), matched)
    chosen = [k for k, i in enumerate(found) if i is not None]
    if len(chosen) == 1:
        return op.take(self, found[chosen[0]], chosen[0], "normalize")
    places = _Places(tensor_info(self).ndim, found)
    elements = op.index_tensor(_permute_axes(self, places.axes), places.indices)
    return _inverse_permute(elements, places.order)


def _integer_indices(
    indices: Sequence[Any], shape: Sequence[PrimExpr], matched: Match
) -> list[Any]:
    """Return indices without bools: a bool index of rank n becomes n integer indices."""
    created: list[Any] = []
    for k, i in enumerate(indices):
        if i is None or dtype_of(i) not in ("bool", "uint8"):
            created.append(i)
            continue
        if any(j is not None for j in (*indices[:k], *indices[k + 1 :])):
            raise IRTypeError("a bool index together with another index is not supported")
        rank = tensor_info(i).ndim
        found = matched(
            op.nonzero(as_tensor(i, "bool")), TensorStructInfo([rank, shape[k]], "int64")
        )
        created += [op.squeeze(op.strided_slice(found, [0], [j], [j + 1]), 0) for j in range(rank)]
    return created


@aten("nonzero.default")
def nonzero(self: Any, result: TensorStructInfo, matched: Match) -> Any:
    """The positions of nonzero elements, one row for each."""
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
    """Elements at indices replaced, or added to; see `index` for the indices."""
    first = indices[0]
    if first is not None and dtype_of(first) == "bool" and tensor_info(values).ndim == 0:
        missing = tensor_info(self).ndim - tensor_info(first).ndim
        mask = in_shape(first, [*(tensor_info(first).shape or ()), *[1] * missing])
        return op.where(mask, self + values if accumulate else values, self)
    if any(i is not None and dtype_of(i) == "bool" for i in indices):
        raise IRTypeError("a bool index with a tensor of several values is not supported")
    places = _Places(tensor_info(self).ndim, indices)
    updates = as_tensor(values, dtype_of(self))
    if places.order != sorted(places.order):
        missing = len(places.order) - tensor_info(values).ndim
        full = in_shape(updates, [*[1] * missing, *(tensor_info(values).shape or ())])
        updates = op.permute_dims(full, places.order)
    axes = places.axes[: len(places.indices)]
    return op.index_put(self, places.indices, updates, bool(accumulate), axes)


_REDUCTIONS: Final = {
    None: "update",
    "add": "add",
    "sum": "add",
    "multiply": "mul",
    "prod": "mul",
    "amax": "max",
    "amin": "min",
}


def _scatter(self: Any, dim: int, index: Any, src: Any, reduce: str | None) -> Any:
    """Return a tensor with values at indices along an axis; `src` may be larger than `index`."""
    if reduce not in _REDUCTIONS:
        raise IRTypeError(f"a reduction by {reduce} is not supported")
    axis = axis_of(dim, self)
    shape = list(tensor_info(index).shape or ())
    if isinstance(src, GraphExpr):
        axes = list(range(len(shape)))
        updates = op.strided_slice(src, axes, [0] * len(axes), shape)
    else:
        updates = op.full(shape, as_tensor(src, dtype_of(self)), dtype_of(self))
    return op.scatter_elements(self, index, updates, axis, _REDUCTIONS[reduce])


@aten("scatter_reduce.two")
def scatter_reduce(
    self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool
) -> Any:
    """Elements at indices along an axis, combined with the elements of `src`."""
    if not include_self:
        raise IRTypeError("include_self=False is not supported")
    return _scatter(self, dim, index, src, reduce)


@aten("slice_scatter.default")
def slice_scatter(self: Any, src: Any, dim: int, start: Any, end: Any, step: Any) -> Any:
    """A tensor in which `src` replaces every `step`-th slice from `start` to `end`."""
    info = tensor_info(self)
    axis = axis_of(dim, self)
    is_whole = end is None or (isinstance(end, int) and end >= FAR)
    stop = (info.shape or ())[axis] if is_whole else end
    return op.slice_scatter(self, src, 0 if start is None else start, stop, step, axis)


aten_rows(
    {
        "embedding.default": lambda weight, indices, **_: op.take(weight, indices, 0),
        "index_select.default": lambda self, dim, index: op.take(self, index, axis_of(dim, self)),
        "scatter.src scatter.reduce": lambda self, dim, index, src, reduce=None: _scatter(
            self, dim, index, src, reduce
        ),
        "scatter.value scatter.value_reduce": lambda self, dim, index, value, reduce=None: _scatter(
            self, dim, index, value, reduce
        ),
        "scatter_add.default": lambda self, dim, index, src: _scatter(self, dim, index, src, "add"),
        "topk.default": lambda self, k, dim, largest, **_: op.topk(
            self, k, axis_of(dim, self), "both", largest, "int64"
        ),
        "sort.default sort.stable": lambda self, dim, descending, **_: (
            op.sort(self, axis_of(dim, self), descending),
            op.argsort(self, axis_of(dim, self), descending, "int64"),
        ),
        "argsort.default argsort.stable": lambda self, dim, descending, **_: op.argsort(
            self, axis_of(dim, self), descending, "int64"
        ),
        "bucketize.Tensor": lambda self, boundaries, out_int32, right: op.bucketize(
            self, boundaries, out_int32, right
        ),
        "searchsorted.Tensor": lambda sorted_sequence, self, out_int32, right, side: (
            op.searchsorted(sorted_sequence, self, out_int32, right or side == "right")
        ),
    }
)
