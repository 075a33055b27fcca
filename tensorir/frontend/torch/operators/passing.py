"""Operators that return an operand unchanged, and assertions.

torch's assertions about sizes that depend on data are not checked; the shapes of results are.
"""

from __future__ import annotations

from typing import Any

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, dtype_of
from tensorir.frontend.torch.table import aten
from tensorir.nodes.expr import PrimExpr
from tensorir.relax import op


@aten(
    "clone.default",
    "contiguous.default",
    "alias.default",
    "detach.default",
    "lift_fresh_copy.default",
    "lift_fresh.default",
    "lift.default",
    "positive.default",
    "resolve_neg.default",
    "resolve_conj.default",
)
def same(self: Any) -> Any:
    """The operand."""
    return self


@aten("detach_.default", "requires_grad_.default")
def same_in_place(self: Any) -> Any:
    """The operand, unchanged."""
    return self


@aten("dropout.default", "feature_dropout.default", "alpha_dropout.default")
def dropout(input: Any, **_: Any) -> Any:
    """The operand: models are imported for inference."""
    return input


@aten("native_dropout.default")
def native_dropout(input: Any, **_: Any) -> Any:
    """The operand, and a mask that keeps everything."""
    return input, op.ones_like(input, "bool")


@aten(
    "_assert_tensor_metadata.default",
    "_assert_scalar.default",
    "_assert_async.msg",
    "_assert_async.default",
    "sym_constrain_range.default",
    "sym_constrain_range_for_size.default",
)
def assertion(**_: Any) -> None:
    """Nothing."""


@aten("scalar_tensor.default")
def scalar_tensor(s: Any, dtype: str | None) -> Any:
    """A number as a tensor."""
    if dtype is None:
        kinds = {bool: "bool", int: "int64", float: "float32"}
        dtype = "int64" if isinstance(s, PrimExpr) else kinds[type(s)]
    return as_tensor(s, dtype)


@aten("item.default", "_local_scalar_dense.default")
def item(self: Any) -> Any:
    """The integer in a tensor of one element, as a symbolic size."""
    if dtype_of(self).startswith(("float", "bfloat")):
        raise IRTypeError("a float of a tensor as a number is not supported; keep it a tensor")
    return op.tensor_to_scalars(as_tensor(self, "int64"), 1)[0]


@aten("copy.default")
def copy(self: Any, src: Any, result: Any) -> Any:
    """The second operand in the dtype and shape of the first."""
    return op.broadcast_to(as_tensor(src, dtype_of(self)), result.shape)
