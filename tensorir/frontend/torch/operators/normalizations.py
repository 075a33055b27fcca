"""Normalisations. Models are imported for inference: statistics that were kept are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, tensor_info
from tensorir.frontend.torch.operators.reductions import variance
from tensorir.frontend.torch.table import aten
from tensorir.nodes.expr import PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo


def _ones(shape: Sequence[PrimExpr], dtype: str) -> GraphExpr:
    return op.full(shape, as_tensor(1, dtype), dtype)


def _zeros(shape: Sequence[PrimExpr], dtype: str) -> GraphExpr:
    return op.full(shape, as_tensor(0, dtype), dtype)


def _affine(weight: Any, bias: Any, shape: Sequence[PrimExpr], dtype: str) -> dict[str, Any]:
    """Return what a normalisation multiplies by and adds, and whether it does."""
    return {
        "gamma": _ones(shape, dtype) if weight is None else weight,
        "beta": _zeros(shape, dtype) if bias is None else bias,
        "scale": weight is not None,
        "center": bias is not None,
    }


def _batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    channels = [(tensor_info(input).shape or ())[1]]
    affine = _affine(weight, bias, channels, dtype_of(input))
    return op.nn.batch_norm(input, moving_mean=mean, moving_var=var, axis=1, epsilon=eps, **affine)[
        0
    ]


def _by_own_statistics(input: Any, weight: Any, bias: Any, eps: float, axes: Any) -> Any:
    """Return elements normalised by the mean and the variance that they have along axes."""
    var, mean = variance(input, axes, 0, True)
    value = (input - mean) / op.sqrt(var + as_tensor(eps, dtype_of(input)))
    shape = [1, (tensor_info(input).shape or ())[1], *[1] * (tensor_info(input).ndim - 2)]
    if weight is not None:
        value = value * op.reshape(weight, shape)
    return value if bias is None else value + op.reshape(bias, shape)


@aten("_native_batch_norm_legit_no_training.default")
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, **_: Any
) -> Any:
    """A tuple: elements normalised by statistics of each channel; two that stay empty."""
    return _batch_norm(input, weight, bias, running_mean, running_var, eps), None, None


@aten("_native_batch_norm_legit.no_stats")
def native_batch_norm_without_statistics(
    input: Any, weight: Any, bias: Any, eps: float, **_: Any
) -> Any:
    """A tuple: elements normalised by the statistics that their channels have; two others."""
    axes = [k for k in range(tensor_info(input).ndim) if k != 1]
    return _by_own_statistics(input, weight, bias, eps, axes), None, None


@aten("batch_norm.default", "_batch_norm_no_update.default")
def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    eps: float,
    result: Any,
    training: bool = False,
    **_: Any,
) -> Any:
    """Elements normalised by statistics of each channel; those that they have if none are kept."""
    if running_mean is None or training:
        axes = [k for k in range(tensor_info(input).ndim) if k != 1]
        value = _by_own_statistics(input, weight, bias, eps, axes)
    else:
        value = _batch_norm(input, weight, bias, running_mean, running_var, eps)
    return value if isinstance(result, TensorStructInfo) else (value, None, None, None)


@aten("instance_norm.default")
def instance_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float,
    use_input_stats: bool, **_: Any,
) -> Any:  # fmt: skip
    """Elements normalised by the statistics of each channel of each item."""
    if not use_input_stats:
        return _batch_norm(input, weight, bias, running_mean, running_var, eps)
    axes = list(range(2, tensor_info(input).ndim))
    return _by_own_statistics(input, weight, bias, eps, axes)


@aten("layer_norm.default")
def layer_norm(
    input: Any, normalized_shape: Sequence[Any], weight: Any, bias: Any, eps: float, **_: Any
) -> Any:
    """Elements normalised along the last axes."""
    info = tensor_info(input)
    count = len(normalized_shape)
    affine = _affine(weight, bias, (info.shape or ())[-count:], dtype_of(input))
    axes = list(range(info.ndim - count, info.ndim))
    return op.nn.layer_norm(input, axes=axes, epsilon=eps, **affine)


@aten("native_layer_norm.default")
def native_layer_norm(
    input: Any, normalized_shape: Sequence[Any], weight: Any, bias: Any, eps: float
) -> Any:
    """A tuple: elements normalised along the last axes; the means; 1 by the deviations."""
    ndim = tensor_info(input).ndim
    axes = list(range(ndim - len(normalized_shape), ndim))
    var, mean = variance(input, axes, 0, True)
    deviation = op.rsqrt(var + as_tensor(eps, dtype_of(input)))
    return layer_norm(input, normalized_shape, weight, bias, eps), mean, deviation


@aten("group_norm.default")
def group_norm(input: Any, num_groups: int, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    """Elements normalised within groups of channels."""
    info = tensor_info(input)
    affine = _affine(weight, bias, [(info.shape or ())[1]], dtype_of(input))
    return op.nn.group_norm(
        input,
        num_groups=num_groups,
        channel_axis=1,
        axes=list(range(2, info.ndim)),
        epsilon=eps,
        **affine,
    )


@aten("native_group_norm.default")
def native_group_norm(input: Any, weight: Any, bias: Any, group: int, eps: float, **_: Any) -> Any:
    """A tuple: elements normalised within groups of channels; two that stay empty."""
    return group_norm(input, group, weight, bias, eps), None, None


@aten("rms_norm.default")
def rms_norm(input: Any, normalized_shape: Sequence[Any], weight: Any, eps: float | None) -> Any:
    """Elements divided by the root of their mean square along the last axes."""
    info = tensor_info(input)
    dtype = dtype_of(input)
    count = len(normalized_shape)
    scale = _ones((info.shape or ())[-count:], dtype) if weight is None else weight
    least = float(np.finfo(dtype).eps) if eps is None else eps
    axes = list(range(info.ndim - count, info.ndim))
    return op.nn.rms_norm(input, scale, axes=axes, epsilon=least)
