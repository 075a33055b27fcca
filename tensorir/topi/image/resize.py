"""Resizing of images, and of any axes of a tensor, one axis after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import floor
from typing import Literal, NamedTuple

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.dtype import FLOAT32, DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import add, as_expr, cast, const
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.relax.dimension_order import layout as order_of_layout
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import sum_dtype
from tensorir.topi.extents import (
    check_equal,
    check_floats,
    check_rank,
    each_axis_of,
    extent_text,
)
from tensorir.topi.image.coordinates import (
    Coordinates,
    MeasuredCoordinates,
    Places,
    Rounding,
    Transformation,
)
from tensorir.topi.nn.spatial import SPATIAL, Layout, each_rank


@operator("image.resize", dimension_order=order_of("axes"))
def resize(
    data: Tensor,
    size: Sequence[PrimExpr],
    axes: Sequence[int],
    roi: Sequence[float] | None = None,
    scales: Sequence[float] | None = None,
    method: Literal["nearest_neighbor", "linear", "cubic"] = "linear",
    coordinate_transformation_mode: Transformation = "half_pixel",
    rounding_method: Rounding = "round",
    cubic_alpha: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    out_dtype: str | None = None,
) -> Tensor:
    """Return `data` with some of its axes resized to `size`.

    Coordinates are as in ONNX: `scales` are the ratios of lengths if they differ from the ratios of
    the sizes. `roi` has the starts of the axes, followed by their ends, for `tf_crop_and_resize`,
    which returns `extrapolation_value` outside. Positions beyond an end use the element at the end,
    or have no weight if `exclude_outside`. With `antialias`, elements are weighted over a wider
    range if an axis gets shorter.
    """
    places = each_axis_of(axes, data.ndim)
    for name, values in (("size", size), ("scales", scales)):
        if values is not None and len(values) != len(places):
            raise IRValueError(f"{name} must have {len(places)} numbers, got {len(values)}")
    if roi is not None and len(roi) != 2 * len(places):
        raise IRValueError(f"roi must have {2 * len(places)} numbers, got {len(roi)}")
    coordinates: dict[int, Places] = {
        axis: Coordinates.of(
            coordinate_transformation_mode,
            data.shape[axis],
            as_expr(size[k]),
            None if scales is None else scales[k],
            None if roi is None else (roi[k], roi[k + len(places)]),
        )
        for k, axis in enumerate(places)
    }
    kind = _Kind(method, rounding_method or "round", cubic_alpha, exclude_outside, antialias)
    outside = (
        extrapolation_value if coordinate_transformation_mode == "tf_crop_and_resize" else None
    )
    return _resize(data, coordinates, size, kind, outside, out_dtype)


@operator("image.dynamic_resize", dimension_order=order_of("axes"))
def dynamic_resize(
    data: Tensor,
    size: Sequence[PrimExpr],
    scales: Tensor | None = None,
    roi: Tensor | None = None,
    axes: Sequence[int] = (),
    method: Literal["nearest_neighbor", "linear", "cubic"] = "linear",
    coordinate_transformation_mode: Transformation = "half_pixel",
    rounding_method: Rounding = "round",
    cubic_alpha: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
) -> Tensor:
    """Return the result of `image.resize` with scales and roi that are tensors."""
    places = each_axis_of(axes, data.ndim)
    for name, tensor, count in (("scales", scales, 1), ("roi", roi, 2)):
        if tensor is not None:
            check_rank(name, tensor, 1)
            check_equal(
                tensor.shape[0], f"the length of {name}", as_expr(count * len(places)), "needed"
            )
            check_floats(name, tensor)
    if len(size) != len(places):
        raise IRValueError(f"size must have {len(places)} numbers, got {len(size)}")

    def number(tensor: Tensor, k: int) -> PrimExpr:
        return cast(FLOAT32, tensor[const(k, "int64")])

    coordinates: dict[int, Places] = {
        axis: MeasuredCoordinates.of(
            coordinate_transformation_mode,
            data.shape[axis],
            as_expr(size[k]),
            None if scales is None else number(scales, k),
            None if roi is None else (number(roi, k), number(roi, k + len(places))),
        )
        for k, axis in enumerate(places)
    }
    kind = _Kind(method, rounding_method or "round", cubic_alpha, exclude_outside, False)
    outside = (
        extrapolation_value if coordinate_transformation_mode == "tf_crop_and_resize" else None
    )
    return _resize(data, coordinates, size, kind, outside, out_dtype)


class _Kind(NamedTuple):
    """The interpolation of elements from their neighbours."""

    method: str
    rounding: str
    cubic_alpha: float
    exclude_outside: bool
    antialias: bool


def _resize(
    data: Tensor,
    coordinates: Mapping[int, Places],
    size: Sequence[PrimExpr],
    kind: _Kind,
    outside: float | None,
    out_dtype: str | None,
) -> Tensor:
    """Return the resized tensor, with the number `outside` at positions beyond the original."""
    dtype = DataType(out_dtype) if out_dtype else data.dtype
    counts = {axis: as_expr(n) for axis, n in zip(coordinates, size, strict=True)}
    if kind.method == "nearest_neighbor":
        resized = _nearest(data, coordinates, counts, kind.rounding, dtype)
    else:
        wide = sum_dtype(data.dtype) if data.dtype.is_floating else FLOAT32
        resized = data
        for axis, at in coordinates.items():
            if at.is_identity:
                continue
            filtered = _Filtered(resized, axis, at, counts[axis], wide)
            if kind.method == "linear" and not kind.antialias and not kind.exclude_outside:
                resized = filtered.interpolated()
            else:
                alpha = kind.cubic_alpha if kind.method == "cubic" else None
                resized = filtered.weighted(alpha, kind.antialias, kind.exclude_outside)
        resized = _converted(resized, dtype)
    return resized if outside is None else _extrapolate(resized, coordinates, outside)


@each_rank("image.resize#d", order_of_layout("layout"))
def _resize_spatial(
    rank: int,
    data: Tensor,
    size: Sequence[PrimExpr],
    roi: Sequence[float] | None = None,
    layout: str = "NC#",
    method: Literal["nearest_neighbor", "linear", "cubic"] = "linear",
    coordinate_transformation_mode: Transformation = "half_pixel",
    rounding_method: Rounding = "round",
    cubic_alpha: float = -0.75,
    cubic_exclude: bool = False,
    extrapolation_value: float = 0.0,
    out_dtype: str | None = None,
    scales: Sequence[float] | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return `data` resized along #; see `image.resize`."""
    places = Layout(layout, f"NC{SPATIAL[rank]}", "layout")
    places.sizes(data, "data")
    sizes = list(size) * (rank if len(size) == 1 else 1)
    axes = [places.text.index(letter) for letter in SPATIAL[rank]]
    return resize(
        data, sizes, axes, roi, scales, method, coordinate_transformation_mode,
        rounding_method, cubic_alpha, cubic_exclude, extrapolation_value, antialias, out_dtype,
    )  # fmt: skip


