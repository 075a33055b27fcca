"""Operators that create tensors."""

from __future__ import annotations

from typing import Any

from tensorir.frontend.torch.dtypes import as_tensor
from tensorir.frontend.torch.table import aten
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo


def filled(value: Any, result: TensorStructInfo) -> Any:
    """Return a tensor filled with a number, or with the element of a tensor without dimensions."""
    dtype = str(result.dtype)
    return op.full(result.shape, as_tensor(value, dtype), dtype)


@aten("full.default", "full_like.default", "new_full.default", "fill.Scalar")
def full(result: TensorStructInfo, fill_value: Any = None, value: Any = None, **_: Any) -> Any:
    """A tensor of one number."""
    return filled(value if fill_value is None else fill_value, result)


@aten("fill.Tensor")
def fill_tensor(value: Any, result: TensorStructInfo, **_: Any) -> Any:
    """A tensor filled with the element of another tensor."""
    return op.broadcast_to(as_tensor(value, str(result.dtype)), result.shape)


@aten(
    "zeros.default",
    "zeros_like.default",
    "new_zeros.default",
    "zero.default",
    "empty.memory_format",
    "empty_like.default",
    "new_empty.default",
    "empty_strided.default",
    "new_empty_strided.default",
    "empty_permuted.default",
)
def zeros(result: TensorStructInfo, **_: Any) -> Any:
    """A tensor of zeros; also used for uninitialised memory."""
    return filled(0, result)


@aten("ones.default", "ones_like.default", "new_ones.default")
def ones(result: TensorStructInfo, **_: Any) -> Any:
    """A tensor of ones."""
    return filled(1, result)


@aten("arange.default", "arange.start", "arange.start_step")
def arange(result: TensorStructInfo, end: Any, start: Any = 0, step: Any = 1, **_: Any) -> Any:
    """The numbers from `start` to before `end` in steps."""
    return op.arange(start, end, step, str(result.dtype))


@aten("linspace.default")
def linspace(start: Any, end: Any, steps: int, result: TensorStructInfo) -> Any:
    """`steps` numbers from `start` to `end`."""
    dtype = str(result.dtype)
    if steps == 1:
        return filled(start, result)
    index = op.astype(op.arange(0, steps, 1, "int64"), "float64")
    values = index * ((float(end) - float(start)) / (steps - 1)) + float(start)
    return op.astype(values, dtype)


@aten("eye.default", "eye.m")
def eye(n: Any, result: TensorStructInfo, m: Any = None) -> Any:
    """Ones on the diagonal of a matrix, else zeros."""
    return op.eye(n, n if m is None else m, 0, str(result.dtype))


@aten("one_hot.default")
def one_hot(self: Any, num_classes: int, result: TensorStructInfo) -> Any:
    """1 at the index along a new last axis, 0 elsewhere."""
    assert result.shape is not None
    depth = op.arange(0, result.shape[-1], 1, "int64")
    return op.astype(op.equal(op.expand_dims(self, -1), depth), "int64")
