"""Channels converted to spatial positions, and the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import floordiv, floormod
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.relax.dimension_order import layout as order_of_layout
from tensorir.te.tensor import Tensor
from tensorir.topi.extents import as_divisor, check_rank, simplified
from tensorir.topi.nn.spatial import Layout


@operator("nn.depth_to_space", dimension_order=order_of_layout("layout"))
def depth_to_space(
    data: Tensor,
    block_size: int,
    layout: str = "NCHW",
    mode: Literal["DCR", "CRD"] = "DCR",
) -> Tensor:
    """Return an image with channels moved into blocks of `block_size` x `block_size` pixels.

    A channel number is `[block row, block column, channel]` (`DCR`), or `[channel, block row, block
    column]` (`CRD`).
    """
    axes = _image_axes(data, layout)
    return _blocks_spread("depth_to_space", data, axes, block_size, mode)


@operator("nn.space_to_depth", dimension_order=order_of_layout("layout"))
def space_to_depth(
    data: Tensor,
    block_size: int,
    layout: str = "NCHW",
    mode: Literal["DCR", "CRD"] = "DCR",
) -> Tensor:
    """Return an image with blocks of pixels moved into channels; inverse of `depth_to_space`."""
    axes = _image_axes(data, layout)
    return _blocks_gathered("space_to_depth", data, axes, block_size, mode)


@operator("nn.pixel_shuffle")
def pixel_shuffle(data: Tensor, upscale_factor: int) -> Tensor:
    """Return `data[..., c * f * f, h, w]` with channels as pixels: `[..., c, h * f, w * f]`.

    Shi et al., "Real-Time Single Image and Video Super-Resolution" (2016).
    """
    return _blocks_spread("pixel_shuffle", data, _last_axes(data), upscale_factor, "CRD")


@operator("nn.pixel_unshuffle")
def pixel_unshuffle(data: Tensor, downscale_factor: int) -> Tensor:
    """Return the inverse of `pixel_shuffle`."""
    return _blocks_gathered("pixel_unshuffle", data, _last_axes(data), downscale_factor, "CRD")


@operator("nn.channel_shuffle", dimension_order=order_of("axis"))
def channel_shuffle(data: Tensor, groups: int, axis: int = 1) -> Tensor:
    """Return `data` with the channels of its groups interleaved (Zhang et al., 2018)."""
    check_rank("data", data, max(data.ndim, 2))
    along = axis % data.ndim
    per_group = _quotient("the number of channels", data.shape[along], groups)

    def element(*indices: PrimExpr) -> PrimExpr:
        c = indices[along]
        channel = floormod(c, groups) * per_group + floordiv(c, groups)
        return data[(*indices[:along], channel, *indices[along + 1 :])]

    return te.compute(data.shape, element, name="channel_shuffle")


def _image_axes(data: Tensor, layout: str) -> list[int]:
    """Return the axes of channels, rows and columns in a layout."""
    places = Layout(layout, "NCHW", "layout")
    places.sizes(data, "data")
    return [places.text.index(letter) for letter in "CHW"]


def _last_axes(data: Tensor) -> list[int]:
    if data.ndim < 3:
        raise IRValueError(f"data must have at least 3 dimensions, got {data.ndim}")
    return [data.ndim - 3, data.ndim - 2, data.ndim - 1]


def _blocks_spread(name: str, data: Tensor, axes: Sequence[int], block: int, mode: str) -> Tensor:
    """Return an image with channels moved into blocks of pixels."""
    c, h, w = axes
    shape = list(data.shape)
    shape[c] = _quotient("the number of channels", shape[c], block * block)
    shape[h], shape[w] = shape[h] * block, shape[w] * block

    def element(*indices: PrimExpr) -> PrimExpr:
        at = list(indices)
        inner = floormod(at[h], block) * block + floormod(at[w], block)
        at[c] = inner * shape[c] + at[c] if mode == "DCR" else at[c] * (block * block) + inner
        at[h], at[w] = floordiv(at[h], block), floordiv(at[w], block)
        return data[tuple(at)]

    return te.compute(shape, element, name=name)


def _blocks_gathered(name: str, data: Tensor, axes: Sequence[int], block: int, mode: str) -> Tensor:
    """Return an image with blocks of pixels moved into channels."""
    c, h, w = axes
    area, channels, shape = block * block, data.shape[c], list(data.shape)
    shape[c] = channels * area
    for axis, letter in ((h, "H"), (w, "W")):
        shape[axis] = _quotient(f"the extent of {letter}", shape[axis], block)

    def element(*indices: PrimExpr) -> PrimExpr:
        at = list(indices)
        if mode == "DCR":
            divisor = as_divisor(channels)
            inner, at[c] = floordiv(at[c], divisor), floormod(at[c], divisor)
        else:
            inner, at[c] = floormod(at[c], area), floordiv(at[c], area)
        at[h] = at[h] * block + floordiv(inner, block)
        at[w] = at[w] * block + floormod(inner, block)
        return data[tuple(at)]

    return te.compute(shape, element, name=name)


def _quotient(what: str, extent: PrimExpr, divisor: int) -> PrimExpr:
    """Return an extent divided by a number. Raises IRValueError if it is not a multiple."""
    if divisor < 1:
        raise IRValueError(f"{what} cannot be divided by {divisor}")
    if isinstance(extent, IntImm) and extent.value % divisor:
        raise IRValueError(f"{what}, {extent.value}, is not a multiple of {divisor}")
    return simplified(floordiv(extent, divisor))
