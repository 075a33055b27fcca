"""The dtype in which a new loop counts."""

from __future__ import annotations

from tensorir.nodes.dtype import INT32, INT64, DataType
from tensorir.nodes.expr import integer_limits
from tensorir.nodes.index_arithmetic import holds_indices


def dtype_holding(largest: int | None, dtype: DataType) -> DataType:
    """Return the narrowest dtype, from `dtype` on, that holds the largest number of a loop.

    None stands for one that is not constant. Arithmetic on indices of 32 bits or more does not
    overflow then, as programs that could are refused; in narrower dtypes it would wrap.
    """
    if largest is None:
        return dtype if holds_indices(dtype) else INT32
    for wider in (dtype, INT32, INT64):
        if wider.bits >= dtype.bits and largest <= integer_limits(wider)[1]:
            return wider
    return dtype
