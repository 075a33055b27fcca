"""Values of torch: dtypes, type promotion of tensors and numbers, axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Final

import torch

from tensorir.errors import IRTypeError
from tensorir.nodes.expr import PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import GraphExpr, ShapeExpr, const_of
from tensorir.relax.struct_info import TensorStructInfo, TupleStructInfo

_NAMES: Final = {
    dtype: str(dtype).removeprefix("torch.")
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    )
}  # fmt: skip
_OF_NAMES: Final = {name: dtype for dtype, name in _NAMES.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype. Raises IRTypeError for an unsupported dtype."""
    if dtype not in _NAMES:
        raise IRTypeError(f"{dtype} is not supported; supported are {', '.join(_OF_NAMES)}")
    return _NAMES[dtype]


def tensor_info(value: GraphExpr) -> TensorStructInfo:
    """Return the struct info of a tensor. Raises IRTypeError for another value."""
    if not isinstance(value.struct_info, TensorStructInfo):
        raise IRTypeError(f"a tensor is expected, got {value.struct_info}")
    return value.struct_info


def dtype_of(value: GraphExpr) -> str:
    """Return the dtype of a tensor."""
    return str(tensor_info(value).dtype)


def common_dtype(*values: Any) -> str:
    """Return the dtype in which torch computes: tensors precede scalars and numbers."""
    return dtype_name(_result_type([_example(value) for value in values]))


def _result_type(examples: list[Any]) -> torch.dtype:
    first, *rest = examples
    if not rest:
        return torch.result_type(first, first)
    # Among tensors with dimensions the order does not matter, and likewise among scalars.
    tensors = sorted(examples, key=lambda e: (not isinstance(e, torch.Tensor), -_rank(e)))
    found = tensors[0]
    for example in tensors[1:]:
        dtype = torch.result_type(found, example)
        found = torch.empty((1,) * _rank(found), dtype=dtype, device="meta")
    return torch.result_type(found, found)


def _rank(example: Any) -> int:
    return example.ndim if isinstance(example, torch.Tensor) else 0


def _example(value: Any) -> Any:
    """Return a tensor without data, or a number, with the type promotion of the value."""
    if isinstance(value, GraphExpr):
        info = tensor_info(value)
        shape = (1,) if info.ndim else ()
        return torch.empty(shape, dtype=_OF_NAMES[str(info.dtype)], device="meta")
    return 1 if isinstance(value, PrimExpr) else value


def as_tensor(value: Any, dtype: str) -> GraphExpr:
    """Return a tensor, a number or a symbolic size as a tensor of a dtype."""
    if isinstance(value, GraphExpr):
        return value if dtype_of(value) == dtype else op.astype(value, dtype)
    if isinstance(value, PrimExpr):
        size = op.reshape(op.shape_to_tensor([value]), ())
        return size if dtype == "int64" else op.astype(size, dtype)
    return const_of(value, dtype)


def is_float(dtype: Any) -> bool:
    """Return True for the name of a dtype of floating-point numbers."""
    return str(dtype).startswith(("float", "bfloat"))


def in_dtype_of(result: TensorStructInfo, *values: Any) -> list[GraphExpr]:
    """Return tensors and numbers as tensors of the dtype of a result."""
    return [as_tensor(value, str(result.dtype)) for value in values]


def axis_of(axis: int, x: GraphExpr) -> int:
    """Return an axis of a tensor, counted from the front."""
    return axis + max(tensor_info(x).ndim, 1) if axis < 0 else axis


def of_vectors(convert: Callable[..., Any]) -> Callable[..., Any]:
    """Return a converter along an axis that treats a tensor without dimensions as a vector."""

    @wraps(convert)
    def converted(self: GraphExpr, **others: Any) -> Any:
        if tensor_info(self).ndim:
            return convert(self=self, **others)
        vectors = {k: _as_vector(v) for k, v in others.items()}
        found = convert(self=_as_vector(self), **vectors)
        if isinstance(found, GraphExpr) and not isinstance(found.struct_info, TupleStructInfo):
            return op.reshape(found, ())
        return tuple(op.reshape(found[k], ()) for k in range(2))

    return converted


def _as_vector(value: Any) -> Any:
    is_scalar = isinstance(value, GraphExpr) and tensor_info(value).ndim == 0
    return op.reshape(value, (1,)) if is_scalar else value


def as_list(value: Any) -> list[Any]:
    """Return a number, or numbers, as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def in_shape(x: Any, extents: Sequence[Any] | None) -> Any:
    """Return a tensor reshaped to a known shape, whose extents may be 0."""
    assert extents is not None
    return op.reshape(x, ShapeExpr(extents))
