"""Arithmetic, comparisons, logic and functions of single elements.

Operands are first converted to the dtype that torch computes in; a number has the dtype of the
tensor that it is combined with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, common_dtype, dtype_of
from tensorir.frontend.torch.table import aten
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo


def named(name: str) -> Callable[..., Any]:
    """Return the operator of a name such as `nn.relu`, looked up when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        found: Any = op
        for part in name.split("."):
            found = getattr(found, part)
        return found(*args, **kwargs)

    return call


def _is_float(dtype: Any) -> bool:
    return str(dtype).startswith(("float", "bfloat"))


def computed(name: str, *operands: Any) -> Any:
    """Return an operator applied to operands in the dtype that torch computes in."""
    dtype = common_dtype(*operands)
    return named(name)(*(as_tensor(x, dtype) for x in operands))


def _scaled(value: Any, alpha: Any, dtype: str) -> GraphExpr:
    tensor = as_tensor(value, dtype)
    return tensor if alpha == 1 else tensor * as_tensor(alpha, dtype)


# ------------------------------------------------------------------------------------- arithmetic


@aten("add.Tensor", "add.Scalar")
def add(self: Any, other: Any, alpha: Any, result: TensorStructInfo) -> Any:
    """`self + alpha * other`; for bools, logical or."""
    dtype = str(result.dtype)
    if dtype == "bool":
        return op.logical_or(as_tensor(self, dtype), as_tensor(other, dtype))
    return as_tensor(self, dtype) + _scaled(other, alpha, dtype)


@aten("sub.Tensor", "sub.Scalar")
def sub(self: Any, other: Any, alpha: Any, result: TensorStructInfo) -> Any:
    """`self - alpha * other`."""
    dtype = str(result.dtype)
    return as_tensor(self, dtype) - _scaled(other, alpha, dtype)


@aten("rsub.Tensor", "rsub.Scalar")
def rsub(self: Any, other: Any, alpha: Any, result: TensorStructInfo) -> Any:
    """`other - alpha * self`."""
    dtype = str(result.dtype)
    return as_tensor(other, dtype) - _scaled(self, alpha, dtype)


@aten("mul.Tensor", "mul.Scalar")
def mul(self: Any, other: Any, result: TensorStructInfo) -> Any:
    """`self * other`; for bools, logical and."""
    dtype = str(result.dtype)
    a, b = as_tensor(self, dtype), as_tensor(other, dtype)
    return op.logical_and(a, b) if dtype == "bool" else a * b


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(self: Any, other: Any, result: TensorStructInfo) -> Any:
    """`self / other` as floating-point numbers."""
    dtype = str(result.dtype)
    return as_tensor(self, dtype) / as_tensor(other, dtype)


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(self: Any, other: Any, rounding_mode: str | None, result: TensorStructInfo) -> Any:
    """`self / other`, rounded down or towards 0."""
    dtype = str(result.dtype)
    a, b = as_tensor(self, dtype), as_tensor(other, dtype)
    if rounding_mode == "floor":
        return op.floor_divide(a, b)
    quotient = a / b
    return op.trunc(quotient) if rounding_mode == "trunc" and _is_float(dtype) else quotient


@aten("floor_divide.default", "floor_divide.Scalar")
def floor_divide(self: Any, other: Any) -> Any:
    """`self // other`."""
    return computed("floor_divide", self, other)


