"""Products of matrices, attention, normalisations, and recurrent layers.

Models are imported for inference: normalisations use the stored statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any, Final

import numpy as np

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, in_shape, tensor_info
from tensorir.frontend.torch.table import aten, aten_rows
from tensorir.nodes.dtype import DataType
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.topi.broadcast import sum_dtype


def _sum(addend: Any, product: Any, beta: Any, alpha: Any) -> Any:
    dtype = dtype_of(product)
    scaled = product if alpha == 1 else product * as_tensor(alpha, dtype)
    if beta == 0:
        return scaled
    return scaled + (addend if beta == 1 else addend * as_tensor(beta, dtype))


def attended(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Any) -> Any:
    """Return attention over (..., heads, length, width), or over (batch, length, width).

    A bool mask keeps true positions; any other mask is added. If a row keeps no position, its
    result is 0. (In `nn.attention` the length precedes the heads, and there is one batch axis.)
    """
    ndim = tensor_info(query).ndim
    if ndim == 3:
        query, key, value = (op.expand_dims(x, 1) for x in (query, key, value))
        if mask is not None and tensor_info(mask).ndim == 3:
            mask = op.expand_dims(mask, 1)
    elif ndim != 4:
        raise IRTypeError(f"attention of {ndim} dimensions is not supported")
    if mask is not None and dtype_of(mask) != "bool":
        mask = as_tensor(mask, dtype_of(query))
    turned = [op.permute_dims(x, [0, 2, 1, 3]) for x in (query, key, value)]
    found = op.nn.attention(
        *turned,
        bias=mask,
        scale=None if scale is None else float(scale),
        causal_mask="TopLeft" if is_causal else None,
    )
    result = op.permute_dims(found, [0, 2, 1, 3])
    return result if ndim == 4 else op.squeeze(result, 1)


@aten("cdist.default", "_cdist_forward.default")
def cdist(x1: Any, x2: Any, p: float = 2.0, **_: Any) -> Any:
    """The norms of the differences between each row of `x1` and each row of `x2`."""
    first, second = tensor_info(x1).ndim, tensor_info(x2).ndim
    differences = op.expand_dims(x1, first - 1) - op.expand_dims(x2, second - 2)
    return op.norm(differences, float(p), [max(first, second)])


@aten("_trilinear.default")
def trilinear(
    i1: Any,
    i2: Any,
    i3: Any,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    **_: Any,
) -> Any:
    """The product of three tensors without the axes `expand1`, ..., summed along `sumdim`."""
    letters = ascii_letters[: tensor_info(i1).ndim + len(expand1)]
    *inputs, result = (
        "".join(letter for k, letter in enumerate(letters) if k not in missing)
        for missing in (expand1, expand2, expand3, sumdim)
    )
    return op.einsum([i1, i2, i3], f"{','.join(inputs)}->{result}")


def _batch_norm(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    return op.nn.batch_norm(input, weight, bias, mean, var, 1, eps)[0]


def _normalize_channels(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Return elements normalised by the mean and variance of their channel."""
    axes = [k for k in range(tensor_info(input).ndim) if k != 1]
    mean = op.mean(input, axes, keepdims=True)
    variance = op.variance(input, axes, keepdims=True)
    value = (input - mean) * op.rsqrt(variance + as_tensor(eps, dtype_of(input)))
    shape = [1, (tensor_info(input).shape or ())[1], *[1] * (tensor_info(input).ndim - 2)]
    if weight is not None:
        value = value * in_shape(weight, shape)
    return value if bias is None else value + in_shape(bias, shape)


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
        value = _normalize_channels(input, weight, bias, eps)
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


@aten("rms_norm.default")
def rms_norm(input: Any, normalized_shape: Sequence[Any], weight: Any, eps: float | None) -> Any:
    """Elements divided by the root of their mean square along the last axes."""
    if eps is None:
        # The default is the epsilon of the dtype in which torch adds up squares.
        eps = float(np.finfo(str(sum_dtype(DataType(dtype_of(input))))).eps)
    return op.nn.rms_norm(input, weight, _last_axes(input, normalized_shape), eps)


