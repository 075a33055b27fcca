"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, tensor_info
from tensorir.frontend.torch.operators.arithmetic import named
from tensorir.frontend.torch.operators.shapes import axis_of
from tensorir.frontend.torch.table import aten
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo

_PLAIN: Final = {
    "relu": "nn.relu",
    "relu6": "nn.relu6",
    "silu": "nn.silu",
    "mish": "nn.mish",
    "hardswish": "nn.hardswish",
    "hardsigmoid": "nn.hardsigmoid",
    "selu": "nn.selu",
    "log_sigmoid": "nn.log_sigmoid",
}


def _declare(name: str, operator: str) -> None:
    @aten(f"{name}.default")
    def activation(self: Any) -> Any:
        return named(operator)(self)


for _name, _operator in _PLAIN.items():
    _declare(_name, _operator)


@aten("gelu.default")
def gelu(self: Any, approximate: str) -> Any:
    """`x` times the probability of less in a normal distribution, or its approximation by tanh."""
    return op.nn.gelu_tanh(self) if approximate == "tanh" else op.nn.gelu(self)


@aten("hardtanh.default")
def hardtanh(self: Any, min_val: Any, max_val: Any) -> Any:
    """Elements within limits."""
    return op.clip(self, min_val, max_val)


@aten("leaky_relu.default")
def leaky_relu(self: Any, negative_slope: Any) -> Any:
    """Negative elements times a slope."""
    return op.nn.leakyrelu(self, float(negative_slope))


@aten("elu.default")
def elu(self: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    """`scale * x`, or `scale * alpha * (exp(input_scale * x) - 1)` of negative elements."""
    if scale == 1 and input_scale == 1:
        return op.nn.elu(self, float(alpha))
    dtype = dtype_of(self)
    zero = as_tensor(0, dtype)
    curve = op.expm1(op.minimum(self, zero) * as_tensor(input_scale, dtype))
    value = op.where(op.greater(self, zero), self, curve * as_tensor(alpha, dtype))
    return value * as_tensor(scale, dtype)


@aten("celu.default")
def celu(self: Any, alpha: Any) -> Any:
    """`x`, or `alpha * (exp(x / alpha) - 1)` of negative elements."""
    return op.nn.celu(self, float(alpha))


@aten("softplus.default")
def softplus(self: Any, beta: Any, threshold: Any) -> Any:
    """`log(1 + exp(beta * x)) / beta`, and `x` beyond a threshold."""
    return op.nn.softplus(self, float(beta), float(threshold))


@aten("prelu.default", "_prelu_kernel.default")
def prelu(self: Any, weight: Any) -> Any:
    """Negative elements times the weight of their channel."""
    if tensor_info(weight).ndim == 1:
        is_one = tensor_info(weight).static_shape == (1,) or tensor_info(self).ndim < 2
        return op.nn.prelu(self, weight, None if is_one else 1)
    return op.where(op.greater(self, as_tensor(0, dtype_of(self))), self, self * weight)


@aten("hardshrink.default")
def hardshrink(self: Any, lambd: Any) -> Any:
    """0 for elements near 0."""
    return op.nn.hardshrink(self, float(lambd))


@aten("softshrink.default")
def softshrink(self: Any, lambd: Any) -> Any:
    """Elements moved towards 0 by a number; 0 for elements nearer than that."""
    return self - op.clip(self, -float(lambd), float(lambd))


@aten("threshold.default")
def threshold(self: Any, threshold: Any, value: Any) -> Any:
    """A value for elements that are not above a threshold."""
    return op.nn.threshold(self, float(threshold), float(value))


@aten("glu.default")
def glu(self: Any, dim: int) -> Any:
    """The first half along an axis times the sigmoid of the second."""
    return op.nn.glu(self, axis_of(dim, tensor_info(self).ndim))


def _declare_softmax(name: str, function: Callable[..., Any]) -> None:
    @aten(f"{name}.int", f"_{name}.default")
    def softmax(self: Any, dim: int, result: TensorStructInfo, **_: Any) -> Any:
        operand = as_tensor(self, str(result.dtype))
        if result.ndim == 0:
            return as_tensor(1 if name == "softmax" else 0, str(result.dtype))
        return function(operand, axis=axis_of(dim, result.ndim))


_declare_softmax("softmax", named("nn.softmax"))
_declare_softmax("log_softmax", named("nn.log_softmax"))
