"""Activations: elementwise functions, and gated units."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Final

from tensorir import te
from tensorir.errors import IRValueError
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const, floordiv
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes as order_of
from tensorir.te.tensor import Tensor
from tensorir.topi.broadcast import broadcast_shape, element, same_dtype, sum_dtype
from tensorir.topi.extents import axis_of, check_equal, check_floats, check_rank, simplified


def _const_like(v: PrimExpr, number: float) -> PrimExpr:
    return const(number, v.dtype)


def _clip(v: PrimExpr, low: float, high: float) -> Any:
    # A comparison with NaN is false and selects the second operand, so NaN is kept.
    return te.min(_const_like(v, high), te.max(_const_like(v, low), v))


def _expm1(v: PrimExpr) -> PrimExpr:
    """Return `exp(v) - 1`.

    Near 0 it is computed by tanh, because the difference would lose digits.
    """
    result: PrimExpr = te.tanh(v * _const_like(v, 0.5)) * (te.exp(v) + _const_like(v, 1))
    return result


def _softplus(v: PrimExpr, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = v * _const_like(v, beta)
    return te.Select(
        scaled > _const_like(v, threshold), v, _log_1_exp(scaled) / _const_like(v, beta)
    )


def _log_1_exp(v: PrimExpr) -> PrimExpr:
    """Return `log(1 + exp(v))`, which does not overflow in this form."""
    result: PrimExpr = te.max(v, _const_like(v, 0)) + te.log1p(te.exp(-te.abs(v)))
    return result


def _elu(v: PrimExpr, alpha: float = 1.0) -> Any:
    zero = _const_like(v, 0)
    return te.Select(v > zero, v, _const_like(v, alpha) * _expm1(te.min(zero, v)))


def _celu(v: PrimExpr, alpha: float = 1.0) -> Any:
    zero = _const_like(v, 0)
    inner = _expm1(te.min(zero, v) / _const_like(v, alpha))
    return te.Select(v > zero, v, _const_like(v, alpha) * inner)


def _gelu(v: PrimExpr) -> Any:
    half = _const_like(v, 0.5)
    return v * (half + half * te.erf(v * _const_like(v, math.sqrt(0.5))))


def _gelu_tanh(v: PrimExpr) -> Any:
    one = _const_like(v, 1)
    inner = _const_like(v, math.sqrt(2 / math.pi)) * v
    inner = inner * (one + _const_like(v, 0.044715) * v * v)
    return _const_like(v, 0.5) * v * (one + te.tanh(inner))


def _shrink(v: PrimExpr, lambd: float = 0.5, bias: float = 0.0) -> Any:
    by = _const_like(v, bias)
    inner = te.Select(v > _const_like(v, lambd), v - by, _const_like(v, 0))
    return te.Select(v < _const_like(v, -lambd), v + by, inner)


_FUNCTIONS: Final[dict[str, tuple[Callable[..., PrimExpr], str]]] = {
    "relu": (lambda v: te.max(_const_like(v, 0), v), "`max(x, 0)`; NaN is kept"),
    "relu6": (lambda v: _clip(v, 0, 6), "`min(max(x, 0), 6)`; NaN is kept"),
    "hardtanh": (
        lambda v, min_val=-1.0, max_val=1.0: _clip(v, min_val, max_val),
        "`x`, limited to the range from `min_val` to `max_val`",
    ),
    "shrink": (_shrink, "`x + bias` below `-lambd`, `x - bias` above `lambd`, and 0 between"),
    "leakyrelu": (
        lambda v, alpha=0.01: te.Select(v > 0, v, v * _const_like(v, alpha)),
        "`x` where it is positive, elsewhere `alpha * x`",
    ),
    "elu": (
        _elu,
        "`x` where it is positive, elsewhere `alpha * (exp(x) - 1)` (Clevert et al., 2015)",
    ),
    "selu": (
        lambda v, alpha=1.6732632423543772, gamma=1.0507009873554805: (
            _const_like(v, gamma) * _elu(v, alpha)
        ),
        "`gamma * elu(x, alpha)` (Klambauer et al., 2017)",
    ),
    "celu": (
        _celu,
        "`x` where it is positive, elsewhere `alpha * (exp(x / alpha) - 1)` (Barron, 2017)",
    ),
    "gelu": (_gelu, "`x * (0.5 + 0.5 * erf(x / sqrt(2)))` (Hendrycks and Gimpel, 2016)"),
    "gelu_tanh": (
        _gelu_tanh,
        "`0.5 * x * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x)))`, close to `gelu`",
    ),
    "silu": (lambda v: v * te.sigmoid(v), "`x * sigmoid(x)` (Elfwing et al., 2018)"),
    "swish": (
        lambda v, alpha=1.0: v * te.sigmoid(_const_like(v, alpha) * v),
        "`x * sigmoid(alpha * x)` (Ramachandran et al., 2017)",
    ),
    "mish": (lambda v: v * te.tanh(_log_1_exp(v)), "`x * tanh(softplus(x))` (Misra, 2019)"),
    "softplus": (
        _softplus,
        "`log(1 + exp(beta * x)) / beta`; where `beta * x` is above a threshold, `x`",
    ),
    "log_sigmoid": (
        lambda v: te.min(_const_like(v, 0), v) - te.log1p(te.exp(-te.abs(v))),
        "the logarithm of `sigmoid(x)`",
    ),
    "softsign": (lambda v: v / (_const_like(v, 1) + te.abs(v)), "`x / (1 + abs(x))`"),
    "hardsigmoid": (
        lambda v, alpha=1 / 6, beta=0.5: _clip(
            _const_like(v, alpha) * v + _const_like(v, beta), 0, 1
        ),
        "`alpha * x + beta`, limited to the range 0 to 1",
    ),
    "hardswish": (
        lambda v: v * _clip(v + _const_like(v, 3), 0, 6) * _const_like(v, 1 / 6),
        "`x * min(max(x + 3, 0), 6) / 6` (Howard et al., 2019)",
    ),
    "thresholded_relu": (
        lambda v, alpha=1.0: te.Select(v > _const_like(v, alpha), v, _const_like(v, 0)),
        "`x` where it is above `alpha`, elsewhere 0 (Konda et al., 2014)",
    ),
    "threshold": (
        lambda v, bound, value: te.Select(v <= _const_like(v, bound), _const_like(v, value), v),
        "`value` where `x` is at most a bound, elsewhere `x`; NaN is kept",
    ),
    "hardshrink": (
        lambda v, lambd=0.5: te.Select(te.abs(v) <= _const_like(v, lambd), _const_like(v, 0), v),
        "0 where the absolute value of `x` is at most `lambd`, elsewhere `x`; NaN is kept",
    ),
    "tanhshrink": (lambda v: v - te.tanh(v), "`x - tanh(x)`"),
}
_IN_OWN_DTYPE: Final = ("relu", "relu6", "hardtanh")
"""Functions that only compare.

The other functions compute narrow floats in the dtype of `sum_dtype`.
"""
_OF_INTEGERS: Final = (*_IN_OWN_DTYPE, "shrink")
"""Functions that accept any numbers; the other functions need floats."""


def _declare(name: str, function: Callable[..., PrimExpr], what: str) -> None:
    def formula(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if name not in _OF_INTEGERS:
            check_floats("x", x)
        wide = x.dtype if name in _IN_OWN_DTYPE else sum_dtype(x.dtype)

        def value(*i: PrimExpr) -> PrimExpr:
            return cast(x.dtype, function(cast(wide, x[i]), *args, **kwargs))

        return te.compute(x.shape, value, name=name)

    _, *numbers = inspect.signature(function).parameters.values()
    x = inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    formula.__signature__ = inspect.Signature([x, *numbers])  # type: ignore[attr-defined]
    formula.__annotations__ = {"x": Tensor, **dict.fromkeys((p.name for p in numbers), float)}
    formula.__name__, formula.__doc__ = name, f"Return {what}."
    operator(f"nn.{name}")(formula)


for _name, _row in _FUNCTIONS.items():
    _declare(_name, *_row)


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