aten_rows(
    {
        "linear.default": lambda input, weight, bias: op.linear(input, weight, bias),
        "mm.default bmm.default": lambda self, mat2: op.matmul(self, mat2),
        "matmul.default": lambda self, other: op.matmul(self, other),
        "mv.default": lambda self, vec: op.matmul(self, vec),
        "dot.default": lambda self, tensor, result: in_shape(op.matmul(self, tensor), result.shape),
        "vdot.default inner.default": lambda self, other, result: in_shape(
            op.matmul(self, other), result.shape
        ),
        "outer.default": lambda self, vec2: op.expand_dims(self, 1) * op.expand_dims(vec2, 0),
        "addmm.default": lambda self, mat1, mat2, beta, alpha: _sum(
            self, op.matmul(mat1, mat2), beta, alpha
        ),
        "baddbmm.default": lambda self, batch1, batch2, beta, alpha: _sum(
            self, op.matmul(batch1, batch2), beta, alpha
        ),
        "addmv.default": lambda self, mat, vec, beta, alpha: _sum(
            self, op.matmul(mat, vec), beta, alpha
        ),
        "einsum.default": lambda equation, tensors: op.einsum(
            list(tensors), equation.replace(" ", "")
        ),
        "scaled_dot_product_attention.default": (
            lambda query, key, value, attn_mask, is_causal, scale, **_: attended(
                query, key, value, attn_mask, is_causal, scale
            )
        ),
        "_scaled_dot_product_flash_attention_for_cpu.default": (
            lambda query, key, value, is_causal, attn_mask, scale, **_: (
                (attended(query, key, value, attn_mask, is_causal, scale), None)
            )
        ),
        "_native_batch_norm_legit_no_training.default": (
            lambda input, weight, bias, running_mean, running_var, eps, **_: (
                (_batch_norm(input, weight, bias, running_mean, running_var, eps), None, None)
            )
        ),
        "_native_batch_norm_legit.no_stats": lambda input, weight, bias, eps, **_: (
            (_normalize_channels(input, weight, bias, eps), None, None)
        ),
        "layer_norm.default": lambda input, normalized_shape, weight, bias, eps, **_: (
            op.nn.layer_norm(input, weight, bias, _last_axes(input, normalized_shape), eps)
        ),
        "group_norm.default": lambda input, num_groups, weight, bias, eps, **_: op.nn.group_norm(
            input, weight, bias, num_groups, epsilon=eps
        ),
        "native_group_norm.default": lambda input, weight, bias, group, eps, **_: (
            (op.nn.group_norm(input, weight, bias, group, epsilon=eps), None, None)
        ),
    }
)


_LSTM: Final = 2
"""The number of this layer among torch's modes."""
_GATES: Final = (0, 3, 1, 2)
"""The positions of the gates of `op.nn.lstm` (input, output, forget, cell) in torch's order."""


def _reorder_gates(weights: Any, units: int) -> Any:
    """Return weights or biases with their gates in the order of `op.nn.lstm`."""
    parts = [op.strided_slice(weights, [0], [k * units], [(k + 1) * units]) for k in _GATES]
    return op.concat(parts, 0)


@aten("mkldnn_rnn_layer.default")
def mkldnn_rnn_layer(
    input: Any,
    weight0: Any,
    weight1: Any,
    weight2: Any,
    weight3: Any,
    hx_: Any,
    cx_: Any,
    reverse: bool,
    mode: int,
    hidden_size: int,
    num_layers: int,
    bidirectional: bool,
    batch_first: bool,
    **_: Any,
) -> Any:
    """The outputs of one layer of a long short-term memory, its last output and last cell."""
    if mode != _LSTM or num_layers != 1 or bidirectional or batch_first:
        raise IRTypeError("only one layer and direction of a long short-term memory is supported")
    w, r, inner, outer = (
        _reorder_gates(x, hidden_size) for x in (weight0, weight1, weight2, weight3)
    )
    done = op.nn.lstm(
        input,
        op.expand_dims(w, 0),
        op.expand_dims(r, 0),
        op.expand_dims(op.concat([inner, outer], 0), 0),
        initial_h=hx_,
        initial_c=cx_,
        direction="reverse" if reverse else "forward",
    )
    return op.squeeze(done[0], 1), done[1], done[2], None
