"""Activations: elementwise functions, and gates of one half of a tensor by the other half."""

from __future__ import annotations

import math
from collections.abc import Callable

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const, floordiv
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import map_widened, sum_dtype
from tensorir.topi.broadcast import broadcast_shape, element, same_dtype
from tensorir.topi.elementwise import map_elements
from tensorir.topi.extents import axis_of, check_equal, check_floats, check_rank, simplified


def _of_floats(name: str, function: Callable[[PrimExpr], PrimExpr], x: Tensor) -> Tensor:
    check_floats("x", x)
    return map_widened(name, function, x)


def _clipped(v: PrimExpr, low: float, high: float) -> PrimExpr:
    # A comparison with NaN is false, which selects the second operand: NaN stays.
    return te.min(const(high, v.dtype), te.max(const(low, v.dtype), v))


def _expm1(v: PrimExpr) -> PrimExpr:
    """Return `exp(v) - 1`; near 0, where the difference would cancel, it is computed with tanh."""
    half = v * const(0.5, v.dtype)
    result: PrimExpr = te.tanh(half) * (te.exp(v) + const(1, v.dtype))
    return result


def _softplus(v: PrimExpr) -> PrimExpr:
    """Return `log(1 + exp(v))`, which does not overflow in this form."""
    zero = const(0, v.dtype)
    result: PrimExpr = te.max(v, zero) + te.log1p(te.exp(-te.abs(v)))
    return result


@operator("nn.relu")
def relu(x: Tensor) -> Tensor:
    """Return `max(x, 0)`; NaN stays."""
    return map_elements("relu", lambda v: te.max(const(0, x.dtype), v), x)


@operator("nn.relu6")
def relu6(x: Tensor) -> Tensor:
    """Return `min(max(x, 0), 6)`; NaN stays."""
    return map_elements("relu6", lambda v: _clipped(v, 0, 6), x)


@operator("nn.leakyrelu")
def leakyrelu(x: Tensor, alpha: float = 0.01) -> Tensor:
    """Return `x` where it is positive, elsewhere `alpha * x`."""
    return _of_floats(
        "leaky_relu",
        lambda v: te.Select(v > 0, v, v * const(alpha, v.dtype)),
        x,
    )


@operator("nn.prelu", dimension_order=order_of("axis"))
def prelu(x: Tensor, alpha: Tensor, axis: int | None = 1) -> Tensor:
    """Return `x` where it is positive, elsewhere `alpha * x`.

    `alpha` has a slope for each position along the axis; without an axis it broadcasts to `x`.
    """
    same_dtype(x, alpha)
    if axis is not None and alpha.ndim == 1 and x.ndim > 0:
        along = axis_of(axis, x.ndim) if x.ndim > 1 else 0
        check_equal(alpha.shape[0], "the length of alpha", x.shape[along], f"axis {axis} of x")

        def slope(*indices: PrimExpr) -> PrimExpr:
            return alpha[indices[along]]

    else:
        for n, m in zip(broadcast_shape(x.shape, alpha.shape), x.shape, strict=True):
            check_equal(n, "a dimension of the broadcast alpha", m, "that of x")

        def slope(*indices: PrimExpr) -> PrimExpr:
            return element(alpha, indices)

    zero = const(0, x.dtype)
    result: Tensor = te.compute(
        x.shape, lambda *i: te.Select(x[i] > zero, x[i], x[i] * slope(*i)), name="prelu"
    )
    return result


@operator("nn.elu")
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, elsewhere `alpha * (exp(x) - 1)` (Clevert et al., 2015)."""
    return _of_floats("elu", lambda v: _elu(v, alpha), x)


def _elu(v: PrimExpr, alpha: float) -> PrimExpr:
    zero = const(0, v.dtype)
    result: PrimExpr = te.Select(v > zero, v, const(alpha, v.dtype) * _expm1(te.min(zero, v)))
    return result


@operator("nn.selu")
def selu(x: Tensor, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    """Return `gamma * elu(x, alpha)` (Klambauer et al., 2017)."""
    return _of_floats("selu", lambda v: const(gamma, v.dtype) * _elu(v, alpha), x)


@operator("nn.celu")
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, elsewhere `alpha * (exp(x / alpha) - 1)` (Barron, 2017)."""

    def formula(v: PrimExpr) -> PrimExpr:
        zero = const(0, v.dtype)
        inner = _expm1(te.min(zero, v) / const(alpha, v.dtype))
        result: PrimExpr = te.Select(v > zero, v, const(alpha, v.dtype) * inner)
        return result

    return _of_floats("celu", formula, x)


@operator("nn.gelu")
def gelu(x: Tensor) -> Tensor:
    """Return `x * (0.5 + 0.5 * erf(x / sqrt(2)))` (Hendrycks and Gimpel, 2016)."""

    def formula(v: PrimExpr) -> PrimExpr:
        half = const(0.5, v.dtype)
        result: PrimExpr = v * (half + half * te.erf(v * const(math.sqrt(0.5), v.dtype)))
        return result

    return _of_floats("gelu", formula, x)


@operator("nn.gelu_tanh")
def gelu_tanh(x: Tensor) -> Tensor:
    """Return `0.5 * x * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x)))`, close to `gelu`."""

    def formula(v: PrimExpr) -> PrimExpr:
        one = const(1, v.dtype)
        inner = const(math.sqrt(2 / math.pi), v.dtype) * v
        inner = inner * (one + const(0.044715, v.dtype) * v * v)
        result: PrimExpr = const(0.5, v.dtype) * v * (one + te.tanh(inner))
        return result

    return _of_floats("gelu_tanh", formula, x)


@operator("nn.silu")
def silu(x: Tensor) -> Tensor:
    """Return `x * sigmoid(x)` (Elfwing et al., 2018)."""
    return _of_floats("silu", lambda v: v * te.sigmoid(v), x)


