"""Normalisation: elements minus their mean, divided by their standard deviation.

The mean is subtracted before squares are added (two passes), so a large mean loses no precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IterVar, PrimExpr
from tensorir.nodes.ops import as_expr, cast, const, div, floordiv
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.relax.expr import GraphCall
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import convert_dtype, sum_dtype
from tensorir.topi.extents import (
    as_divisor,
    axes_of,
    axis_of,
    check_equal,
    check_floats,
    check_rank,
    known_extent,
    product,
)


def _order_of_axis(call: GraphCall, order: tuple[int, ...]) -> Mapping[str, Any] | None:
    """Return the attributes of a norm over one axis for another dimension order.

    A norm over several axes is not supported, because its weights would have to be permuted.
    """
    given = call.attrs["axes"]
    axes = (given,) if isinstance(given, int) else given
    return {"axes": order.index(axes[0] % len(order))} if len(axes) == 1 else None


def _order_of_channels(call: GraphCall, order: tuple[int, ...]) -> Mapping[str, Any]:
    """Return the attributes of a norm with weights for channels, for another dimension order."""
    rank = len(order)
    channel = call.attrs["channel_axis"] % rank
    given = call.attrs["axes"]
    over = _axes_after_channels(rank, channel) if given is None else axes_of(given, rank)
    return {
        "channel_axis": order.index(channel),
        "axes": tuple(sorted(order.index(axis) for axis in over)),
    }


def _axes_after_channels(rank: int, channel: int) -> tuple[int, ...]:
    """Return the axes after batch and channels."""
    return tuple(axis for axis in range(1, rank) if axis != channel)


@operator("nn.layer_norm", dimension_order=_order_of_axis)
def layer_norm(
    data: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axes: int | Sequence[int] = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Tensor:
    """Return `(data - mean) / sqrt(variance + epsilon) * gamma + beta`, statistics over axes.

    `gamma` and `beta` have the extents of the axes. `center` adds `beta`, `scale` multiplies by
    `gamma`.
    """
    check_floats("data", data)
    over = axes_of(axes, data.ndim)
    for name, tensor in (("gamma", gamma), ("beta", beta)):
        _check_weights(name, tensor, [data.shape[a] for a in over])
    at = lambda i: tuple(i[a] for a in over)  # noqa: E731
    statistics = _Statistics(data, over)
    return statistics.normalized(
        "T_layer_norm", epsilon, gamma if scale else None, beta if center else None, at
    )


@operator("nn.instance_norm", dimension_order=_order_of_channels)
def instance_norm(
    data: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    channel_axis: int = 1,
    axes: int | Sequence[int] | None = None,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Tensor:
    """Return `data` normalised over axes, by default all after batch and channels.

    `gamma` and `beta` have a number for each channel.
    """
    return _by_channel(
        "T_instance_norm", data, gamma, beta, channel_axis, axes, epsilon, center, scale
    )


@operator("nn.group_norm", dimension_order=_order_of_channels)
def group_norm(
    data: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    num_groups: int = 1,
    channel_axis: int = 1,
    axes: int | Sequence[int] | None = None,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Tensor:
    """Return `data` normalised over groups of channels and over axes, by default all after the
    channels.

    `gamma` and `beta` have a number for each channel.
    """
    return _by_channel(
        "T_group_norm", data, gamma, beta, channel_axis, axes, epsilon, center, scale, num_groups
    )


def _by_channel(
    name: str,
    data: Tensor,
    gamma: Tensor | None,
    beta: Tensor | None,
    channel_axis: int,
    axes: int | Sequence[int] | None,
    epsilon: float,
    center: bool,
    scale: bool,
    groups: int | None = None,
) -> Tensor:
    """Return a norm with weights for channels; with `groups`, its statistics include channels."""
    check_floats("data", data)
    channel = axis_of(channel_axis, data.ndim)
    over = _axes_after_channels(data.ndim, channel) if axes is None else axes_of(axes, data.ndim)
    statistics = _Statistics(data, over)
    if groups is not None:
        channels = known_extent(data.shape[channel], "the number of channels")
        if groups < 1 or channels % groups:
            raise IRValueError(f"{channels} channels cannot be divided into {groups} groups")
        statistics = _Statistics(data, over, channel, groups)
    for weights, tensor in (("gamma", gamma), ("beta", beta)):
        _check_weights(weights, tensor, [data.shape[channel]])
    return statistics.normalized(
        name,
        epsilon,
        gamma if scale else None,
        beta if center else None,
        lambda i: (i[channel],),
    )


@operator("nn.rms_norm", dimension_order=_order_of_axis)
def rms_norm(
    data: Tensor,
    weight: Tensor | None = None,
    axes: int | Sequence[int] = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Return `data / sqrt(mean of squares + epsilon) * weight`, the mean over axes.

    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
    """
    check_floats("data", data)
    over = axes_of(axes, data.ndim)
    _check_weights("weight", weight, [data.shape[a] for a in over])
    statistics = _Statistics(data, over)
    dtype = statistics.dtype
    square = statistics.mean("T_rms_norm", lambda v, _: v * v)

    def element(*indices: PrimExpr) -> PrimExpr:
        deviation = te.sqrt(square[statistics.kept(indices)] + const(epsilon, dtype))
        value: PrimExpr = cast(dtype, data[indices]) / deviation
        if weight is not None:
            value = value * cast(dtype, weight[tuple(indices[a] for a in over)])
        return value

    return convert_dtype(te.compute(data.shape, element, name="T_rms_norm"), data.dtype)


