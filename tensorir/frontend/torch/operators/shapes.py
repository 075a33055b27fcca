"""Operators that change the shape of a tensor, or the order of its elements.

Where torch reports the shape of a result, the converter produces that shape.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from tensorir.frontend.torch.dtypes import (
    as_list,
    as_tensor,
    axis_of,
    common_dtype,
    in_shape,
    tensor_info,
)
from tensorir.frontend.torch.table import Match, aten, aten_rows
from tensorir.nodes import ops
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.relax import op
from tensorir.relax.relations import is_base_of
from tensorir.relax.struct_info import PrimStructInfo, TensorStructInfo, TupleStructInfo
from tensorir.rewriting.visit import collect_vars
from tensorir.topi.extents import size_analyzer

FAR: Final = 2**62
"""A larger bound of a slice means the end of the axis."""


def _transposed(self: Any, dim0: int, dim1: int) -> Any:
    """Two axes swapped."""
    order = list(range(tensor_info(self).ndim))
    if not order:
        return self
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return op.permute_dims(self, order)


@aten("cat.default", "concat.default")
def cat(tensors: Sequence[Any], dim: int) -> Any:
    """Tensors concatenated along an axis."""
    dtype = common_dtype(*tensors)
    kept = [x for x in tensors if not _is_legacy_empty(x)] or tensors[:1]
    parts = [as_tensor(x, dtype) for x in kept]
    return parts[0] if len(parts) == 1 else op.concat(parts, dim)


def _is_legacy_empty(tensor: Any) -> bool:
    """Return True if a tensor has the shape (0,), which `cat` ignores."""
    return tensor_info(tensor).static_shape == (0,)


@aten("stack.default")
def stack(tensors: Sequence[Any], dim: int) -> Any:
    """Tensors stacked along a new axis."""
    dtype = common_dtype(*tensors)
    axis = dim + tensor_info(tensors[0]).ndim + 1 if dim < 0 else dim
    return op.stack([as_tensor(x, dtype) for x in tensors], axis)


def _split(self: Any, result: TupleStructInfo, dim: int = 0, **_: Any) -> Any:
    """Parts along an axis, with the lengths that torch reports for the results."""
    axis = axis_of(dim, self)
    parts, begin = [], ops.as_expr(0)
    for info in result.elements:
        assert isinstance(info, TensorStructInfo)
        assert info.shape is not None
        end = ops.add(begin, info.shape[axis])
        parts.append(_between(self, axis, begin, end))
        begin = end
    return parts


def _between(self: Any, axis: int, begin: Any, end: Any) -> Any:
    return op.strided_slice(self, [axis], [begin], [end])


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(
    self: Any,
    dim: int,
    start: Any,
    end: Any,
    step: Any,
    result: TensorStructInfo,
    matched: Match,
    numbers: Collection[Var],
) -> Any:
    """Every `step`-th slice from `start` to `end`, which may lie beyond the axis."""
    info = tensor_info(self)
    assert info.shape is not None
    assert result.shape is not None
    axis = axis_of(dim, self)
    begin = 0 if start is None else start
    is_whole = end is None or (isinstance(end, int) and end >= FAR)
    stop = info.shape[axis] if is_whole else end
    if is_whole and _equals_number(begin, 0) and _equals_number(step, 1):
        return self
    bounds = ops.as_expr(begin), ops.as_expr(stop)
    if not has_number(bounds, numbers):
        sliced = op.strided_slice(self, [axis], [begin], [stop], [step])
        if is_base_of(result, sliced.struct_info) or not _equals_number(step, 1):
            return sliced
    # The shapes that torch reports imply that the slice is in bounds, unless its length is a symbol
    # that the slice defines.
    first, length = _from_front(begin, info.shape[axis], numbers), result.shape[axis]
    known = {var for n in (*info.shape, *bounds) for var in collect_vars(n)}
    if _equals_number(step, 1) and first is not None and known.issuperset(collect_vars(length)):
        begin, stop = first, ops.add(first, length)
    else:
        begin, stop = bounds_in_range(begin, stop, step, info.shape[axis], matched)
    return op.strided_slice(self, [axis], [begin], [stop], [step], assume_inbound=True)


def has_number(bounds: Iterable[Any], numbers: Collection[Var]) -> bool:
    """Return True if a bound contains one of `numbers`, which may be negative."""
    return any(var in numbers for n in bounds for var in collect_vars(ops.as_expr(n)))


def bounds_in_range(
    begin: Any, end: Any, step: int, extent: PrimExpr, matched: Match
) -> tuple[Var, Var]:
    """Return new variables for the begin and the end of a slice, which the model computes.

    They are counted from the front and in range.
    """
    first, last = (op.shape_to_tensor([bound]) for bound in (begin, end))
    bounds = op.slice_bounds(first, last, [extent], [step])
    found = Var("begin", "int64"), Var("end", "int64")
    matched(
        op.tensor_to_scalars(bounds, 2),
        TupleStructInfo([PrimStructInfo("int64", bound) for bound in found]),
    )
    return found


def _from_front(index: Any, extent: PrimExpr, numbers: Collection[Var] = ()) -> Any:
    """Return an index counted from the front; None if its sign is unknown."""
    if isinstance(index, int):
        return ops.add(extent, index) if index < 0 else index
    analyzer = size_analyzer([extent, index], numbers=numbers)
    if analyzer.can_prove(index >= 0):
        return index
    return ops.add(extent, index) if analyzer.can_prove(index < 0) else None


def _equals_number(value: Any, number: int) -> bool:
    return (value.value if isinstance(value, IntImm) else value) == number and (
        isinstance(value, (int, IntImm))
    )


@aten("select.int", "select_copy.int")
def select(self: Any, dim: int, index: Any, numbers: Collection[Var] = ()) -> Any:
    """One slice along an axis, without the axis; a negative index counts from the end."""
    info = tensor_info(self)
    assert info.shape is not None
    axis = axis_of(dim, self)
    first = _from_front(index, info.shape[axis], numbers)
    if first is None:
        return op.take(self, as_tensor(index, "int64"), axis, "normalize")
    return op.squeeze(_between(self, axis, first, ops.add(first, 1)), axis)


@aten("narrow.default")
def narrow(self: Any, dim: int, start: Any, length: Any, numbers: Collection[Var]) -> Any:
    """A part of an axis; a negative start counts from the end."""
    info = tensor_info(self)
    assert info.shape is not None
    axis = axis_of(dim, self)
    first = _from_front(start, info.shape[axis], numbers)
    if first is None:
        extent = as_tensor(info.shape[axis], "int64")
        places = op.floor_mod(as_tensor(start, "int64"), extent) + op.arange(0, length, 1, "int64")
        return op.take(self, places, axis)
    return _between(self, axis, first, ops.add(first, length))


@aten("repeat.default", "tile.default")
def repeat(self: Any, result: TensorStructInfo, repeats: Any = None, dims: Any = None) -> Any:
    """The whole tensor repeated along each axis."""
    times = repeats if dims is None else dims
    missing = result.ndim - len(times)
    return op.tile(self, [1] * missing + list(times))


@aten("repeat_interleave.self_int")
def repeat_interleave(self: Any, repeats: Any, dim: int | None) -> Any:
    """Each slice repeated along an axis."""
    if dim is None:
        return op.repeat(op.flatten(self), repeats, 0)
    return op.repeat(self, repeats, axis_of(dim, self))


@aten("flip.default")
def flip(self: Any, dims: Sequence[int]) -> Any:
    """Axes reversed."""
    value = self
    for dim in dims:
        value = op.flip(value, axis_of(dim, self))
    return value


@aten("roll.default")
def roll(self: Any, shifts: Any, dims: Any, result: TensorStructInfo) -> Any:
    """Slices moved along axes; slices beyond the end move to the beginning."""
    if not as_list(dims):
        flat = op.roll(op.flatten(self), as_list(shifts), [0])
        return in_shape(flat, result.shape)
    axes = [axis_of(d, self) for d in as_list(dims)]
    return op.roll(self, as_list(shifts), axes)


@aten("unfold.default", "unfold_copy.default")
def unfold(self: Any, dimension: int, size: int, step: int, result: TensorStructInfo) -> Any:
    """Windows along an axis, as a last axis."""
    axis = axis_of(dimension, self)
    assert result.shape is not None
    starts = op.arange(0, ops.mul(result.shape[axis], step), step, "int64")
    offsets = op.arange(0, size, 1, "int64")
    places = op.expand_dims(starts, 1) + op.expand_dims(offsets, 0)
    windows = op.take(self, places, axis)
    order = [k for k in range(result.ndim) if k != axis + 1]
    return op.permute_dims(windows, [*order, axis + 1])


def strided_places(size: Sequence[Any], stride: Sequence[Any], offset: Any) -> Any:
    """Return indices into a flat tensor: an offset plus multiples of strides."""
    places: Any = as_tensor(offset or 0, "int64")
    for axis, (extent, step) in enumerate(zip(size, stride, strict=True)):
        own = op.arange(0, extent, 1, "int64") * as_tensor(step, "int64")
        places = places + op.reshape(own, [1] * axis + [-1] + [1] * (len(size) - axis - 1))
    return places


@aten("as_strided.default")
def as_strided(
    self: Any, size: Sequence[Any], stride: Sequence[Any], storage_offset: Any, **_: Any
) -> Any:
    """Elements at multiples of strides, counted in elements of a contiguous tensor."""
    return op.take(op.flatten(self), strided_places(size, stride, storage_offset), 0)


def diagonal_places(offset: int, length: PrimExpr) -> tuple[Any, Any]:
    """Return the rows and the columns of the elements of a diagonal."""
    index = op.arange(0, length, 1, "int64")
    return index + max(-offset, 0), index + max(offset, 0)


@aten("diagonal.default", "diagonal_copy.default")
def diagonal(self: Any, offset: int, dim1: int, dim2: int, result: TensorStructInfo) -> Any:
    """A diagonal of two axes, as a last axis."""
    info = tensor_info(self)
    first, second = axis_of(dim1, self), axis_of(dim2, self)
    order = [k for k in range(info.ndim) if k not in (first, second)]
    last = op.permute_dims(self, [*order, first, second])
    assert result.shape is not None
    assert info.shape is not None
    rows, columns = diagonal_places(offset, result.shape[-1])
    flat = in_shape(last, [*result.shape[:-1], ops.mul(info.shape[first], info.shape[second])])
    width = as_tensor(info.shape[second], "int64")
    return op.take(flat, rows * width + columns, len(order))


_RESHAPED: Final = (
    "view.default _unsafe_view.default reshape.default flatten.using_ints unflatten.int "
    "squeeze.default squeeze.dim squeeze.dims unsqueeze.default view_as.default reshape_as.default"
)
_SPLIT: Final = (
    "split.Tensor split.sizes split_with_sizes.default split_with_sizes_copy.default "
    "split_copy.Tensor chunk.default tensor_split.indices tensor_split.sections "
    "unsafe_split.Tensor unsafe_chunk.default"
)
aten_rows(
    {
        _RESHAPED: lambda self, result, **_: in_shape(self, result.shape),
        "expand.default expand_as.default broadcast_to.default": lambda self, result, **_: (
            op.broadcast_to(self, result.shape)
        ),
        "permute.default": lambda self, dims: op.permute_dims(
            self, [axis_of(d, self) for d in dims]
        ),
        "transpose.int swapdims.default": lambda self, dim0, dim1: _transposed(self, dim0, dim1),
        "swapaxes.default": lambda self, axis0, axis1: _transposed(self, axis0, axis1),
        "numpy_T.default": lambda self: op.permute_dims(self),
        "t.default mT.default": lambda self: (
            self if tensor_info(self).ndim < 2 else _transposed(self, -1, -2)
        ),
        _SPLIT: _split,
        "unbind.int": lambda self, dim, result: [select(self, dim, k) for k in range(len(result))],
        "tril.default": lambda self, diagonal: op.tril(self, diagonal),
        "triu.default": lambda self, diagonal: op.triu(self, diagonal),
        "pixel_shuffle.default": lambda self, upscale_factor: op.nn.pixel_shuffle(
            self, upscale_factor
        ),
        "pixel_unshuffle.default": lambda self, downscale_factor: op.nn.pixel_unshuffle(
            self, downscale_factor
        ),
        "channel_shuffle.default native_channel_shuffle.default": lambda self, groups: (
            op.nn.channel_shuffle(self, groups)
        ),
    }
)
