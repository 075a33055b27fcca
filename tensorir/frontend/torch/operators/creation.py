"""Operators that create tensors or return them unchanged, and assertions.

torch's assertions about numbers from tensors are checked when the model runs. Assertions about all
elements of a tensor are omitted.
"""

from __future__ import annotations

import re
from typing import Any, Final

from tensorir.errors import IRTypeError
from tensorir.frontend.torch.dtypes import as_tensor, dtype_of, is_float
from tensorir.frontend.torch.table import Match, aten, aten_rows
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import cast
from tensorir.relax import op
from tensorir.relax.expr import ShapeExpr
from tensorir.relax.relations import Fits, fits
from tensorir.relax.struct_info import ShapeStructInfo, TensorStructInfo


def filled(value: Any, result: TensorStructInfo) -> Any:
    """Return a tensor filled with a number, or with the element of a tensor without dimensions."""
    dtype = str(result.dtype)
    return op.full(result.shape, as_tensor(value, dtype), dtype)


@aten("full.default", "full_like.default", "new_full.default", "fill.Scalar")
def full(result: TensorStructInfo, fill_value: Any = None, value: Any = None, **_: Any) -> Any:
    """A tensor of one number."""
    return filled(value if fill_value is None else fill_value, result)


@aten("arange.default", "arange.start", "arange.start_step")
def arange(result: TensorStructInfo, end: Any, start: Any = 0, step: Any = 1, **_: Any) -> Any:
    """The numbers from `start` to before `end` in steps."""
    return op.arange(start, end, step, str(result.dtype))


@aten("one_hot.default")
def one_hot(self: Any, num_classes: int, result: TensorStructInfo) -> Any:
    """A tensor with a new last axis: 1 at the index, 0 elsewhere."""
    assert result.shape is not None
    depth = op.arange(0, result.shape[-1], 1, "int64")
    return op.astype(op.equal(op.expand_dims(self, -1), depth), "int64")


@aten("scalar_tensor.default")
def scalar_tensor(s: Any, dtype: str | None) -> Any:
    """A number as a tensor."""
    if dtype is None:
        kinds = {bool: "bool", int: "int64", float: "float32"}
        dtype = "int64" if isinstance(s, PrimExpr) else kinds[type(s)]
    return as_tensor(s, dtype)


_FAILED: Final = "Runtime assertion failed for expression "
_WORDS: Final = {
    ">=": "at_least", "<=": "at_most", ">": "above", "<": "below", "-": "minus ", "+": "plus",
    "Eq": "equal", "Ne": "unequal",
}  # fmt: skip


@aten("_assert_scalar.default")
def assert_scalar(self: Any, assert_msg: str, matched: Match) -> None:
    """A check of a condition on sizes and on numbers from tensors."""
    if isinstance(self, PrimExpr):
        matched(ShapeExpr([cast("int64", self)]), ShapeStructInfo([1]), _name_of(assert_msg))


def _name_of(message: str) -> str:
    """Return the condition in a message of torch as a name, such as `assert_u0_at_least_0`."""
    text = message.removeprefix(_FAILED).partition(" on node")[0]
    for sign, word in _WORDS.items():
        text = text.replace(sign, word)
    return re.sub(r"\W+", "_", f"assert {text}").strip("_")


@aten("item.default", "_local_scalar_dense.default")
def item(self: Any) -> Any:
    """The integer in a tensor of one element, as a symbolic size."""
    if is_float(dtype_of(self)):
        raise IRTypeError("item() of a float tensor is not supported; keep the value as a tensor")
    return op.tensor_to_scalars(as_tensor(self, "int64"), 1)[0]


def _in_shape_of(result: TensorStructInfo, value: Any) -> Any:
    """Return a value broadcast to the shape of a result."""
    if fits(result, value.struct_info) is Fits.YES:
        return value
    return op.broadcast_to(value, result.shape)


_ZEROS = (
    "zeros.default zeros_like.default new_zeros.default zero.default empty.memory_format "
    "empty_like.default new_empty.default empty_strided.default new_empty_strided.default "
    "empty_permuted.default"
)
"""Operators that return zeros; uninitialised tensors are zeros, too."""
_UNCHANGED = (
    "clone.default contiguous.default alias.default detach.default lift_fresh_copy.default "
    "lift_fresh.default lift.default positive.default resolve_neg.default resolve_conj.default"
)
_ASSERTIONS = (
    "_assert_tensor_metadata.default _assert_async.msg "
    "_assert_async.default sym_constrain_range.default sym_constrain_range_for_size.default"
)
aten_rows(
    {
        _ZEROS: lambda result, **_: filled(0, result),
        "ones.default ones_like.default new_ones.default": lambda result, **_: filled(1, result),
        "fill.Tensor": lambda value, result, **_: op.broadcast_to(
            as_tensor(value, str(result.dtype)), result.shape
        ),
        "copy.default": lambda self, src, result: _in_shape_of(
            result, as_tensor(src, dtype_of(self))
        ),
        "eye.default eye.m": lambda n, result, m=None: op.eye(
            n, n if m is None else m, 0, str(result.dtype)
        ),
        _UNCHANGED: lambda self: self,
        "detach_.default requires_grad_.default": lambda self: self,
        "dropout.default feature_dropout.default alpha_dropout.default": lambda input, **_: input,
        "native_dropout.default": lambda input, **_: (input, op.ones_like(input, "bool")),
        _ASSERTIONS: lambda **_: None,
    }
)
