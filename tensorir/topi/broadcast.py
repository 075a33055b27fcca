"""Elementwise formulas: the common shape and dtype of operands, and dtypes of accumulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from tensorir import te
from tensorir.arith import Analyzer
from tensorir.errors import IRTypeError, IRValueError
from tensorir.nodes.dtype import FLOAT32, DataType
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.ops import cast, const
from tensorir.te.tensor import Tensor
from tensorir.topi.extents import extent_text, is_number

Value: TypeAlias = "Tensor | PrimExpr"
"""A tensor, or a number as a tensor of rank 0."""


def shape_of(value: Value) -> Sequence[PrimExpr]:
    """Return the shape of a value; the shape of a number is empty."""
    return value.shape if isinstance(value, Tensor) else ()


def broadcast_shape(*shapes: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the broadcast shape of operands, by NumPy's rules.

    Raises IRValueError for dimensions that differ, or cannot be proved to be equal.
    """
    analyzer = Analyzer()
    rank = max(map(len, shapes), default=0)
    result: list[PrimExpr] = []
    for axis in range(-rank, 0):
        extents = [shape[axis] for shape in shapes if len(shape) >= -axis]
        long = [n for n in extents if not is_number(n, 1)]
        for other in long[1:]:
            if not analyzer.can_prove_equal(long[0], other):
                known = isinstance(long[0], IntImm) and isinstance(other, IntImm)
                raise IRValueError(
                    f"shapes {', '.join(map(shape_text, shapes))} do not broadcast"
                    + (
                        ""
                        if known
                        else f": {other} may differ from {long[0]}; state it by match_cast"
                    )
                )
        result.append(long[0] if long else extents[0])
    return result


def element(value: Value, indices: Sequence[PrimExpr]) -> PrimExpr:
    """Return the element of a broadcast operand at indices of the result."""
    if not isinstance(value, Tensor):
        return value
    return value[tuple(broadcast_indices(indices, value.shape))]


def broadcast_indices(indices: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Return the operand's indices for indices of the broadcast result."""
    own = indices[len(indices) - len(shape) :]
    return [const(0, i.dtype) if is_number(n, 1) else i for i, n in zip(own, shape, strict=True)]


def elementwise(name: str, function: Callable[..., PrimExpr], *operands: Value) -> Tensor:
    """Return `function` of the elements of operands, which broadcast."""
    shape = broadcast_shape(*map(shape_of, operands))
    return te.compute(
        shape, lambda *i: function(*(element(value, i) for value in operands)), name=name
    )


def same_dtype(*operands: Value) -> str:
    """Return the common dtype of operands. Raises IRTypeError if dtypes differ."""
    dtypes = list(dict.fromkeys(str(value.dtype) for value in operands))
    if len(dtypes) > 1:
        raise IRTypeError(
            f"operands must have the same dtype, got {' and '.join(dtypes)}; convert by astype"
        )
    return dtypes[0]


def shape_text(shape: Sequence[PrimExpr]) -> str:
    """Return a shape as text for messages."""
    return f"({', '.join(map(extent_text, shape))})"


def map_elements(name: str, function: Callable[[PrimExpr], PrimExpr], x: Tensor) -> Tensor:
    """Return `function` of each element."""
    return te.compute(x.shape, lambda *i: function(x[i]), name=name)


_NARROW: Final = 16


def sum_dtype(dtype: DataType) -> DataType:
    """Return the dtype for sums: float32 for floats of 16 and 8 bits, otherwise `dtype`."""
    return FLOAT32 if dtype.is_floating and dtype.bits <= _NARROW else dtype


def convert_dtype(tensor: Tensor, dtype: DataType) -> Tensor:
    """Return a tensor converted to `dtype`; itself if it has this dtype."""
    if tensor.dtype is dtype:
        return tensor
    return map_elements("T_cast", lambda v: cast(dtype, v), tensor)
