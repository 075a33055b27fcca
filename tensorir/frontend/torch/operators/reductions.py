"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, tensor_info
from tensorir.frontend.torch.operators.arithmetic import named
from tensorir.frontend.torch.operators.shapes import axis_of, in_shape, listed
from tensorir.frontend.torch.table import aten
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr
from tensorir.relax.struct_info import TensorStructInfo, TupleStructInfo
from tensorir.topi.extents import product


def axes_of(dim: Any, self: GraphExpr) -> list[int]:
    """Return the reduced axes: all axes by default."""
    ndim = tensor_info(self).ndim
    axes = [] if dim is None else listed(dim)
    return [axis_of(d, ndim) for d in axes] if axes else list(range(ndim))


def _reduced(name: str, self: GraphExpr, dim: Any, keepdim: bool) -> GraphExpr:
    axes = axes_of(dim, self)
    if tensor_info(self).ndim == 0:
        return self
    made: GraphExpr = named(name)(self, axes, keepdims=keepdim)
    return made


def _declare(name: str, *overloads: str, converts: bool) -> None:
    """Declare a reduction; if it `converts`, it computes in the dtype of the result."""

    @aten(*overloads)
    def reduction(
        self: Any, result: TensorStructInfo, dim: Any = None, keepdim: bool = False, **_: Any
    ) -> Any:
        operand = as_tensor(self, str(result.dtype)) if converts else self
        return _reduced(name, operand, dim, keepdim)


_declare("sum", "sum.default", "sum.dim_IntList", converts=True)
_declare("mean", "mean.default", "mean.dim", converts=True)
_declare("prod", "prod.default", "prod.dim_int", converts=True)
_declare("max", "amax.default", "max.default", converts=False)
_declare("min", "amin.default", "min.default", converts=False)


def _declare_logical(name: str) -> None:
    @aten(f"{name}.default", f"{name}.dim", f"{name}.dims")
    def reduction(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return _reduced(name, as_tensor(self, "bool"), dim, keepdim)


_declare_logical("any")
_declare_logical("all")


def _declare_arg(name: str) -> None:
    @aten(f"{name}.default")
    def reduction(self: Any, dim: int | None, keepdim: bool, result: TensorStructInfo) -> Any:
        if dim is None:
            index = named(name)(op.flatten(self), 0)
            return in_shape(index, result.shape) if keepdim else index
        return named(name)(self, axis_of(dim, tensor_info(self).ndim), keepdims=keepdim)


_declare_arg("argmax")
_declare_arg("argmin")


def _declare_both(name: str) -> None:
    @aten(f"{name}.dim")
    def reduction(self: Any, dim: int, keepdim: bool) -> Any:
        axis = axis_of(dim, tensor_info(self).ndim)
        return named(name)(self, [axis], keepdims=keepdim), named(f"arg{name}")(
            self, axis, keepdims=keepdim
        )


_declare_both("max")
_declare_both("min")


def _count(self: GraphExpr, axes: list[int]) -> PrimExpr | int:
    """Return the number of elements along axes."""
    shape = tensor_info(self).shape or ()
    count = product([shape[axis] for axis in axes])
    return count.value if isinstance(count, IntImm) else count


def _variance(self: Any, dim: Any, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    """Return the variance and the mean along axes.

    The sum of squared differences is divided by the number of elements less `correction`.
    """
    axes = axes_of(dim, self)
    value: GraphExpr = op.variance(self, axes, keepdims=keepdim)
    less = int(1 if correction is None else correction)
    if less:
        dtype = dtype_of(self)
        count = as_tensor(_count(self, axes), dtype)
        value = value * (count / (count - as_tensor(less, dtype)))
    return value, op.mean(self, axes, keepdims=keepdim)


def _declare_variance(name: str, chosen: Callable[[Any, Any], Any]) -> None:
    """Declare a function of variance and mean; there are three forms of each."""

    @aten(f"{name}.correction")
    def corrected(self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
        return chosen(*_variance(self, dim, correction, keepdim))

    @aten(f"{name}.dim", f"{name}.default")
    def unbiased(self: Any, unbiased: bool, dim: Any = None, keepdim: bool = False) -> Any:
        return chosen(*_variance(self, dim, int(unbiased), keepdim))


_declare_variance("var", lambda var, mean: var)
_declare_variance("std", lambda var, mean: op.sqrt(var))
_declare_variance("var_mean", lambda var, mean: (var, mean))
_declare_variance("std_mean", lambda var, mean: (op.sqrt(var), mean))


@aten("logsumexp.default")
def logsumexp(self: Any, dim: Any, keepdim: bool) -> Any:
    """The logarithm of the sum of exponentials."""
    return _reduced("logsumexp", self, dim, keepdim)


@aten("linalg_vector_norm.default", "norm.ScalarOpt_dim", "norm.Scalar")
def norm(
    self: Any,
    result: TensorStructInfo,
    ord: Any = None,
    p: Any = None,
    dim: Any = None,
    keepdim: bool = False,
) -> Any:
    """The norm along axes, of a number or infinity."""
    power = next((float(x) for x in (ord, p) if x is not None), 2.0)
    value = as_tensor(self, str(result.dtype))
    return op.norm(value, power, axes_of(dim, self), keepdims=keepdim)


@aten("cumsum.default")
def cumsum(self: Any, dim: int, result: TensorStructInfo) -> Any:
    """Cumulative sums along an axis."""
    axis = axis_of(dim, tensor_info(self).ndim)
    return op.cumsum(as_tensor(self, str(result.dtype)), axis)


@aten("cumprod.default")
def cumprod(self: Any, dim: int, result: TensorStructInfo) -> Any:
    """Cumulative products along an axis."""
    axis = axis_of(dim, tensor_info(self).ndim)
    return op.cumprod(as_tensor(self, str(result.dtype)), axis)


@aten("aminmax.default")
def aminmax(self: Any, dim: Any, keepdim: bool, result: TupleStructInfo) -> Any:
    """The minimum and the maximum."""
    return _reduced("min", self, dim, keepdim), _reduced("max", self, dim, keepdim)
