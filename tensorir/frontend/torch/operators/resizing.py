"""Padding, and resizing of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensorir.frontend.torch.dtypes import tensor_info
from tensorir.frontend.torch.table import aten
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo


def padded(self: Any, pad: Sequence[int], mode: str, value: Any) -> Any:
    """Return a tensor with padding; `pad` starts with the last axis."""
    pairs = [pad[k : k + 2] for k in range(0, len(pad), 2)]
    pairs += [[0, 0]] * (tensor_info(self).ndim - len(pairs))
    width = [n for pair in reversed(pairs) for n in pair]
    return op.nn.pad(self, width, mode, value or 0)


_MODES: Final = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "circular",
}


@aten("pad.default")
def pad(self: Any, pad: Sequence[int], mode: str, value: Any) -> Any:
    """A tensor with padding."""
    return padded(self, pad, _MODES[mode], value)


@aten("constant_pad_nd.default")
def constant_pad(self: Any, pad: Sequence[int], value: Any) -> Any:
    """A tensor padded with one number."""
    return padded(self, pad, "constant", value)


def _declare_padding(rank: int) -> None:
    @aten(f"reflection_pad{rank}d.default")
    def reflection(self: Any, padding: Sequence[int]) -> Any:
        return padded(self, padding, "reflect", None)

    @aten(f"replication_pad{rank}d.default")
    def replication(self: Any, padding: Sequence[int]) -> Any:
        return padded(self, padding, "edge", None)


_METHODS: Final = {"nearest": "nearest_neighbor", "linear": "linear", "bicubic": "cubic"}


def _resized(
    input: Any, result: TensorStructInfo, method: str, align_corners: bool, scales: Any
) -> Any:
    """Return images of the result's size; given scale factors set the sampling positions."""
    axes = list(range(2, result.ndim))
    if method == "nearest":
        where, rounding = "asymmetric", "floor"
    else:
        where, rounding = "align_corners" if align_corners else "half_pixel", "round"
    factors = [s for s in scales or [] if s is not None]
    return op.image.resize(
        input,
        (result.shape or ())[2:],
        axes,
        scales=[float(s) for s in factors] if len(factors) == len(axes) else None,
        method=_METHODS[method],
        coordinate_transformation_mode=where,
        rounding_method=rounding,
        cubic_alpha=-0.75,
    )


def _factors(scales: dict[str, Any]) -> list[Any]:
    """Return the factors that are separate arguments: `scales_h`, `scales_w`."""
    return [value for name, value in scales.items() if name.startswith("scales")]


def _declare_nearest(rank: int) -> None:
    @aten(f"upsample_nearest{rank}d.vec")
    def by_factors(input: Any, scale_factors: Any, result: TensorStructInfo, **_: Any) -> Any:
        return _resized(input, result, "nearest", False, scale_factors)

    @aten(f"upsample_nearest{rank}d.default")
    def to_size(self: Any, result: TensorStructInfo, **scales: Any) -> Any:
        return _resized(self, result, "nearest", False, _factors(scales))


def _declare_interpolated(name: str, method: str) -> None:
    @aten(f"upsample_{name}.vec")
    def by_factors(
        input: Any, align_corners: bool, scale_factors: Any, result: TensorStructInfo, **_: Any
    ) -> Any:
        return _resized(input, result, method, align_corners, scale_factors)

    @aten(f"upsample_{name}.default")
    def to_size(self: Any, align_corners: bool, result: TensorStructInfo, **scales: Any) -> Any:
        return _resized(self, result, method, align_corners, _factors(scales))


for _rank in (1, 2, 3):
    _declare_padding(_rank)
    _declare_nearest(_rank)
for _name, _method in (
    ("linear1d", "linear"),
    ("bilinear2d", "linear"),
    ("trilinear3d", "linear"),
    ("bicubic2d", "bicubic"),
):
    _declare_interpolated(_name, _method)


@aten("grid_sampler_2d.default", "grid_sampler.default", "grid_sampler_3d.default")
def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """Pixels at coordinates between -1 and 1."""
    return op.image.grid_sample(
        input,
        grid,
        method=("bilinear", "nearest", "bicubic")[interpolation_mode],
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=align_corners,
    )


@aten("affine_grid_generator.default")
def affine_grid(theta: Any, size: Sequence[Any], align_corners: bool) -> Any:
    """Pixel coordinates, transformed by an affine matrix."""
    return op.image.affine_grid(theta, list(size)[2:], align_corners)
