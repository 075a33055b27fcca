"""Operators that change the shape of a tensor, or the order of its elements.

Where torch reports the shape of a result, the converter produces that shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensorir.frontend.torch.dtypes import (
    as_list,
    as_tensor,
    axis_of,
    common_dtype,
    in_shape,
    tensor_info,
)
from tensorir.frontend.torch.table import aten, aten_rows
from tensorir.nodes import ops
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.relations import is_base_of
from tensorir.relax.struct_info import TensorStructInfo, TupleStructInfo
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
    parts = [as_tensor(x, dtype) for x in tensors if not _is_legacy_empty(x)]
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
def slice_(self: Any, dim: int, start: Any, end: Any, step: Any, result: TensorStructInfo) -> Any:
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
    sliced = op.strided_slice(self, [axis], [begin], [stop], [step])
    if is_base_of(result, sliced.struct_info) or not _equals_number(step, 1):
        return sliced
    # The shapes that torch reports imply that the slice is in bounds.
    first = _from_front(begin, info.shape[axis])
    if first is None:
        return sliced
    last = ops.add(first, result.shape[axis])
    return op.strided_slice(self, [axis], [first], [last], assume_inbound=True)


def _from_front(index: Any, extent: PrimExpr) -> Any:
    """Return an index counted from the front; None if its sign is unknown."""
    if isinstance(index, int):
        return ops.add(extent, index) if index < 0 else index
    analyzer = size_analyzer([extent, index])
    if analyzer.can_prove(index >= 0):
        return index
    return ops.add(extent, index) if analyzer.can_prove(index < 0) else None


def _equals_number(value: Any, number: int) -> bool:
    return (value.value if isinstance(value, IntImm) else value) == number and (
        isinstance(value, (int, IntImm))
    )


@aten("select.int", "select_copy.int")
def select(self: Any, dim: int, index: Any) -> Any:
    """One slice along an axis, without the axis; a negative index counts from the end."""
    info = tensor_info(self)
    axis = axis_of(dim, self)
    if isinstance(index, int) and index < 0:
        assert info.shape is not None
        index = ops.add(info.shape[axis], index)
    end = ops.add(index, 1) if isinstance(index, PrimExpr) else index + 1
    return op.squeeze(_between(self, axis, index, end), axis)


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


@aten("diagonal.default", "diagonal_copy.default")
def diagonal(self: Any, offset: int, dim1: int, dim2: int, result: TensorStructInfo) -> Any:
    """A diagonal of two axes, as a last axis."""
    info = tensor_info(self)
    first, second = axis_of(dim1, self), axis_of(dim2, self)
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
        "narrow.default": lambda self, dim, start, length: _between(
            self, axis_of(dim, self), start, ops.add(start, length)
        ),
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