@operator("nn.swish")
def swish(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x * sigmoid(alpha * x)` (Ramachandran et al., 2017)."""
    return _of_floats("swish", lambda v: v * te.sigmoid(const(alpha, v.dtype) * v), x)


@operator("nn.mish")
def mish(x: Tensor) -> Tensor:
    """Return `x * tanh(softplus(x))` (Misra, 2019)."""
    return _of_floats("mish", lambda v: v * te.tanh(_softplus(v)), x)


@operator("nn.softplus")
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return `log(1 + exp(beta * x)) / beta`; where `beta * x` is above a threshold, `x`."""

    def formula(v: PrimExpr) -> PrimExpr:
        scaled = v * const(beta, v.dtype)
        soft = _softplus(scaled) / const(beta, v.dtype)
        result: PrimExpr = te.Select(scaled > const(threshold, v.dtype), v, soft)
        return result

    return _of_floats("softplus", formula, x)


@operator("nn.log_sigmoid")
def log_sigmoid(x: Tensor) -> Tensor:
    """Return the logarithm of `sigmoid(x)`."""

    def formula(v: PrimExpr) -> PrimExpr:
        result: PrimExpr = te.min(const(0, v.dtype), v) - te.log1p(te.exp(-te.abs(v)))
        return result

    return _of_floats("log_sigmoid", formula, x)


@operator("nn.softsign")
def softsign(x: Tensor) -> Tensor:
    """Return `x / (1 + abs(x))`."""
    return _of_floats("softsign", lambda v: v / (const(1, v.dtype) + te.abs(v)), x)


@operator("nn.hardsigmoid")
def hardsigmoid(x: Tensor, alpha: float = 1 / 6, beta: float = 0.5) -> Tensor:
    """Return `alpha * x + beta`, limited to the range 0 to 1."""
    return _of_floats(
        "hardsigmoid",
        lambda v: _clipped(const(alpha, v.dtype) * v + const(beta, v.dtype), 0, 1),
        x,
    )


@operator("nn.hardswish")
def hardswish(x: Tensor) -> Tensor:
    """Return `x * min(max(x + 3, 0), 6) / 6` (Howard et al., 2019)."""
    return _of_floats(
        "hardswish",
        lambda v: v * _clipped(v + const(3, v.dtype), 0, 6) * const(1 / 6, v.dtype),
        x,
    )


@operator("nn.hardtanh")
def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return `x`, limited to the range from `min_val` to `max_val`."""
    return map_elements("hardtanh", lambda v: _clipped(v, min_val, max_val), x)


@operator("nn.thresholded_relu")
def thresholded_relu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is above `alpha`, elsewhere 0 (Konda et al., 2014)."""
    return _of_floats(
        "thresholded_relu",
        lambda v: te.Select(v > const(alpha, v.dtype), v, const(0, v.dtype)),
        x,
    )


@operator("nn.threshold")
def threshold(x: Tensor, bound: float, value: float) -> Tensor:
    """Return `value` where `x` is at most a bound, elsewhere `x`; NaN stays."""
    return _of_floats(
        "threshold",
        lambda v: te.Select(v <= const(bound, v.dtype), const(value, v.dtype), v),
        x,
    )


@operator("nn.shrink")
def shrink(x: Tensor, lambd: float = 0.5, bias: float = 0.0) -> Tensor:
    """Return `x + bias` below `-lambd`, `x - bias` above `lambd`, and 0 between."""

    def formula(v: PrimExpr) -> PrimExpr:
        low, high = const(-lambd, v.dtype), const(lambd, v.dtype)
        by = const(bias, v.dtype)
        inner = te.Select(v > high, v - by, const(0, v.dtype))
        result: PrimExpr = te.Select(v < low, v + by, inner)
        return result

    return map_widened("shrink", formula, x)


@operator("nn.hardshrink")
def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """Return 0 where the absolute value of `x` is at most `lambd`, elsewhere `x`; NaN stays."""

    def formula(v: PrimExpr) -> PrimExpr:
        result: PrimExpr = te.Select(te.abs(v) <= const(lambd, v.dtype), const(0, v.dtype), v)
        return result

    return _of_floats("hardshrink", formula, x)


@operator("nn.tanhshrink")
def tanhshrink(x: Tensor) -> Tensor:
    """Return `x - tanh(x)`."""
    return _of_floats("tanhshrink", lambda v: v - te.tanh(v), x)


@operator("nn.bias_add", dimension_order=order_of("axis"))
def bias_add(data: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """Return `data` plus a number for each position along an axis."""
    same_dtype(data, bias)
    check_rank("bias", bias, 1)
    along = axis_of(axis, data.ndim)
    check_equal(bias.shape[0], "the length of bias", data.shape[along], f"axis {axis} of data")
    return te.compute(data.shape, lambda *i: data[i] + bias[i[along]], name="T_add")


@operator("nn.glu", dimension_order=order_of("axis"))
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Return the first half of an axis times the sigmoid of the second (Dauphin et al., 2016)."""
    check_floats("x", x)
    along = axis_of(axis, x.ndim)
    length = x.shape[along]
    if isinstance(length, IntImm) and length.value % 2:
        raise IRValueError(f"axis {axis} must have an even length, got {length.value}")
    half = simplified(floordiv(length, 2))
    wide = sum_dtype(x.dtype)

    def element(*i: PrimExpr) -> PrimExpr:
        value = cast(wide, x[i])
        gate = cast(wide, x[(*i[:along], i[along] + half, *i[along + 1 :])])
        return cast(x.dtype, value * te.sigmoid(gate))

    return te.compute([*x.shape[:along], half, *x.shape[along + 1 :]], element, name="T_glu")
