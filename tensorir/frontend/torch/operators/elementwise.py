"""Elementwise operators: arithmetic, comparisons, logic, functions, activations, casts.

Operands are first converted to the dtype that torch computes in; a number has the dtype of the
tensor that it is combined with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import (
    as_tensor,
    axis_of,
    common_dtype,
    dtype_of,
    in_dtype_of,
    is_float,
    tensor_info,
)
from tensorir.frontend.torch.table import aten, aten_rows, converter
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo

Operator = Callable[..., Any]


def _promoted(operator: Operator) -> Operator:
    """Return a converter that computes in the common dtype of two operands."""

    def convert(self: Any, other: Any) -> Any:
        dtype = common_dtype(self, other)
        return operator(as_tensor(self, dtype), as_tensor(other, dtype))

    return convert


def _in_result_dtype(operator: Operator) -> Operator:
    """Return a converter that computes in the dtype of the result."""
    return lambda self, result: operator(*in_dtype_of(result, self))


def _bits(logical: Operator, bitwise: Operator) -> Operator:
    """Return a converter to a bitwise operator, or to a logical one for bools."""
    return _promoted(lambda a, b: (logical if dtype_of(a) == "bool" else bitwise)(a, b))


def _ignoring_nan(operator: Operator) -> Operator:
    """Return a converter that selects the other operand of a NaN."""

    def choose(a: Any, b: Any) -> Any:
        if not is_float(dtype_of(a)):
            return operator(a, b)
        return op.where(op.isnan(a), b, op.where(op.isnan(b), a, operator(a, b)))

    return _promoted(choose)


def _of_bools(operator: Operator) -> Operator:
    return lambda self, other: operator(as_tensor(self, "bool"), as_tensor(other, "bool"))


def _rounding(operator: Operator) -> Operator:
    return lambda self: operator(self) if is_float(dtype_of(self)) else self


def _predicate(operator: Operator, of_integers: bool) -> Operator:
    """Return a converter to a predicate on floats; for integers it is `of_integers`."""
    return lambda self, result: (
        operator(self)
        if is_float(dtype_of(self))
        else op.full(result.shape, as_tensor(of_integers, "bool"), "bool")
    )


def _scale(value: Any, alpha: Any, dtype: str) -> GraphExpr:
    tensor = as_tensor(value, dtype)
    return tensor if alpha == 1 else tensor * as_tensor(alpha, dtype)


@aten("add.Tensor", "add.Scalar")
def add(self: Any, other: Any, alpha: Any, result: TensorStructInfo) -> Any:
    """`self + alpha * other`; for bools, logical or."""
    dtype = str(result.dtype)
    if dtype == "bool":
        return op.logical_or(as_tensor(self, dtype), as_tensor(other, dtype))
    return as_tensor(self, dtype) + _scale(other, alpha, dtype)


@aten("mul.Tensor", "mul.Scalar")
def mul(self: Any, other: Any, result: TensorStructInfo) -> Any:
    """`self * other`; for bools, logical and."""
    a, b = in_dtype_of(result, self, other)
    return op.logical_and(a, b) if result.dtype == "bool" else a * b


def _difference(a: Any, b: Any, alpha: Any, result: TensorStructInfo) -> Any:
    dtype = str(result.dtype)
    return as_tensor(a, dtype) - _scale(b, alpha, dtype)


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(self: Any, other: Any, rounding_mode: str | None, result: TensorStructInfo) -> Any:
    """`self / other`, rounded down or towards 0."""
    a, b = in_dtype_of(result, self, other)
    if rounding_mode == "floor":
        return op.floor_divide(a, b)
    quotient = a / b
    return op.trunc(quotient) if rounding_mode == "trunc" and is_float(result.dtype) else quotient


@aten("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def power(self: Any, exponent: Any, result: TensorStructInfo) -> Any:
    """`self ** exponent`."""
    dtype = str(result.dtype)
    if not isinstance(exponent, GraphExpr) and isinstance(self, GraphExpr):
        base = as_tensor(self, dtype)
        if exponent == 1:
            return base
        if exponent in (2, 3):
            return base * base if exponent == 2 else base * base * base
        if exponent in (0.5, -0.5):
            return op.sqrt(base) if exponent > 0 else op.rsqrt(base)
    return op.power(as_tensor(self, dtype), as_tensor(exponent, dtype))


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


@aten("prelu.default", "_prelu_kernel.default")
def prelu(self: Any, weight: Any) -> Any:
    """Negative elements times the weight of their channel."""
    if tensor_info(weight).ndim == 1:
        is_one = tensor_info(weight).static_shape == (1,) or tensor_info(self).ndim < 2
        return op.nn.prelu(self, weight, None if is_one else 1)
    return op.where(op.greater(self, as_tensor(0, dtype_of(self))), self, self * weight)


@aten("clamp.default", "clamp.Tensor", "clip.default", "clip.Tensor")
def clamp(self: Any, min: Any, max: Any, result: TensorStructInfo) -> Any:
    """Elements within limits; a limit may be left out."""
    dtype = str(result.dtype)
    value = as_tensor(self, dtype)
    if isinstance(min, (int, float)) and isinstance(max, (int, float)):
        return op.clip(value, min, max)
    if min is not None:
        value = op.maximum(value, as_tensor(min, dtype))
    return value if max is None else op.minimum(value, as_tensor(max, dtype))


def _softmax(operator: Operator, of_one: int) -> Operator:
    """Return the converter of a softmax; `of_one` is its value for a tensor without dimensions."""

    def convert(self: Any, dim: int, result: TensorStructInfo, **_: Any) -> Any:
        (operand,) = in_dtype_of(result, self)
        if result.ndim == 0:
            return as_tensor(of_one, str(result.dtype))
        return operator(operand, axis=axis_of(dim, operand))

    return convert


def _sign(self: Any) -> Any:
    """1, 0 or -1; 0 for NaN, unlike NumPy."""
    dtype, value = dtype_of(self), op.sign(self)
    return op.where(op.isnan(self), as_tensor(0, dtype), value) if is_float(dtype) else value


def _round_decimals(self: Any, decimals: int) -> Any:
    factor = as_tensor(10.0**decimals, dtype_of(self))
    return op.round(self * factor) / factor


@aten("view.dtype")
def view_dtype(self: Any, dtype: str) -> Any:
    """The bits of elements, read as another dtype."""
    if dtype == dtype_of(self):
        return self
    raise IRTypeError("a view as another dtype is not supported")


@converter("prims.convert_element_type.default")
def convert_element_type(a: Any, dtype: str) -> Any:
    """Elements in another dtype."""
    return as_tensor(a, dtype)


_OF_FLOATS: Final = (
    op.acos, op.acosh, op.asin, op.asinh, op.atan, op.atanh, op.cos, op.cosh, op.erf, op.erfc,
    op.exp, op.expm1, op.lgamma, op.log, op.log2, op.log10, op.log1p, op.rsqrt, op.sigmoid, op.sin,
    op.sinh, op.sqrt, op.tan, op.tanh,
)  # fmt: skip
"""Functions that return floating-point numbers for integers as well."""

aten_rows({f"{f.short_name}.default": _in_result_dtype(f) for f in _OF_FLOATS})
aten_rows(
    {
        "sub.Tensor sub.Scalar": lambda self, other, alpha, result: _difference(
            self, other, alpha, result
        ),
        "rsub.Tensor rsub.Scalar": lambda self, other, alpha, result: _difference(
            other, self, alpha, result
        ),
        "div.Tensor div.Scalar true_divide.Tensor": lambda self, other, result: op.divide(
            *in_dtype_of(result, self, other)
        ),
        "floor_divide.default floor_divide.Scalar": _promoted(op.floor_divide),
        "remainder.Tensor remainder.Scalar remainder.Scalar_Tensor": _promoted(op.floor_mod),
        "fmod.Tensor fmod.Scalar": _promoted(op.mod),
        "maximum.default max.other": _promoted(op.maximum),
        "minimum.default min.other": _promoted(op.minimum),
        "fmax.default": _ignoring_nan(op.maximum),
        "fmin.default": _ignoring_nan(op.minimum),
        "exp2.default": lambda self, result: op.power(*in_dtype_of(result, 2, self)),
        "atan2.default": lambda self, other, result: op.atan2(*in_dtype_of(result, self, other)),
        "copysign.Tensor copysign.Scalar": lambda self, other, result: op.copysign(
            *in_dtype_of(result, self, other)
        ),
        "eq.Tensor eq.Scalar": _promoted(op.equal),
        "ne.Tensor ne.Scalar": _promoted(op.not_equal),
        "lt.Tensor lt.Scalar": _promoted(op.less),
        "le.Tensor le.Scalar": _promoted(op.less_equal),
        "gt.Tensor gt.Scalar": _promoted(op.greater),
        "ge.Tensor ge.Scalar": _promoted(op.greater_equal),
        "bitwise_and.Tensor bitwise_and.Scalar __and__.Tensor __and__.Scalar": _bits(
            op.logical_and, op.bitwise_and
        ),
        "bitwise_or.Tensor bitwise_or.Scalar __or__.Tensor __or__.Scalar": _bits(
            op.logical_or, op.bitwise_or
        ),
        "bitwise_xor.Tensor bitwise_xor.Scalar __xor__.Tensor __xor__.Scalar": _bits(
            op.logical_xor, op.bitwise_xor
        ),
        "logical_and.default": _of_bools(op.logical_and),
        "logical_or.default": _of_bools(op.logical_or),
        "logical_xor.default": _of_bools(op.logical_xor),
        "logical_not.default": lambda self: op.logical_not(as_tensor(self, "bool")),
        "bitwise_not.default": lambda self: (
            op.logical_not(self) if dtype_of(self) == "bool" else op.bitwise_not(self)
        ),
        "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar __lshift__.Tensor "
        "__lshift__.Scalar": _promoted(op.left_shift),
        "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar __rshift__.Tensor "
        "__rshift__.Scalar": _promoted(op.right_shift),
        "where.self where.ScalarOther where.ScalarSelf where.Scalar": (
            lambda condition, self, other, result: op.where(
                as_tensor(condition, "bool"), *in_dtype_of(result, self, other)
            )
        ),
        "masked_fill.Scalar masked_fill.Tensor": lambda self, mask, value: op.where(
            mask, as_tensor(value, dtype_of(self)), self
        ),
        "abs.default": lambda self: op.abs(self),
        "square.default": lambda self, result: op.square(*in_dtype_of(result, self)),
        "ceil.default": _rounding(op.ceil),
        "floor.default": _rounding(op.floor),
        "round.default": _rounding(op.round),
        "round.decimals": _round_decimals,
        "trunc.default fix.default": _rounding(op.trunc),
        "isnan.default": _predicate(op.isnan, False),
        "isinf.default": _predicate(op.isinf, False),
        "isfinite.default": _predicate(op.isfinite, True),
        "sign.default sgn.default": _sign,
        "neg.default _neg_view.default": lambda self: -self,
        "reciprocal.default": lambda self, result: op.divide(*in_dtype_of(result, 1, self)),
        "clamp_min.default clamp_min.Tensor": lambda self, min, result: clamp(
            self, min, None, result
        ),
        "clamp_max.default clamp_max.Tensor": lambda self, max, result: clamp(
            self, None, max, result
        ),
        "_to_copy.default to.dtype to.dtype_layout to.device": lambda self, dtype: (
            self if dtype is None else as_tensor(self, dtype)
        ),
        "type_as.default to.other": lambda self, other: as_tensor(self, dtype_of(other)),
        "relu.default": lambda self: op.nn.relu(self),
        "relu6.default": lambda self: op.nn.relu6(self),
        "silu.default": lambda self: op.nn.silu(self),
        "mish.default": lambda self: op.nn.mish(self),
        "hardswish.default": lambda self: op.nn.hardswish(self),
        "hardsigmoid.default": lambda self: op.nn.hardsigmoid(self),
        "selu.default": lambda self: op.nn.selu(self),
        "log_sigmoid.default": lambda self: op.nn.log_sigmoid(self),
        "gelu.default": lambda self, approximate: (
            op.nn.gelu_tanh(self) if approximate == "tanh" else op.nn.gelu(self)
        ),
        "hardtanh.default": lambda self, min_val, max_val: op.clip(self, min_val, max_val),
        "leaky_relu.default": lambda self, negative_slope: op.nn.leakyrelu(
            self, float(negative_slope)
        ),
        "celu.default": lambda self, alpha: op.nn.celu(self, float(alpha)),
        "softplus.default": lambda self, beta, threshold: op.nn.softplus(
            self, float(beta), float(threshold)
        ),
        "hardshrink.default": lambda self, lambd: op.nn.hardshrink(self, float(lambd)),
        "softshrink.default": lambda self, lambd: self - op.clip(self, -float(lambd), float(lambd)),
        "threshold.default": lambda self, threshold, value: op.nn.threshold(
            self, float(threshold), float(value)
        ),
        "glu.default": lambda self, dim: op.nn.glu(self, axis_of(dim, self)),
        "softmax.int _softmax.default": _softmax(op.nn.softmax, 1),
        "log_softmax.int _log_softmax.default": _softmax(op.nn.log_softmax, 0),
    }
)
