"""Channels converted to spatial positions, and the reverse."""

from __future__ import annotations

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
    places = Layout(layout, "NCHW", "layout")
    size = places.sizes(data, "data")
    size["C"] = _quotient("the number of channels", size["C"], block_size * block_size)
    size["H"], size["W"] = size["H"] * block_size, size["W"] * block_size

    def element(*indices: PrimExpr) -> PrimExpr:
        at = places.named(indices)
        inner = floormod(at["H"], block_size) * block_size + floormod(at["W"], block_size)
        if mode == "DCR":
            channel = inner * size["C"] + at["C"]
        else:
            channel = at["C"] * (block_size * block_size) + inner
        rows, columns = floordiv(at["H"], block_size), floordiv(at["W"], block_size)
        return data[places.ordered({"N": at["N"], "C": channel, "H": rows, "W": columns})]

    return te.compute(places.ordered(size), element, name="depth_to_space")


@operator("nn.space_to_depth", dimension_order=order_of_layout("layout"))
def space_to_depth(
    data: Tensor,
    block_size: int,
    layout: str = "NCHW",
    mode: Literal["DCR", "CRD"] = "DCR",
) -> Tensor:
    """Return an image with blocks of pixels moved into channels; inverse of `depth_to_space`."""
    places = Layout(layout, "NCHW", "layout")
    size = places.sizes(data, "data")
    channels = size["C"]
    size["C"] = channels * (block_size * block_size)
    for x in "HW":
        size[x] = _quotient(f"the extent of {x}", size[x], block_size)

    def element(*indices: PrimExpr) -> PrimExpr:
        at = places.named(indices)
        if mode == "DCR":
            divisor = as_divisor(channels)
            inner, channel = floordiv(at["C"], divisor), floormod(at["C"], divisor)
        else:
            area = block_size * block_size
            inner, channel = floormod(at["C"], area), floordiv(at["C"], area)
        row = at["H"] * block_size + floordiv(inner, block_size)
        column = at["W"] * block_size + floormod(inner, block_size)
        return data[places.ordered({"N": at["N"], "C": channel, "H": row, "W": column})]

    return te.compute(places.ordered(size), element, name="space_to_depth")


@operator("nn.pixel_shuffle")
def pixel_shuffle(data: Tensor, upscale_factor: int) -> Tensor:
    """Return `data[..., c * f * f, h, w]` with channels as pixels: `[..., c, h * f, w * f]`.

    Shi et al., "Real-Time Single Image and Video Super-Resolution" (2016).
    """
    _check_image(data)
    f = upscale_factor
    *outer, channels, height, width = data.shape
    channels = _quotient("the number of channels", channels, f * f)

    def element(*indices: PrimExpr) -> PrimExpr:
        *at, c, y, x = indices
        channel = c * (f * f) + floormod(y, f) * f + floormod(x, f)
        return data[(*at, channel, floordiv(y, f), floordiv(x, f))]

    return te.compute([*outer, channels, height * f, width * f], element, name="pixel_shuffle")


@operator("nn.pixel_unshuffle")
def pixel_unshuffle(data: Tensor, downscale_factor: int) -> Tensor:
    """Return the inverse of `pixel_shuffle`."""
    _check_image(data)
    f = downscale_factor
    *outer, channels, height, width = data.shape
    height = _quotient("the height", height, f)
    width = _quotient("the width", width, f)

    def element(*indices: PrimExpr) -> PrimExpr:
        *at, c, y, x = indices
        inner = floormod(c, f * f)
        row, column = y * f + floordiv(inner, f), x * f + floormod(inner, f)
        return data[(*at, floordiv(c, f * f), row, column)]

    return te.compute([*outer, channels * (f * f), height, width], element, name="pixel_unshuffle")


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


def _check_image(data: Tensor) -> None:
    if data.ndim < 3:
        raise IRValueError(f"data must have at least 3 dimensions, got {data.ndim}")


def _quotient(what: str, extent: PrimExpr, divisor: int) -> PrimExpr:
    """Return an extent divided by a number; IRValueError if it is not a multiple."""
    if divisor < 1:
        raise IRValueError(f"{what} cannot be divided by {divisor}")
    if isinstance(extent, IntImm) and extent.value % divisor:
        raise IRValueError(f"{what}, {extent.value}, is not a multiple of {divisor}")
    return simplified(floordiv(extent, divisor))