@aten("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(self: Any, other: Any) -> Any:
    """The remainder with the sign of the divisor."""
    return computed("floor_mod", self, other)


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(self: Any, other: Any) -> Any:
    """The remainder with the sign of the dividend."""
    return computed("mod", self, other)


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


@aten("maximum.default", "max.other")
def maximum(self: Any, other: Any) -> Any:
    """The greater of two elements."""
    return computed("maximum", self, other)


@aten("minimum.default", "min.other")
def minimum(self: Any, other: Any) -> Any:
    """The lesser of two elements."""
    return computed("minimum", self, other)


@aten("atan2.default")
def atan2(self: Any, other: Any, result: TensorStructInfo) -> Any:
    """The angle of the point `(other, self)`."""
    dtype = str(result.dtype)
    return op.atan2(as_tensor(self, dtype), as_tensor(other, dtype))


@aten("addcmul.default")
def addcmul(self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    """`self + value * tensor1 * tensor2`."""
    return self + _scaled(tensor1, value, dtype_of(self)) * tensor2


@aten("addcdiv.default")
def addcdiv(self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    """`self + value * tensor1 / tensor2`."""
    return self + _scaled(tensor1, value, dtype_of(self)) / tensor2


@aten("lerp.Tensor", "lerp.Scalar")
def lerp(self: Any, end: Any, weight: Any) -> Any:
    """`self + weight * (end - self)`."""
    return self + as_tensor(weight, dtype_of(self)) * (end - self)


# --------------------------------------------------------------------------- comparisons, logic

_COMPARISONS: Final = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


def _declare_comparison(name: str, operator: str) -> None:
    @aten(f"{name}.Tensor", f"{name}.Scalar")
    def compare(self: Any, other: Any) -> Any:
        return computed(operator, self, other)


def _declare_bitwise(names: list[str], logical: str, bitwise: str) -> None:
    @aten(*names)
    def combine(self: Any, other: Any) -> Any:
        dtype = common_dtype(self, other)
        return named(logical if dtype == "bool" else bitwise)(
            as_tensor(self, dtype), as_tensor(other, dtype)
        )


def _declare_logical(name: str) -> None:
    @aten(f"{name}.default")
    def combine(self: Any, other: Any) -> Any:
        return named(name)(as_tensor(self, "bool"), as_tensor(other, "bool"))


for _name, _operator in _COMPARISONS.items():
    _declare_comparison(_name, _operator)
for _name in ("and", "or", "xor"):
    _overloads = ("Tensor", "Scalar")
    _declare_bitwise(
        [f"bitwise_{_name}.{o}" for o in _overloads] + [f"__{_name}__.{o}" for o in _overloads],
        f"logical_{_name}",
        f"bitwise_{_name}",
    )
    _declare_logical(f"logical_{_name}")


@aten("logical_not.default")
def logical_not(self: Any) -> Any:
    """True where an element is false or 0."""
    return op.logical_not(as_tensor(self, "bool"))


@aten("bitwise_not.default")
def bitwise_not(self: Any) -> Any:
    """All bits inverted; for bools, logical not."""
    return op.logical_not(self) if dtype_of(self) == "bool" else op.bitwise_not(self)


@aten("bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar")
def left_shift(self: Any, other: Any) -> Any:
    """`self << other`."""
    return computed("left_shift", self, other)


@aten("bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar")
def right_shift(self: Any, other: Any) -> Any:
    """`self >> other`."""
    return computed("right_shift", self, other)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(condition: Any, self: Any, other: Any, result: TensorStructInfo) -> Any:
    """`self` where a condition holds, else `other`."""
    dtype = str(result.dtype)
    return op.where(as_tensor(condition, "bool"), as_tensor(self, dtype), as_tensor(other, dtype))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(self: Any, mask: Any, value: Any) -> Any:
    """`value` where a mask is true, else `self`."""
    return op.where(mask, as_tensor(value, dtype_of(self)), self)


# --------------------------------------------------------------------- functions of one element

_OF_FLOATS: Final = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "log", "log2",
    "log10", "log1p", "expm1", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
"""Functions that return floating-point numbers also for integers."""
_OF_ANY: Final = {
    "abs": "abs",
    "square": "square",
}
_ROUNDING: Final = ("ceil", "floor", "round", "trunc")


def _declare_float(name: str) -> None:
    @aten(f"{name}.default")
    def function(self: Any, result: TensorStructInfo) -> Any:
        return named(name)(as_tensor(self, str(result.dtype)))


def _declare_any(name: str, operator: str) -> None:
    @aten(f"{name}.default")
    def function(self: Any) -> Any:
        return named(operator)(self)


def _declare_rounding(name: str) -> None:
    @aten(f"{name}.default", *(["fix.default"] if name == "trunc" else []))
    def function(self: Any) -> Any:
        return named(name)(self) if _is_float(dtype_of(self)) else self


def _declare_test(name: str, of_integers: bool) -> None:
    @aten(f"{name}.default")
    def function(self: Any, result: TensorStructInfo) -> Any:
        if _is_float(dtype_of(self)):
            return named(name)(self)
        return op.full(result.shape, as_tensor(of_integers, "bool"), "bool")


for _name in _OF_FLOATS:
    _declare_float(_name)
for _name, _operator in _OF_ANY.items():
    _declare_any(_name, _operator)
for _name in _ROUNDING:
    _declare_rounding(_name)
for _name in ("isnan", "isinf", "isfinite"):
    _declare_test(_name, _name == "isfinite")


@aten("sign.default", "sgn.default")
def sign(self: Any) -> Any:
    """1, 0 or -1; 0 for NaN, unlike NumPy."""
    dtype = dtype_of(self)
    value = op.sign(self)
    return op.where(op.isnan(self), as_tensor(0, dtype), value) if _is_float(dtype) else value


@aten("neg.default", "_neg_view.default")
def neg(self: Any) -> Any:
    """`-self`."""
    return -self


@aten("reciprocal.default")
def reciprocal(self: Any, result: TensorStructInfo) -> Any:
    """`1 / self`."""
    dtype = str(result.dtype)
    return as_tensor(1, dtype) / as_tensor(self, dtype)


@aten("round.decimals")
def round_decimals(self: Any, decimals: int) -> Any:
    """Elements rounded to a number of decimals."""
    factor = as_tensor(10.0**decimals, dtype_of(self))
    return op.round(self * factor) / factor


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


@aten("clamp_min.default", "clamp_min.Tensor")
def clamp_min(self: Any, min: Any, result: TensorStructInfo) -> Any:
    """Elements of at least a limit."""
    return clamp(self, min, None, result)


@aten("clamp_max.default", "clamp_max.Tensor")
def clamp_max(self: Any, max: Any, result: TensorStructInfo) -> Any:
    """Elements of at most a limit."""
    return clamp(self, None, max, result)


# ------------------------------------------------------------------------------------------ casts


@aten("_to_copy.default", "to.dtype", "to.dtype_layout", "to.device")
def to_copy(self: Any, dtype: str | None) -> Any:
    """Elements converted to another dtype."""
    return self if dtype is None else as_tensor(self, dtype)


@aten("type_as.default", "to.other")
def type_as(self: Any, other: Any) -> Any:
    """Elements converted to the dtype of another tensor."""
    return as_tensor(self, dtype_of(other))


@aten("view.dtype")
def view_dtype(self: Any, dtype: str) -> Any:
    """The bits of elements, read as another dtype."""
    if dtype == dtype_of(self):
        return self
    raise IRTypeError("a view of the bits of elements as another dtype is not supported")
