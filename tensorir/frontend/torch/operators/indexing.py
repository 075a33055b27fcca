"""Indexing, scattering, sorting and searching."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import (
    as_tensor,
    axis_of,
    dtype_of,
    in_shape,
    is_float,
    of_vectors,
    tensor_info,
)
from tensorir.frontend.torch.operators.shapes import (
    FAR,
    bounds_in_range,
    diagonal_places,
    has_number,
    strided_places,
)
from tensorir.frontend.torch.table import Match, aten, aten_rows
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import max_value, min_value
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import PrimStructInfo, TensorStructInfo
from tensorir.topi.broadcast import broadcast_shape


@aten("gather.default")
@of_vectors
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
    shape = broadcast_shape(*(tensor_info(x).shape or () for x in (self, mask)))
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
    first, *others = indices
    if first is not None and dtype_of(first) == "bool" and all(i is None for i in others):
        rest = (tensor_info(self).shape or ())[tensor_info(first).ndim :]
        mask = in_shape(first, [*(tensor_info(first).shape or ()), *[1] * len(rest)])
        if tensor_info(values).ndim <= len(rest):  # the same values for each position
            return op.where(mask, self + values if accumulate else values, self)
        own = (tensor_info(values).shape or ())[1:]
        if not accumulate and all(map(Analyzer().can_prove_equal, own, rest)):
            return masked_scatter(self, mask, values)
    if any(i is not None and dtype_of(i) == "bool" for i in indices):
        raise IRTypeError(
            "a bool index of several axes, or with values that are stretched or accumulated, is "
            "not supported"
        )
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
@of_vectors
def scatter_reduce(
    self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool
) -> Any:
    """Elements at indices along an axis, combined with the elements of `src`.

    Without `include_self`, an element at an index is combined with elements of `src` only.
    """
    dtype = dtype_of(self)
    begin = self if include_self else _scatter(self, dim, index, _neutral(reduce, dtype), None)
    if reduce != "mean":
        return _scatter(begin, dim, index, src, reduce)
    total = _scatter(begin, dim, index, src, "sum")
    own = op.full_like(self, as_tensor(int(include_self), dtype))
    count = op.maximum(_scatter(own, dim, index, 1, "sum"), as_tensor(1, dtype))
    return (op.divide if is_float(dtype) else op.floor_divide)(total, count)


def _neutral(reduce: str, dtype: str) -> Any:
    """Return the number that a reduction combines with any other number to the latter."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if is_float(dtype):
        return float("-inf" if reduce == "amax" else "inf")
    limit = min_value(dtype) if reduce == "amax" else max_value(dtype)
    assert isinstance(limit, IntImm)
    return limit.value


@aten("masked_scatter.default")
def masked_scatter(self: Any, mask: Any, source: Any) -> Any:
    """The elements where a mask is true replaced by the first elements of `source`, in order."""
    shape = tensor_info(self).shape or ()
    chosen = op.broadcast_to(mask, shape)
    number = op.cumsum(op.astype(op.flatten(chosen), "int64"), 0) - as_tensor(1, "int64")
    elements = op.take(op.flatten(source), in_shape(number, shape), 0, "clip")
    return op.where(chosen, elements, self)


@aten("diagonal_scatter.default")
def diagonal_scatter(self: Any, src: Any, offset: int, dim1: int, dim2: int) -> Any:
    """A tensor in which `src` replaces a diagonal of two axes."""
    first, second = axis_of(dim1, self), axis_of(dim2, self)
    rows, columns = diagonal_places(offset, (tensor_info(src).shape or ())[-1])
    # `src` has the diagonal last, the indexed elements first.
    last = tensor_info(src).ndim - 1
    updates = _permute_axes(src, [last, *range(last)])
    return op.index_put(self, [rows, columns], updates, False, [first, second])


@aten("as_strided_scatter.default")
def as_strided_scatter(
    self: Any, src: Any, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any
) -> Any:
    """A tensor in which `src` replaces elements at multiples of strides, as in `as_strided`."""
    places = strided_places(size, stride, storage_offset)
    return in_shape(op.index_put(op.flatten(self), [places], src), tensor_info(self).shape)


@aten("repeat_interleave.Tensor")
def repeat_interleave(repeats: Any, result: TensorStructInfo, matched: Match, **_: Any) -> Any:
    """Each index, as often as `repeats` has it."""
    assert result.shape is not None
    times = as_tensor(repeats, "int64")
    count = PrimStructInfo("int64", result.shape[0])
    matched(op.tensor_to_scalars(op.sum(times), 1)[0], count)
    positions = op.arange(0, result.shape[0], 1, "int64")
    return op.searchsorted(op.cumsum(times, 0), positions, False, True)


@aten("slice_scatter.default")
def slice_scatter(
    self: Any,
    src: Any,
    dim: int,
    start: Any,
    end: Any,
    step: Any,
    matched: Match,
    numbers: Collection[Var],
) -> Any:
    """A tensor in which `src` replaces every `step`-th slice from `start` to `end`."""
    info = tensor_info(self)
    axis = axis_of(dim, self)
    is_whole = end is None or (isinstance(end, int) and end >= FAR)
    extent = (info.shape or ())[axis]
    begin, stop = 0 if start is None else start, extent if is_whole else end
    if has_number((begin, stop), numbers):
        begin, stop = bounds_in_range(begin, stop, step, extent, matched)
    return op.slice_scatter(self, src, begin, stop, step, axis)


@aten("select_scatter.default")
def select_scatter(
    self: Any, src: Any, dim: int, index: Any, matched: Match, numbers: Collection[Var]
) -> Any:
    """A tensor in which `src` replaces one slice along an axis; a negative index counts from the
    end.
    """
    axis = axis_of(dim, self)
    if isinstance(index, PrimExpr):
        return index_put(self, [*[None] * axis, as_tensor(index, "int64")], src, matched)
    last = index + 1 or None
    return slice_scatter(self, op.expand_dims(src, axis), axis, index, last, 1, matched, numbers)


aten_rows(
    {
        "embedding.default": lambda weight, indices, **_: op.take(weight, indices, 0),
        "index_select.default": of_vectors(
            lambda self, dim, index: op.take(self, index, axis_of(dim, self))
        ),
        "scatter.src scatter.reduce": of_vectors(
            lambda self, dim, index, src, reduce=None: _scatter(self, dim, index, src, reduce)
        ),
        "scatter.value scatter.value_reduce": of_vectors(
            lambda self, dim, index, value, reduce=None: _scatter(self, dim, index, value, reduce)
        ),
        "scatter_add.default": of_vectors(
            lambda self, dim, index, src: _scatter(self, dim, index, src, "add")
        ),
        "topk.default": of_vectors(
            lambda self, k, dim, largest, **_: op.topk(
                self, k, axis_of(dim, self), "both", largest, "int64"
            )
        ),
        "sort.default sort.stable": of_vectors(
            lambda self, dim, descending, **_: (
                op.sort(self, axis_of(dim, self), descending),
                op.argsort(self, axis_of(dim, self), descending, "int64"),
            )
        ),
        "argsort.default argsort.stable": of_vectors(
            lambda self, dim, descending, **_: op.argsort(
                self, axis_of(dim, self), descending, "int64"
            )
        ),
        "bucketize.Tensor": lambda self, boundaries, out_int32, right: op.bucketize(
            self, boundaries, out_int32, right
        ),
        "searchsorted.Tensor": lambda sorted_sequence, self, out_int32, right, side: (
            op.searchsorted(sorted_sequence, self, out_int32, right or side == "right")
        ),
    }
)