def clamp_position(place: PrimExpr, size: PrimExpr) -> PrimExpr:
    """Return a position moved to the nearest end of an axis if it is outside."""
    inside: PrimExpr = te.min(te.max(place, const(0, place.dtype)), size - 1)
    return inside


def _nearest(
    data: Tensor,
    coordinates: Mapping[int, Places],
    counts: Mapping[int, PrimExpr],
    rounding: str,
    dtype: DataType,
) -> Tensor:
    shape = [counts.get(axis, n) for axis, n in enumerate(data.shape)]

    def element(*indices: PrimExpr) -> PrimExpr:
        at = list(indices)
        for axis, place in coordinates.items():
            if not place.is_identity:
                at[axis] = clamp_position(place.rounded(indices[axis], rounding), place.size)
        return cast(dtype, data[tuple(at)])

    return te.compute(shape, element, name="resize")


def _converted(x: Tensor, dtype: DataType) -> Tensor:
    """Return numbers converted to a dtype; the conversion to integers rounds."""

    def element(*indices: PrimExpr) -> PrimExpr:
        value = x[indices]
        nearest = te.round(value) if dtype.is_integral and value.dtype.is_floating else value
        return cast(dtype, nearest)

    return x if x.dtype is dtype else te.compute(x.shape, element, name="T_cast")


def _extrapolate(x: Tensor, coordinates: Mapping[int, Places], value: float) -> Tensor:
    """Return `x` with `value` at elements outside of the original."""

    def element(*indices: PrimExpr) -> PrimExpr:
        outside = [
            condition for axis, at in coordinates.items() for condition in at.outside(indices[axis])
        ]
        chosen: PrimExpr = te.Select(te.any(*outside), const(value, x.dtype), x[indices])
        return chosen

    return te.compute(x.shape, element, name="resize_extrapolate")


