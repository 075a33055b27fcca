"""Operators that create tensors from shapes and numbers; random numbers.

A model computes the same random numbers in each run, from its seed (0 by default).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tensorir.errors import IRValueError
from tensorir.frontend.onnx.dtypes import dtype_of
from tensorir.frontend.onnx.node import OnnxNode
from tensorir.frontend.onnx.registry import onnx_operator, onnx_operators
from tensorir.nodes.expr import PrimExpr
from tensorir.relax import op
from tensorir.relax.expr import Constant, GraphExpr

_OUTSIDE: Final = 1 << 40
"""A bound for diagonal numbers; diagonals beyond it are outside of every matrix."""


@onnx_operator("ConstantOfShape")
def constant_of_shape(
    node: OnnxNode, shape: GraphExpr, *, value: Constant | None = None
) -> GraphExpr:
    fill = Constant(np.zeros(1, "float32")) if value is None else value
    if fill.data.size != 1:
        raise IRValueError(f"the value must be one number, got {fill.data.size}")
    number = Constant(fill.data.reshape(()), node.dtype(fill))
    return op.full(node.integers(shape, "the shape"), number)


@onnx_operator("Range")
def range_(
    node: OnnxNode, start: GraphExpr, limit: GraphExpr, delta: GraphExpr, *, stash_type: int = 1
) -> GraphExpr:
    dtype = node.dtype(start)
    for value, what in ((start, "start"), (limit, "limit"), (delta, "delta")):
        node.check_single(value, what)
    known = [node.contents(value) for value in (start, limit, delta)]
    if all(array is not None and array.dtype != object for array in known):
        numbers = [array.item() for array in known if array is not None]
        if dtype.is_integral and numbers[2] != 0:
            first, last, step = numbers
            node.check_shape([max(0, -int((first - last) // step))], start)
        return op.arange(*numbers, dtype=str(dtype))
    if dtype.is_integral and known[2] is not None and known[2].dtype != object:
        values = [node.integer(v, "a limit") for v in (start, limit, delta)]
        return op.arange(*values, dtype=str(dtype))
    if dtype.is_floating and dtype.bits < 32:  # the numbers are rounded once, at the end
        wide = [op.astype(value, "float32") for value in (start, limit, delta)]
        return op.astype(node.emit(op.arange_between(*wide)), str(dtype))
    return node.emit(op.arange_between(start, limit, delta))


@onnx_operator("EyeLike")
def eye_like(node: OnnxNode, x: GraphExpr, *, dtype: int | None = None, k: int = 0) -> GraphExpr:
    if node.rank(x) != 2:
        raise IRValueError(f"the input must be a matrix, got {node.rank(x)} dimension(s)")
    rows, columns = node.shape(x)
    kind = node.dtype(x) if dtype is None else dtype_of(dtype)
    return op.eye(rows, columns, _diagonal(k), str(kind))


@onnx_operator("OneHot")
def one_hot(
    node: OnnxNode, indices: GraphExpr, depth: GraphExpr, values: GraphExpr, *, axis: int = -1
) -> GraphExpr:
    count = node.integer(depth, "the depth")
    # Negative indices count from the end; an index out of range gives a row of zeros.
    kind = "int64" if node.dtype(indices) != "int32" else "int32"
    places = op.astype(indices, kind) if node.dtype(indices) != kind else indices
    length = op.reshape(node.known.integer_tensor([count], kind), ())
    zero = Constant(np.zeros((), kind))
    places = op.where(op.less(places, zero), op.add(places, length), places)
    rank = node.rank(indices)
    hot = op.one_hot(places, 1, 0, count, node.axis(axis, rank + 1))
    off = op.strided_slice(values, [0], [0], [1])
    on = op.strided_slice(values, [0], [1], [2])
    return op.where(op.astype(hot, "bool"), op.reshape(on, ()), op.reshape(off, ()))


def _diagonal(k: int | PrimExpr) -> int | PrimExpr:
    """Return the number of a diagonal, limited to a range that is safe in 64-bit arithmetic."""
    return max(-_OUTSIDE, min(k, _OUTSIDE)) if isinstance(k, int) else k


def _triangle(x: GraphExpr, k: int | PrimExpr, upper: int) -> GraphExpr:
    return op.triu(x, _diagonal(k)) if upper else op.tril(x, _diagonal(k))


def _dtype(node: OnnxNode, number: int | None, like: GraphExpr) -> str:
    return str(node.dtype(like) if number is None else dtype_of(number))


onnx_operators(
    {
        "Trilu": lambda node, x, k=None, *, upper=1: _triangle(
            x, 0 if k is None else node.integer(k, "k"), upper
        ),
        "RandomNormal": lambda node, *, shape, dtype=1, mean=0.0, scale=1.0, seed=0.0: (
            op.random.normal(shape, mean, scale, int(seed), dtype=str(dtype_of(dtype)))
        ),
        "RandomNormalLike": lambda node, x, *, dtype=None, mean=0.0, scale=1.0, seed=0.0: (
            op.random.normal(node.shape(x), mean, scale, int(seed), dtype=_dtype(node, dtype, x))
        ),
        "RandomUniform": lambda node, *, shape, dtype=1, high=1.0, low=0.0, seed=0.0: (
            op.random.uniform(shape, low, high, int(seed), dtype=str(dtype_of(dtype)))
        ),
        "RandomUniformLike": lambda node, x, *, dtype=None, high=1.0, low=0.0, seed=0.0: (
            op.random.uniform(node.shape(x), low, high, int(seed), dtype=_dtype(node, dtype, x))
        ),
        "Bernoulli": lambda node, x, *, dtype=None, seed=0.0: op.random.bernoulli(
            x, int(seed), dtype=_dtype(node, dtype, x)
        ),
        "Multinomial": lambda node, x, *, dtype=6, sample_size=1, seed=0.0: op.random.multinomial(
            x, sample_size, int(seed), dtype=str(dtype_of(dtype))
        ),
    }
)
