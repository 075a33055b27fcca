"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorir.frontend.torch.dtypes import as_tensor, dtype_of
from tensorir.frontend.torch.operators.shapes import in_shape
from tensorir.frontend.torch.table import aten
from tensorir.relax import op
from tensorir.relax.struct_info import TensorStructInfo


@aten("linear.default")
def linear(input: Any, weight: Any, bias: Any) -> Any:
    """`input @ weight.T + bias`; `weight` is (out, in), or (in,)."""
    return op.linear(input, weight, bias)


@aten("mm.default", "bmm.default")
def mm(self: Any, mat2: Any) -> Any:
    """The product of two matrices, or of batches of matrices."""
    return op.matmul(self, mat2)


@aten("matmul.default")
def matmul(self: Any, other: Any) -> Any:
    """The product of two tensors, as in NumPy."""
    return op.matmul(self, other)


@aten("mv.default")
def mv(self: Any, vec: Any) -> Any:
    """The product of a matrix and a vector."""
    return op.matmul(self, vec)


@aten("dot.default", "vdot.default", "inner.default")
def dot(self: Any, result: TensorStructInfo, tensor: Any = None, other: Any = None) -> Any:
    """The product of two vectors."""
    right = other if tensor is None else tensor
    return in_shape(op.matmul(self, right), result.shape)


@aten("outer.default")
def outer(self: Any, vec2: Any) -> Any:
    """The outer product of two vectors."""
    return op.expand_dims(self, 1) * op.expand_dims(vec2, 0)


def _sum(addend: Any, product: Any, beta: Any, alpha: Any) -> Any:
    dtype = dtype_of(product)
    scaled = product if alpha == 1 else product * as_tensor(alpha, dtype)
    if beta == 0:
        return scaled
    return scaled + (addend if beta == 1 else addend * as_tensor(beta, dtype))


@aten("addmm.default")
def addmm(self: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    """`beta * self + alpha * mat1 @ mat2`."""
    return _sum(self, op.matmul(mat1, mat2), beta, alpha)


@aten("baddbmm.default")
def baddbmm(self: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any) -> Any:
    """`beta * self + alpha * batch1 @ batch2`."""
    return _sum(self, op.matmul(batch1, batch2), beta, alpha)


@aten("addmv.default")
def addmv(self: Any, mat: Any, vec: Any, beta: Any, alpha: Any) -> Any:
    """`beta * self + alpha * mat @ vec`."""
    return _sum(self, op.matmul(mat, vec), beta, alpha)


@aten("einsum.default")
def einsum(equation: str, tensors: Sequence[Any]) -> Any:
    """The sum of products that an equation defines."""
    return op.einsum(list(tensors), equation.replace(" ", ""))