class _Filtered:
    """A tensor resized along one axis by weighted sums of neighbours."""

    def __init__(self, x: Tensor, axis: int, at: Places, count: PrimExpr, dtype: DataType) -> None:
        self.x, self.axis, self.at, self.count, self.dtype = x, axis, at, count, dtype
        self.shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]

    def _load(self, indices: Sequence[PrimExpr], place: PrimExpr) -> PrimExpr:
        inside = clamp_position(place, self.at.size)
        at = (*indices[: self.axis], inside, *indices[self.axis + 1 :])
        return cast(self.dtype, self.x[at])

    def _fraction(self, x: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Return a position rounded down, and the remaining fraction."""
        return self.at.whole(x), self.at.rest(x, self.dtype)

    def interpolated(self) -> Tensor:
        """Return linear interpolations between two neighbours."""

        def element(*indices: PrimExpr) -> PrimExpr:
            whole, rest = self._fraction(indices[self.axis])
            before, behind = self._load(indices, whole), self._load(indices, whole + 1)
            return before * (const(1, self.dtype) - rest) + behind * rest

        return te.compute(self.shape, element, name="resize_linear")

    def weighted(self, alpha: float | None, antialias: bool, exclude_outside: bool) -> Tensor:
        """Return sums with weights from a table: cubic weights with `alpha`, otherwise linear."""
        support = 1 if alpha is None else 2
        scale = 1.0
        first = 1 - support
        if antialias:
            if not isinstance(self.at.scale, Fraction):
                raise IRValueError(
                    f"antialias needs known sizes, got {extent_text(self.at.size)} and "
                    f"{extent_text(self.count)}"
                )
            scale = float(min(self.at.scale, Fraction(1)))
            first = floor(-support / min(self.at.scale, Fraction(1))) + 1
        taps = 2 - 2 * first
        dtype = self.dtype

        def raw(x: PrimExpr, t: PrimExpr) -> PrimExpr:
            whole, rest = self._fraction(x)
            offset = t + first
            distance = te.abs(cast(dtype, offset) - rest) * const(scale, dtype)
            weight = _linear(distance) if alpha is None else cubic_weight(distance, alpha)
            if not exclude_outside:
                return weight
            inside = te.all(whole + offset >= 0, whole + offset < self.at.size)
            chosen: PrimExpr = te.Select(inside, weight, const(0, dtype))
            return chosen

        extents = [self.count, const(taps, self.count.dtype)]
        weights = te.compute(extents, raw, name="resize_weights")
        if antialias or exclude_outside:
            k = te.reduce_axis((0, extents[1]), "k")
            total = te.compute(
                [self.count], lambda x: te.sum(weights[x, k.var], axis=k), name="resize_total"
            )
            table = weights
            weights = te.compute(extents, lambda x, t: table[x, t] / total[x], name="resize_share")
        t = te.reduce_axis((0, extents[1]), "t")

        def element(*indices: PrimExpr) -> PrimExpr:
            x = indices[self.axis]
            value = self._load(indices, self.at.whole(x) + t.var + first)
            return te.sum(weights[x, t.var] * value, axis=t)

        return te.compute(self.shape, element, name="resize_filter")


def _linear(distance: PrimExpr) -> PrimExpr:
    weight: PrimExpr = te.max(const(1, distance.dtype) - distance, const(0, distance.dtype))
    return weight


def cubic_weight(distance: PrimExpr, a: float) -> PrimExpr:
    """Return the weight of an element at a distance (Keys, 1981)."""
    near = _polynomial(distance, [a + 2, -(a + 3), 0.0, 1.0])
    far = _polynomial(distance, [a, -5 * a, 8 * a, -4 * a])
    zero = const(0, distance.dtype)
    weight: PrimExpr = te.Select(distance <= 1, near, te.Select(distance < 2, far, zero))
    return weight


def _polynomial(x: PrimExpr, coefficients: Sequence[float]) -> PrimExpr:
    return reduce(
        lambda value, c: add(value * x, const(c, x.dtype)),
        coefficients[1:],
        const(coefficients[0], x.dtype),
    )
