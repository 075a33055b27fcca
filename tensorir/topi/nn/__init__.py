"""Operators of neural networks.

The modules: `activation`, `adaptive_pooling`, `attention`, `columns`, `convolution`,
`convolution_transposed`, `gating`, `losses`, `normalization`, `pad`, `pooling`, `rearrange`,
`recurrent`, `rotary`, `softmax`, `spatial`.
"""

from tensorir.topi.nn.activation import (
    bias_add,
    celu,
    elu,
    gelu,
    gelu_tanh,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    leakyrelu,
    log_sigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    shrink,
    silu,
    softplus,
    softsign,
    swish,
    tanhshrink,
    threshold,
    thresholded_relu,
)
from tensorir.topi.nn.attention import attention_mask, attention_output, attention_scores
from tensorir.topi.nn.columns import col2im, im2col
from tensorir.topi.nn.convolution import conv1d, conv2d, conv3d
from tensorir.topi.nn.convolution_transposed import (
    conv1d_transpose,
    conv2d_transpose,
    conv3d_transpose,
)
from tensorir.topi.nn.gating import glu
from tensorir.topi.nn.losses import cross_entropy, cross_entropy_with_logits, nll_loss
from tensorir.topi.nn.normalization import group_norm, instance_norm, layer_norm, lrn, rms_norm
from tensorir.topi.nn.pad import pad
from tensorir.topi.nn.rearrange import (
    channel_shuffle,
    depth_to_space,
    pixel_shuffle,
    pixel_unshuffle,
    space_to_depth,
)
from tensorir.topi.nn.recurrent import gru_steps, lstm_steps, rnn_steps
from tensorir.topi.nn.rotary import rotary_embedding
from tensorir.topi.nn.softmax import hardmax, log_softmax, softmax

__all__ = [
    "attention_mask",
    "attention_output",
    "attention_scores",
    "bias_add",
    "celu",
    "channel_shuffle",
    "col2im",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "cross_entropy",
    "cross_entropy_with_logits",
    "depth_to_space",
    "elu",
    "gelu",
    "gelu_tanh",
    "glu",
    "group_norm",
    "gru_steps",
    "hardmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "im2col",
    "instance_norm",
    "layer_norm",
    "leakyrelu",
    "log_sigmoid",
    "log_softmax",
    "lrn",
    "lstm_steps",
    "mish",
    "nll_loss",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "rnn_steps",
    "rotary_embedding",
    "selu",
    "shrink",
    "silu",
    "softmax",
    "softplus",
    "softsign",
    "space_to_depth",
    "swish",
    "tanhshrink",
    "threshold",
    "thresholded_relu",
]
