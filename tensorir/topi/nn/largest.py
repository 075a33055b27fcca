"""The maximum of windows, NaN if a window contains NaN.

A comparison that keeps NaN costs two or three dependent instructions for each element. Here two
values are reduced together: the maximum of the numbers, and the sum of squares, which is NaN
exactly if an element is NaN (squares are not negative, so infinities add up to infinity). Each
costs one instruction for each element, and they are independent.
"""

from __future__ import annotations

from typing import Any, Final

from tensorir import te
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import NE, PrimExpr
from tensorir.nodes.ops import cast, compare, const, select
from tensorir.te.extrema import largest, lowest
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import sum_dtype

_LARGEST_AND_SQUARES: Final = te.comm_reducer(
    lambda x, y: (te.max(x[0], y[0]), x[1] + y[1]),
    lambda value, squares: (lowest(value), const(0, squares)),
    "largest_and_squares",
)


def reduced_to_largest(value: PrimExpr, axis: Any, where: PrimExpr | None = None) -> Any:
    """Return the reductions that `largest_of` reads: one, or two for floats."""
    if not value.dtype.is_floating:
        return largest(value, axis=axis, where=where)
    wide = cast(sum_dtype(value.dtype), value)
    return _LARGEST_AND_SQUARES((value, wide * wide), axis=axis, where=where)


def largest_of(reduced: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """Return the maxima from the tensors of `reduced_to_largest`."""
    if isinstance(reduced, Tensor):
        return reduced
    numbers, squares = reduced
    dtype: DataType = numbers.dtype

    def element(*i: PrimExpr) -> PrimExpr:
        has_nan = compare(NE, squares[i], squares[i])
        return select(has_nan, cast(dtype, squares[i]), numbers[i])

    return te.compute(numbers.shape, element, name="largest")
