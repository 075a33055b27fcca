"""Normalisations. Models are imported for inference: they use the stored statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, tensor_info
from tensorir.frontend.torch.operators.shapes import in_shape
from tensorir.frontend.torch.table import aten
from tensorir.nodes.dtype import DataType
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.topi.broadcast import sum_dtype


def _batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    return op.nn.batch_norm(input, weight, bias, mean, var, 1, eps)[0]


def _by_own_statistics(input: Any, weight: Any, bias: Any, eps: float, axes: list[int]) -> Any:
    """Return elements normalised by their mean and variance along axes."""
    mean = op.mean(input, axes, keepdims=True)
    variance = op.variance(input, axes, keepdims=True)
    value = (input - mean) * op.rsqrt(variance + as_tensor(eps, dtype_of(input)))
    shape = [1, (tensor_info(input).shape or ())[1], *[1] * (tensor_info(input).ndim - 2)]
    if weight is not None:
        value = value * in_shape(weight, shape)
    return value if bias is None else value + in_shape(bias, shape)


@aten("_native_batch_norm_legit_no_training.default")
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, eps: float, **_: Any
) -> Any:
    """A tuple: elements normalised by the stored statistics of each channel; None; None."""
    return _batch_norm(input, weight, bias, running_mean, running_var, eps), None, None


@aten("_native_batch_norm_legit.no_stats")
def native_batch_norm_without_statistics(
    input: Any, weight: Any, bias: Any, eps: float, **_: Any
) -> Any:
    """A tuple: elements normalised by their own channel statistics; None; None."""
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
    """Elements normalised by the statistics of each channel, stored or of the batch."""
    if running_mean is None or training:
        axes = [k for k in range(tensor_info(input).ndim) if k != 1]
        value = _by_own_statistics(input, weight, bias, eps, axes)
    else:
        value = _batch_norm(input, weight, bias, running_mean, running_var, eps)
    return value if isinstance(result, TensorStructInfo) else (value, None, None, None)


@aten("instance_norm.default")
def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    eps: float,
    use_input_stats: bool,
    **_: Any,
) -> Any:
    """Elements normalised by the statistics of each channel of each item."""
    if not use_input_stats:
        return _batch_norm(input, weight, bias, running_mean, running_var, eps)
    return op.nn.instance_norm(input, weight, bias, epsilon=eps)


def _last_axes(input: Any, shape: Sequence[Any]) -> list[int]:
    ndim = tensor_info(input).ndim
    return list(range(ndim - len(shape), ndim))


@aten("layer_norm.default")
def layer_norm(
    input: Any, normalized_shape: Sequence[Any], weight: Any, bias: Any, eps: float, **_: Any
) -> Any:
    """Elements normalised along the last axes."""
    axes = _last_axes(input, normalized_shape)
    return op.nn.layer_norm(input, weight, bias, axes, eps)


@aten("native_layer_norm.default")
def native_layer_norm(
    input: Any, normalized_shape: Sequence[Any], weight: Any, bias: Any, eps: float
) -> Any:
    """A tuple: elements normalised along the last axes; the means; the inverse deviations."""
    axes = _last_axes(input, normalized_shape)
    variance = op.variance(input, axes, keepdims=True)
    deviation = op.rsqrt(variance + as_tensor(eps, dtype_of(input)))
    value = op.nn.layer_norm(input, weight, bias, axes, eps)
    return value, op.mean(input, axes, keepdims=True), deviation


@aten("group_norm.default")
def group_norm(input: Any, num_groups: int, weight: Any, bias: Any, eps: float, **_: Any) -> Any:
    """Elements normalised within groups of channels."""
    return op.nn.group_norm(input, weight, bias, num_groups, epsilon=eps)


@aten("native_group_norm.default")
def native_group_norm(input: Any, weight: Any, bias: Any, group: int, eps: float, **_: Any) -> Any:
    """A tuple: elements normalised within groups of channels; None; None."""
    return group_norm(input, group, weight, bias, eps), None, None


@aten("rms_norm.default")
def rms_norm(input: Any, normalized_shape: Sequence[Any], weight: Any, eps: float | None) -> Any:
    """Elements divided by the root of their mean square along the last axes."""
    if eps is None:
        # The epsilon of the dtype in which torch adds up squares.
        eps = float(np.finfo(str(sum_dtype(DataType(dtype_of(input))))).eps)
    return op.nn.rms_norm(input, weight, _last_axes(input, normalized_shape), eps)