@operator("nn.lrn", dimension_order=order_of("axis"))
def lrn(
    data: Tensor,
    size: int,
    axis: int = 1,
    bias: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
) -> Tensor:
    """Return `data / (bias + alpha / size * s) ** beta`.

    `s` is the sum of `size` neighbours' squares. Neighbours are along an axis; `(size - 1) // 2` of
    them precede an element (Krizhevsky et al., 2012).
    """
    check_floats("data", data)
    if size < 1:
        raise IRValueError(f"size must be at least 1, got {size}")
    along = axis_of(axis, data.ndim)
    dtype = sum_dtype(data.dtype)
    k = te.reduce_axis((0, size), "k")

    def squares(*indices: PrimExpr) -> PrimExpr:
        place = list(indices)
        place[along] = indices[along] + k.var - (size - 1) // 2
        value = cast(dtype, data[tuple(place)])
        inside = te.all(place[along] >= 0, place[along] < data.shape[along])
        return te.sum(value * value, axis=k, where=inside)

    total = te.compute(data.shape, squares, name="T_lrn_sum")

    def element(*indices: PrimExpr) -> PrimExpr:
        divisor = const(bias, dtype) + const(alpha / size, dtype) * total[indices]
        result: PrimExpr = cast(dtype, data[indices]) / te.power(divisor, const(beta, dtype))
        return result

    return convert_dtype(te.compute(data.shape, element, name="T_lrn"), data.dtype)


def _check_weights(name: str, tensor: Tensor | None, shape: Sequence[PrimExpr]) -> None:
    """Raise IRValueError if given weights have another shape."""
    if tensor is None:
        return
    check_rank(name, tensor, len(shape))
    for k, (extent, wanted) in enumerate(zip(tensor.shape, shape, strict=True)):
        check_equal(extent, f"dimension {k} of {name}", wanted, "that of the data")


class _Statistics:
    """Means over axes of a tensor, and optionally over groups of channels."""

    def __init__(
        self, data: Tensor, over: Sequence[int], channel: int | None = None, groups: int = 1
    ) -> None:
        self.data, self.over, self.channel = data, tuple(over), channel
        self.dtype = sum_dtype(data.dtype)
        self.outer = [a for a in range(data.ndim) if a not in over]
        self.shape = [data.shape[a] for a in self.outer]
        self.axes = {a: te.reduce_axis((0, data.shape[a]), f"k{a}") for a in over}
        if channel is not None:
            per_group = floordiv(data.shape[channel], groups)
            self.per_group = per_group
            self.shape[self.outer.index(channel)] = const(groups, per_group.dtype)
            self.axes = {channel: te.reduce_axis((0, per_group), "kc"), **self.axes}
        extents = [axis.dom.extent for axis in self.axes.values() if axis.dom is not None]
        self.count = cast(self.dtype, as_expr(product(extents)))

    def kept(self, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        """Return the indices of the mean for an element."""
        return tuple(
            floordiv(indices[a], as_divisor(self.per_group)) if a == self.channel else indices[a]
            for a in self.outer
        )

    def mean(
        self, name: str, function: Callable[[PrimExpr, Sequence[PrimExpr]], PrimExpr]
    ) -> Tensor:
        """Return the mean of `function(element, indices of the mean)`."""

        def term(*indices: PrimExpr) -> PrimExpr:
            place: list[PrimExpr] = list(self.data.shape)
            for a, i in zip(self.outer, indices, strict=True):
                place[a] = i
            for a, axis in self.axes.items():
                inner = axis.var
                place[a] = place[a] * self.per_group + inner if a == self.channel else inner
            value = cast(self.dtype, self.data[tuple(place)])
            reduced: list[IterVar] = [self.axes[a] for a in sorted(self.axes)]
            return te.sum(function(value, indices), axis=reduced)

        total = te.compute(self.shape, term, name=f"{name}_red")
        return te.compute(
            self.shape, lambda *i: div(total[i], self.count), name=f"{name}_divide"
        )  # fmt: skip

    def normalized(
        self,
        name: str,
        epsilon: float,
        gamma: Tensor | None,
        beta: Tensor | None,
        weight_at: Callable[[Sequence[PrimExpr]], tuple[PrimExpr, ...]],
    ) -> Tensor:
        """Return the elements minus their mean, divided by the deviation, weighted."""
        if not self.axes:
            raise IRValueError("axes must not be empty")
        dtype = self.dtype
        mean = self.mean(f"{name}_mean", lambda v, _: v)
        variance = self.mean(
            f"{name}_var", lambda v, at: (v - mean[tuple(at)]) * (v - mean[tuple(at)])
        )

        def element(*indices: PrimExpr) -> PrimExpr:
            at = self.kept(indices)
            value = cast(dtype, self.data[indices]) - mean[at]
            value = value / te.sqrt(variance[at] + const(epsilon, dtype))
            if gamma is not None:
                value = value * cast(dtype, gamma[weight_at(indices)])
            if beta is not None:
                value = value + cast(dtype, beta[weight_at(indices)])
            result: PrimExpr = value
            return result

        return convert_dtype(te.compute(self.data.shape, element, name=name), self.data.dtype)
