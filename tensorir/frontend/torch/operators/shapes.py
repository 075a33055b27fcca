"""Operators that change the shape of a tensor, or the order of its elements.

If torch reports the shape of a result, the converter produces that shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensorir.frontend.torch.dtypes import as_tensor, common_dtype, tensor_info
from tensorir.frontend.torch.table import aten
from tensorir.nodes import ops
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import ShapeExpr
from tensorir.relax.relations import is_base_of
from tensorir.relax.struct_info import TensorStructInfo, TupleStructInfo
from tensorir.topi.extents import of_sizes

FAR: Final = 2**62
"""A larger number means the end of an axis."""


def axis_of(axis: int, ndim: int) -> int:
    """Return an axis counted from the front."""
    return axis + max(ndim, 1) if axis < 0 else axis


def listed(value: Any) -> list[Any]:
    """Return a number, or numbers, as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def in_shape(x: Any, extents: Sequence[Any] | None) -> Any:
    """Return the elements in another known shape, whose extents may be 0."""
    assert extents is not None
    return op.reshape(x, ShapeExpr(extents))


@aten(
    "view.default",
    "_unsafe_view.default",
    "reshape.default",
    "flatten.using_ints",
    "unflatten.int",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze.default",
    "view_as.default",
    "reshape_as.default",
)
def reshape(self: Any, result: TensorStructInfo, **_: Any) -> Any:
    """The elements in the shape of the result."""
    return in_shape(self, result.shape)


@aten("expand.default", "expand_as.default", "broadcast_to.default")
def expand(self: Any, result: TensorStructInfo, **_: Any) -> Any:
    """The elements broadcast to the shape of the result."""
    return op.broadcast_to(self, result.shape)


@aten("permute.default")
def permute(self: Any, dims: Sequence[int]) -> Any:
    """Axes in another order."""
    ndim = tensor_info(self).ndim
    return op.permute_dims(self, [axis_of(d, ndim) for d in dims])


@aten("transpose.int", "swapdims.default")
def transpose(self: Any, dim0: int, dim1: int) -> Any:
    """Two axes swapped."""
    order = list(range(tensor_info(self).ndim))
    if not order:
        return self
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return op.permute_dims(self, order)


@aten("swapaxes.default")
def swapaxes(self: Any, axis0: int, axis1: int) -> Any:
    """Two axes swapped."""
    return transpose(self, axis0, axis1)


@aten("t.default", "mT.default")
def transposed(self: Any) -> Any:
    """The last two axes swapped."""
    ndim = tensor_info(self).ndim
    return self if ndim < 2 else transpose(self, -1, -2)


