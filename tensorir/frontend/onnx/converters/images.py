"""Padding, resizing and sampling of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensorir.arith import Analyzer
from tensorir.errors import IRValueError
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import floordiv
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr, ShapeExpr


@onnx_operator("Pad")
def pad(
    node: OnnxNode, x: GraphExpr, widths: GraphExpr | None = None, fill: GraphExpr | None = None,
    places: GraphExpr | None = None, *,
    mode: str = "constant", pads: Sequence[int] | None = None, value: float = 0.0,
) -> GraphExpr:  # fmt: skip
    rank = node.rank(x)
    axes = list(range(rank))
    if places is not None and node.contents(places) is None:
        widths, places = node.emit(op.pad_width_at(widths, places, count=rank)), None
    given = list(pads or ()) if widths is None else node.integers(widths, "pads")
    if places is not None:
        axes = [node.axis(a, rank) for a in node.known_integers(places, "axes")]
    if len(given) != 2 * len(axes):
        raise IRValueError(f"pads must be {2 * len(axes)} numbers, got {len(given)}")
    sides: list[int | PrimExpr] = [0] * (2 * rank)
    for k, axis in enumerate(axes):
        sides[2 * axis], sides[2 * axis + 1] = given[k], given[len(axes) + k]
    node.check_shape(
        [
            max(abs(n.value + before + behind), abs(before), abs(behind))
            if isinstance(n, IntImm) and isinstance(before, int) and isinstance(behind, int)
            else n
            for n, before, behind in zip(node.shape(x), sides[::2], sides[1::2], strict=True)
        ],
        x,
    )
    is_known = all(isinstance(width, int) for width in sides)
    operator = op.nn.pad if is_known else op.nn.dynamic_pad
    if mode != "constant" or fill is None:
        return operator(x, sides, mode, _fill(node, x, value) if mode == "constant" else 0)
    known = node.contents(fill)
    if known is not None:
        return operator(x, sides, mode, known.reshape(-1)[0].item())
    # If the fill is computed at run time, it replaces the zeros outside.
    inside = operator(op.ones_like(x, "bool"), sides, mode, False)
    return op.where(inside, operator(x, sides, mode, 0), op.reshape(fill, ()))


def _fill(node: OnnxNode, x: GraphExpr, value: float) -> float | int:
    return int(value) if node.dtype(x).is_integral else value


_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}


@onnx_operator("Resize")
def resize(
    node: OnnxNode, x: GraphExpr, first: GraphExpr | None = None, scales: GraphExpr | None = None,
    sizes: GraphExpr | None = None, *,
    antialias: int = 0, axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> GraphExpr:  # fmt: skip
    roi: GraphExpr | None = first
    if node.opset < 11:
        scales, roi = first, None
        coordinate_transformation_mode, nearest_mode = "asymmetric", "floor"
    places = [node.axis(a, node.rank(x)) for a in axes or range(node.rank(x))]
    factors: list[float] | None = None
    targets: list[int | PrimExpr]
    lengths = [node.extent(x, axis) for axis in places]
    given = [
        value if value is not None and node.tensor(value).static_shape != (0,) else None
        for value in (scales, sizes, roi)
    ]
    if any(value is not None and node.contents(value) is None for value in given):
        return _resized_when_run(
            node, x, *given, places=places, policy=keep_aspect_ratio_policy, antialias=antialias,
            method=_METHODS.get(mode, mode), cubic_alpha=cubic_coeff_a,
            coordinate_transformation_mode=coordinate_transformation_mode,
            rounding_method=nearest_mode, exclude_outside=bool(exclude_outside),
            extrapolation_value=extrapolation_value,
        )  # fmt: skip
    if sizes is not None and node.tensor(sizes).static_shape != (0,):
        targets = node.integers(sizes, "sizes")
        if keep_aspect_ratio_policy != "stretch":
            factors, targets = _in_proportion(lengths, targets, keep_aspect_ratio_policy)
    elif scales is not None and node.tensor(scales).static_shape != (0,):
        factors = [float(f) for f in node.numbers(scales, "scales").reshape(-1)]
        targets = _all_scaled(lengths, factors)
    else:
        raise IRValueError("neither scales nor sizes are given")
    region = None
    if roi is not None and coordinate_transformation_mode == "tf_crop_and_resize":
        region = [float(v) for v in node.numbers(roi, "roi").reshape(-1)]
    return op.image.resize(
        x, targets, places, region, factors, _METHODS.get(mode, mode),
        coordinate_transformation_mode, nearest_mode, cubic_coeff_a, bool(exclude_outside),
        extrapolation_value, bool(antialias),
    )  # fmt: skip


def _resized_when_run(
    node: OnnxNode, x: GraphExpr, scales: GraphExpr | None, sizes: GraphExpr | None,
    roi: GraphExpr | None, *, places: Sequence[int], policy: str, antialias: int, **kind: Any,
) -> GraphExpr:  # fmt: skip
    """Return `x` resized by scales or sizes that are computed when the model runs."""
    if antialias:
        raise IRValueError("antialias needs scales and sizes that are known")
    shape = node.shape(x)
    lengths = op.shape_to_tensor(ShapeExpr([shape[axis] for axis in places]))
    if sizes is None and scales is None:
        raise IRValueError("neither scales nor sizes are given")
    if sizes is None or policy != "stretch":
        own_length = op.astype(lengths, "float32")
        if sizes is None:
            rounded = op.floor(op.multiply(own_length, scales))
        else:
            ratios = op.divide(op.astype(sizes, "float32"), own_length)
            factor = op.min(ratios) if policy == "not_larger" else op.max(ratios)
            scales = op.broadcast_to(factor, (len(places),))
            rounded = op.floor(op.add(op.multiply(own_length, scales), 0.5))
        sizes = node.emit(op.astype(rounded, "int64"))
    targets = node.integers(sizes, "sizes")
    if kind["coordinate_transformation_mode"] != "tf_crop_and_resize":
        roi = None
    elif roi is not None:
        roi = op.astype(roi, "float32")
    if scales is not None:
        scales = op.astype(scales, "float32")
    return op.image.dynamic_resize(x, targets, scales, roi, axes=list(places), **kind)


def _all_scaled(lengths: Sequence[PrimExpr], factors: Sequence[float]) -> list[int | PrimExpr]:
    if len(factors) != len(lengths) or not all(0 < f < math.inf for f in factors):
        raise IRValueError(
            f"scales must be {len(lengths)} positive finite numbers, got {list(factors)}"
        )
    return [_scale(n, f) for n, f in zip(lengths, factors, strict=True)]


def _scale(length: PrimExpr, factor: float) -> int | PrimExpr:
    """Return `floor(length * factor)`."""
    if isinstance(length, IntImm):
        return int(length.value * factor)
    numerator, denominator = factor.as_integer_ratio()
    if denominator > 1 << 20:
        raise IRValueError(
            f"the size {length} times {factor} is not known; set {length} with shape_dict"
        )
    return Analyzer().simplify(floordiv(length * numerator, denominator))


def _in_proportion(
    lengths: Sequence[PrimExpr], targets: Sequence[int | PrimExpr], policy: str
) -> tuple[list[float], list[int | PrimExpr]]:
    known = [n.value for n in lengths if isinstance(n, IntImm)]
    wanted = [n for n in targets if isinstance(n, int)]
    if len(known) != len(lengths) or len(wanted) != len(targets):
        raise IRValueError("keep_aspect_ratio_policy needs sizes that are known")
    ratios = [
        target_length / own_length for target_length, own_length in zip(wanted, known, strict=True)
    ]
    if policy not in ("not_larger", "not_smaller"):
        raise IRValueError(
            f"unknown keep_aspect_ratio_policy {policy!r}; "
            "expected stretch, not_larger or not_smaller"
        )
    factor = min(ratios) if policy == "not_larger" else max(ratios)
    return [factor] * len(known), [int(own_length * factor + 0.5) for own_length in known]


@onnx_operator("Upsample")
def upsample(
    node: OnnxNode, x: GraphExpr, factors: GraphExpr | None = None, *,
    mode: str = "nearest", scales: Sequence[float] | None = None,
) -> GraphExpr:  # fmt: skip
    if factors is not None:
        scales = [float(f) for f in node.numbers(factors, "scales").reshape(-1)]
    if scales is None:
        raise IRValueError("the scales are missing")
    targets = _all_scaled(node.shape(x), scales)
    return op.image.resize(
        x, targets, list(range(node.rank(x))), None, list(scales), _METHODS.get(mode, mode),
        "asymmetric", "floor",
    )  # fmt: skip


@onnx_operator("RoiAlign")
def roi_align(
    node: OnnxNode, x: GraphExpr, rois: GraphExpr, batch_indices: GraphExpr, *,
    coordinate_transformation_mode: str | None = None, mode: str = "avg", output_height: int = 1,
    output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> GraphExpr:  # fmt: skip
    aligned = coordinate_transformation_mode or (
        "half_pixel" if node.opset >= 16 else "output_half_pixel"
    )
    return op.vision.roi_align(
        x, rois, batch_indices, (output_height, output_width), spatial_scale, sampling_ratio,
        aligned == "half_pixel", mode,
    )  # fmt: skip


onnx_operators(
    {
        "GridSample": (
            lambda node, x, grid, *, align_corners=0, mode="linear", padding_mode="zeros": (
                op.image.grid_sample(
                    x, grid, mode, padding_mode=padding_mode, align_corners=bool(align_corners)
                )
            )
        ),
        "AffineGrid": lambda node, theta, size, *, align_corners=0: op.image.affine_grid(
            theta, node.integers(size, "the size")[2:], bool(align_corners)
        ),
    }
)
