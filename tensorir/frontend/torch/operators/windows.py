"""Convolutions, pooling, padding, resizing; channels come before the spatial axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_list, in_shape, tensor_info
from tensorir.frontend.torch.table import aten, aten_rows
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.topi.extents import is_number

_DATA: Final = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
_KERNEL: Final = {1: "OIW", 2: "OIHW", 3: "OIDHW"}
_TRANSPOSED: Final = {1: "IOW", 2: "IOHW", 3: "IODHW"}


def _by_rank(name: str, rank: int) -> Callable[..., Any]:
    """Return an operator of neural networks; `#` in its name is the number of spatial axes."""
    return getattr(op.nn, name.replace("#", str(rank)))  # type: ignore[no-any-return]


def _each_axis(values: Any, rank: int) -> list[int]:
    """Return a number for each axis; a single number is repeated."""
    given = as_list(values)
    return given * rank if len(given) == 1 else given


def _add_bias(value: Any, bias: Any, rank: int) -> Any:
    if bias is None:
        return value
    return value + in_shape(bias, [1, tensor_info(bias).shape[0], *[1] * rank])  # type: ignore[index]


@aten("convolution.default")
def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool = False,
    output_padding: Any = 0,
    groups: int = 1,
) -> Any:
    """A convolution or a transposed one; the batch may be missing."""
    rank = tensor_info(weight).ndim - 2
    data = input
    if tensor_info(input).ndim == rank + 1:
        data = op.expand_dims(input, 0)
    around = _each_axis(padding, rank)
    options: dict[str, Any] = {
        "strides": _each_axis(stride, rank),
        "padding": around * 2,
        "dilation": _each_axis(dilation, rank),
        "groups": groups,
        "data_layout": _DATA[rank],
    }
    if transposed:
        options["output_padding"] = _each_axis(output_padding, rank)
        value = _by_rank("conv#d_transpose", rank)(
            data, weight, kernel_layout=_TRANSPOSED[rank], **options
        )
    else:
        value = _by_rank("conv#d", rank)(data, weight, kernel_layout=_KERNEL[rank], **options)
    created = _add_bias(value, bias, rank)
    return created if data is input else op.squeeze(created, 0)


@aten("conv1d.padding", "conv2d.padding", "conv3d.padding")
def conv_padded(
    input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int
) -> Any:
    """A convolution with `padding` "valid" (none) or "same" (which keeps the size)."""
    rank = tensor_info(weight).ndim - 2
    if padding == "valid":
        return convolution(input, weight, bias, stride, 0, dilation, groups=groups)
    begin, end = _same_padding(weight, _each_axis(dilation, rank))
    if begin != end:
        width = [0, 0] * (tensor_info(input).ndim - rank)
        width += [n for sides in zip(begin, end, strict=True) for n in sides]
        input, begin = op.nn.pad(input, width), [0]
    return convolution(input, weight, bias, stride, begin, dilation, groups=groups)


def _same_padding(weight: Any, dilation: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the padding before and after each axis that keeps the size."""
    kernel = (tensor_info(weight).shape or ())[2:]
    totals = []
    for extent, step in zip(kernel, dilation, strict=True):
        if not isinstance(extent, IntImm):
            raise IRTypeError(f"padding='same' needs a kernel of a known size, got {extent}")
        totals.append(step * (extent.value - 1))
    return [t // 2 for t in totals], [t - t // 2 for t in totals]


aten_rows(
    {
        "conv1d.default conv2d.default conv3d.default": (
            lambda input, weight, bias, stride, padding, dilation, groups: convolution(
                input, weight, bias, stride, padding, dilation, groups=groups
            )
        ),
        "conv_transpose1d.default conv_transpose2d.input conv_transpose3d.input": (
            lambda input, weight, bias, stride, padding, output_padding, groups, dilation: (
                convolution(
                    input, weight, bias, stride, padding, dilation, True, output_padding, groups
                )
            )
        ),
    }
)

# ------------------------------------------------------------------------------------------ pooling


def _pool_with_batch(self: Any, rank: int, pool: Callable[[Any], Any]) -> Any:
    """Return the pooling of a tensor whose batch may be missing."""
    if tensor_info(self).ndim == rank + 2:
        return pool(self)
    return op.squeeze(pool(op.expand_dims(self, 0)), 0)


def _pooled(
    self: Any,
    name: str,
    rank: int,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    **options: Any,
) -> Any:
    """Return a pooling; `#` in the operator's name is the number of spatial axes."""
    sizes = _each_axis(kernel, rank)
    options |= {
        "pool_size": sizes,
        "strides": _each_axis(stride, rank) if as_list(stride) else sizes,
        "padding": _each_axis(padding, rank) * 2,
        "ceil_mode": ceil_mode,
        "layout": _DATA[rank],
    }
    return _pool_with_batch(self, rank, lambda x: _by_rank(name, rank)(x, **options))


def _adaptive(self: Any, name: str, rank: int, output_size: Any) -> Any:
    sizes = _each_axis(output_size, rank)
    return _pool_with_batch(
        self, rank, lambda x: _by_rank(name, rank)(x, sizes, layout=_DATA[rank])
    )


def _register_rank(rank: int) -> None:
    """Register the poolings, paddings and resizings along `rank` axes."""

    @aten(f"max_pool{rank}d.default")
    def maximum(
        self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        given = rank, kernel_size, stride, padding, ceil_mode
        return _pooled(self, "max_pool#d", *given, dilation=_each_axis(dilation, rank))

    @aten(f"max_pool{rank}d_with_indices.default")
    def with_indices(
        self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
    ) -> Any:
        def places(x: Any) -> Any:
            name, given = "max_pool#d_with_argmax", (rank, kernel_size, stride, padding, ceil_mode)
            return _pooled(x, name, *given, dilation=_each_axis(dilation, rank))[1]

        largest = maximum(self, kernel_size, stride, padding, dilation, ceil_mode)
        return largest, _pool_with_batch(self, rank, places)

    @aten(f"avg_pool{rank}d.default")
    def average(
        self: Any,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Any = None,
    ) -> Any:
        if divisor_override is not None:
            raise IRTypeError("divisor_override is not supported")
        given = rank, kernel_size, stride, padding, ceil_mode
        return _pooled(self, "avg_pool#d", *given, count_include_pad=count_include_pad)

    @aten(f"adaptive_avg_pool{rank}d.default", f"_adaptive_avg_pool{rank}d.default")
    def adaptive(self: Any, output_size: Any) -> Any:
        if all(size == 1 for size in as_list(output_size)):
            ndim = tensor_info(self).ndim
            return op.mean(self, list(range(ndim - rank, ndim)), keepdims=True)
        return _adaptive(self, "adaptive_avg_pool#d", rank, output_size)

    aten_rows(
        {
            f"adaptive_max_pool{rank}d.default": lambda self, output_size: (
                (_adaptive(self, "adaptive_max_pool#d", rank, output_size), None)
            ),
            f"reflection_pad{rank}d.default": lambda self, padding: _pad(
                self, padding, "reflect", None
            ),
            f"replication_pad{rank}d.default": lambda self, padding: _pad(
                self, padding, "edge", None
            ),
            f"upsample_nearest{rank}d.vec": lambda input, scale_factors, result, **_: _resize(
                input, result, "nearest", False, scale_factors
            ),
            f"upsample_nearest{rank}d.default": lambda self, result, **scales: _resize(
                self, result, "nearest", False, _factors(scales)
            ),
        }
    )


for _rank in (1, 2, 3):
    _register_rank(_rank)

# ----------------------------------------------------------------------------- padding, resizing


def _pad(self: Any, pad: Sequence[int], mode: str, value: Any) -> Any:
    """Return a tensor with padding; `pad` starts with the last axis."""
    pairs = [pad[k : k + 2] for k in range(0, len(pad), 2)]
    pairs += [[0, 0]] * (tensor_info(self).ndim - len(pairs))
    width = [n for pair in reversed(pairs) for n in pair]
    is_known = all(isinstance(n, int) for n in width)
    return (op.nn.pad if is_known else op.nn.dynamic_pad)(self, width, mode, value or 0)


_MODES: Final = {
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "circular",
}


_METHODS: Final = {"nearest": "nearest_neighbor", "linear": "linear", "bicubic": "cubic"}


def _resize(
    input: Any, result: TensorStructInfo, method: str, align_corners: bool, scales: Any
) -> Any:
    """Return images of the result's size; given scale factors set the sampling positions.

    With aligned corners the sizes set them, and for the nearest element along an axis of the same
    or of twice the size.
    """
    axes = list(range(2, result.ndim))
    if method == "nearest":
        where, rounding = "asymmetric", "floor"
    else:
        where, rounding = "align_corners" if align_corners else "half_pixel", "round"
    factors = [] if align_corners else [float(s) for s in scales or [] if s is not None]
    if method == "nearest":
        lengths = ((x.shape or ())[2:] for x in (tensor_info(input), result))
        factors = [_nearest_factor(*x) for x in zip(*lengths, factors, strict=False)]
    return op.image.resize(
        input,
        (result.shape or ())[2:],
        axes,
        scales=factors if len(factors) == len(axes) else None,
        method=_METHODS[method],
        coordinate_transformation_mode=where,
        rounding_method=rounding,
        cubic_alpha=-0.75,
    )


def _nearest_factor(before: PrimExpr, after: PrimExpr, factor: float) -> float:
    """Return the ratio of two lengths if it is 1 or 2, else the given factor."""
    return next((k for k in (1.0, 2.0) if is_number(after - before * int(k), 0)), factor)


def _factors(scales: dict[str, Any]) -> list[Any]:
    """Return the scale factors that are separate arguments: `scales_h`, `scales_w`."""
    return [value for name, value in scales.items() if name.startswith("scales")]


def _interpolated(method: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the converters of a resizing by factors, and to a size."""
    return (
        lambda input, align_corners, scale_factors, result, **_: _resize(
            input, result, method, align_corners, scale_factors
        ),
        lambda self, align_corners, result, **scales: _resize(
            self, result, method, align_corners, _factors(scales)
        ),
    )


for _name, _method in (
    ("linear1d", "linear"),
    ("bilinear2d", "linear"),
    ("trilinear3d", "linear"),
    ("bicubic2d", "bicubic"),
):
    _by_factors, _to_size = _interpolated(_method)
    aten_rows({f"upsample_{_name}.vec": _by_factors, f"upsample_{_name}.default": _to_size})

aten_rows(
    {
        "pad.default": lambda self, pad, mode, value: _pad(self, pad, _MODES[mode], value),
        "constant_pad_nd.default": lambda self, pad, value: _pad(self, pad, "constant", value),
        "affine_grid_generator.default": lambda theta, size, align_corners: op.image.affine_grid(
            theta, list(size)[2:], align_corners
        ),
    }
)


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