@aten("movedim.int", "moveaxis.int", "movedim.intlist", "moveaxis.intlist")
def movedim(self: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other positions; the other axes keep their order."""
    ndim = tensor_info(self).ndim
    moved = [axis_of(d, ndim) for d in listed(source)]
    places = dict(zip((axis_of(d, ndim) for d in listed(destination)), moved, strict=True))
    rest = iter(d for d in range(ndim) if d not in moved)
    return op.permute_dims(self, [places[k] if k in places else next(rest) for k in range(ndim)])


@aten("cat.default", "concat.default")
def cat(tensors: Sequence[Any], dim: int) -> Any:
    """Tensors concatenated along an axis."""
    dtype = common_dtype(*tensors)
    parts = [as_tensor(x, dtype) for x in tensors if not _is_legacy_empty(x)]
    return parts[0] if len(parts) == 1 else op.concat(parts, dim)


def _is_legacy_empty(tensor: Any) -> bool:
    """Return True if a tensor has the shape (0,), which `cat` ignores."""
    return tensor_info(tensor).static_shape == (0,)


@aten("stack.default")
def stack(tensors: Sequence[Any], dim: int) -> Any:
    """Tensors stacked along a new axis."""
    dtype = common_dtype(*tensors)
    ndim = tensor_info(tensors[0]).ndim + 1
    return op.stack([as_tensor(x, dtype) for x in tensors], axis_of(dim, ndim))


@aten(
    "split.Tensor",
    "split.sizes",
    "split_with_sizes.default",
    "split_with_sizes_copy.default",
    "split_copy.Tensor",
    "chunk.default",
    "tensor_split.indices",
    "tensor_split.sections",
    "unsafe_split.Tensor",
    "unsafe_chunk.default",
)
def split(self: Any, result: TupleStructInfo, dim: int = 0, **_: Any) -> Any:
    """Parts along an axis, of the lengths of the results."""
    axis = axis_of(dim, tensor_info(self).ndim)
    parts, begin = [], ops.as_expr(0)
    for info in result.elements:
        assert isinstance(info, TensorStructInfo)
        assert info.shape is not None
        end = ops.add(begin, info.shape[axis])
        parts.append(_between(self, axis, begin, end))
        begin = end
    return parts


@aten("unbind.int")
def unbind(self: Any, dim: int, result: TupleStructInfo) -> Any:
    """The slices along an axis, without it."""
    return [select(self, dim, k) for k in range(len(result))]


def _between(self: Any, axis: int, begin: Any, end: Any) -> Any:
    return op.strided_slice(self, [axis], [begin], [end])


@aten("slice.Tensor", "slice_copy.Tensor")
def slice_(self: Any, dim: int, start: Any, end: Any, step: Any, result: TensorStructInfo) -> Any:
    """Every `step`-th slice from `start` to `end`, which may lie beyond the axis."""
    info = tensor_info(self)
    assert info.shape is not None
    assert result.shape is not None
    axis = axis_of(dim, info.ndim)
    begin = 0 if start is None else start
    is_whole = end is None or (isinstance(end, int) and end >= FAR)
    stop = info.shape[axis] if is_whole else end
    if is_whole and _is(begin, 0) and _is(step, 1):
        return self
    sliced = op.strided_slice(self, [axis], [begin], [stop], [step])
    if is_base_of(result, sliced.struct_info) or not _is(step, 1):
        return sliced
    # The shapes that torch reports imply that the slice is in bounds.
    first = _from_front(begin, info.shape[axis])
    if first is None:
        return sliced
    last = ops.add(first, result.shape[axis])
    return op.strided_slice(self, [axis], [first], [last], assume_inbound=True)


def _from_front(index: Any, extent: PrimExpr) -> Any:
    """Return an index counted from the front, None if its sign is unknown."""
    if isinstance(index, int):
        return ops.add(extent, index) if index < 0 else index
    analyzer = of_sizes([extent, index])
    if analyzer.can_prove(index >= 0):
        return index
    return ops.add(extent, index) if analyzer.can_prove(index < 0) else None


def _is(value: Any, number: int) -> bool:
    return (value.value if isinstance(value, IntImm) else value) == number and (
        isinstance(value, (int, IntImm))
    )


@aten("select.int", "select_copy.int")
def select(self: Any, dim: int, index: Any) -> Any:
    """One slice along an axis, without the axis; a negative index counts from the end."""
    info = tensor_info(self)
    axis = axis_of(dim, info.ndim)
    if isinstance(index, int) and index < 0:
        assert info.shape is not None
        index = ops.add(info.shape[axis], index)
    end = ops.add(index, 1) if isinstance(index, PrimExpr) else index + 1
    return op.squeeze(_between(self, axis, index, end), axis)


@aten("narrow.default")
def narrow(self: Any, dim: int, start: Any, length: Any) -> Any:
    """`length` slices from `start` on."""
    axis = axis_of(dim, tensor_info(self).ndim)
    return _between(self, axis, start, ops.add(start, length))


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
    return op.repeat(self, repeats, axis_of(dim, tensor_info(self).ndim))


@aten("flip.default")
def flip(self: Any, dims: Sequence[int]) -> Any:
    """Axes reversed."""
    value = self
    for dim in dims:
        value = op.flip(value, axis_of(dim, tensor_info(self).ndim))
    return value


@aten("roll.default")
def roll(self: Any, shifts: Any, dims: Any, result: TensorStructInfo) -> Any:
    """Slices moved along axes; slices beyond the end move to the beginning."""
    if not listed(dims):
        flat = op.roll(op.flatten(self), listed(shifts), [0])
        return in_shape(flat, result.shape)
    axes = [axis_of(d, tensor_info(self).ndim) for d in listed(dims)]
    return op.roll(self, listed(shifts), axes)


@aten("tril.default")
def tril(self: Any, diagonal: Any) -> Any:
    """The lower triangle; the rest is 0."""
    return op.tril(self, diagonal)


@aten("triu.default")
def triu(self: Any, diagonal: Any) -> Any:
    """The upper triangle; the rest is 0."""
    return op.triu(self, diagonal)


@aten("pixel_shuffle.default")
def pixel_shuffle(self: Any, upscale_factor: int) -> Any:
    """Channels become blocks of pixels: (..., C * r * r, H, W) to (..., C, H * r, W * r)."""
    return op.nn.pixel_shuffle(self, upscale_factor)


@aten("pixel_unshuffle.default")
def pixel_unshuffle(self: Any, downscale_factor: int) -> Any:
    """Blocks of pixels become channels: (..., C, H * r, W * r) to (..., C * r * r, H, W)."""
    return op.nn.pixel_unshuffle(self, downscale_factor)


@aten("channel_shuffle.default", "native_channel_shuffle.default")
def channel_shuffle(self: Any, groups: int) -> Any:
    """The channels of all groups, interleaved."""
    return op.nn.channel_shuffle(self, groups)


@aten("unfold.default", "unfold_copy.default")
def unfold(self: Any, dimension: int, size: int, step: int, result: TensorStructInfo) -> Any:
    """Windows along an axis, as a last axis."""
    axis = axis_of(dimension, tensor_info(self).ndim)
    assert result.shape is not None
    starts = op.arange(0, ops.mul(result.shape[axis], step), step, "int64")
    offsets = op.arange(0, size, 1, "int64")
    places = op.expand_dims(starts, 1) + op.expand_dims(offsets, 0)
    windows = op.take(self, places, axis)
    order = [k for k in range(result.ndim) if k != axis + 1]
    return op.permute_dims(windows, [*order, axis + 1])


@aten("diagonal.default", "diagonal_copy.default")
def diagonal(self: Any, offset: int, dim1: int, dim2: int, result: TensorStructInfo) -> Any:
    """A diagonal of two axes, as a last axis."""
    info = tensor_info(self)
    first, second = axis_of(dim1, info.ndim), axis_of(dim2, info.ndim)
    order = [k for k in range(info.ndim) if k not in (first, second)]
    last = op.permute_dims(self, [*order, first, second])
    assert result.shape is not None
    assert info.shape is not None
    index = op.arange(0, result.shape[-1], 1, "int64")
    rows = index + max(-offset, 0)
    columns = index + max(offset, 0)
    flat = in_shape(last, [*result.shape[:-1], ops.mul(info.shape[first], info.shape[second])])
    width = as_tensor(info.shape[second], "int64")
    return op.take(flat, rows * width + columns, len(order))
