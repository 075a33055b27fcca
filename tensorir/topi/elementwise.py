"""Operators of the elements of one tensor."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import cast
from tensorir.relax.declaration import operator
from tensorir.te.tensor import Tensor


def map_elements(name: str, function: Callable[[PrimExpr], PrimExpr], x: Tensor) -> Tensor:
    """Return the tensor of `function` of each element."""
    return te.compute(x.shape, lambda *i: function(x[i]), name=name)


def _of_floats(name: str, function: Callable[[PrimExpr], PrimExpr]) -> None:
    """Declare an operator that is a function of floating-point numbers."""

    def formula(x: Tensor) -> Tensor:
        if not x.dtype.is_floating:
            raise IRTypeError(
                f"x must be of floating-point numbers, got {x.dtype}; astype converts"
            )
        return map_elements(f"T_{name}", function, x)

    formula.__name__, formula.__doc__ = name, f"Return {name} of each element."
    globals()[name] = operator(name)(formula)


for _name in ("exp", "log", "sqrt", "tanh", "sigmoid", "erf"):
    _of_floats(_name, getattr(te, _name))


@operator("negative")
def negative(x: Tensor) -> Tensor:
    """Return `-x`."""
    return map_elements("T_negative", lambda v: -v, x)


@operator("astype")
def astype(x: Tensor, dtype: str) -> Tensor:
    """Return the elements converted to another dtype; to bool it is `x != 0`."""
    return map_elements("T_cast", lambda v: cast(dtype, v), x)
