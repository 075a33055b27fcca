"""Cumulative sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import EQ, BufferLoad, IterVar, PrimExpr
from tensorir.nodes.ops import cast, compare, const, if_then_else
from tensorir.nodes.stmt import BufferStore, Stmt
from tensorir.relax.declaration import operator
from tensorir.relax.dimension_order import axes
from tensorir.relax.signature import DTypeName
from tensorir.te.tensor import Tensor
from tensorir.topi.block_nests import block_nest
from tensorir.topi.broadcast import convert_dtype, sum_dtype
from tensorir.topi.extents import axis_of
from tensorir.topi.reshaping import flatten


@operator("cumsum", dimension_order=axes("axis"))
def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Return the cumulative sums along an axis; for None, of all elements in row-major order.

    Exclusive sums omit the element itself; with `reverse` they start at the end.
    """
    return _scan("T_cumsum", te.add, 0, data, axis, dtype, exclusive, reverse)


@operator("cumprod", dimension_order=axes("axis"))
def cumprod(
    data: Tensor,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Return the cumulative products along an axis; otherwise like `cumsum`."""
    return _scan("T_cumprod", te.multiply, 1, data, axis, dtype, exclusive, reverse)


def _scan(
    name: str,
    combine: Callable[[PrimExpr, PrimExpr], PrimExpr],
    first: int,
    data: Tensor,
    axis: int | None,
    dtype: str | None,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    if axis is None:
        data, axis = flatten(data), 0
    along = axis_of(axis, data.ndim)
    kind = data.dtype if dtype is None else DataType(dtype)
    if kind.is_bool:
        raise IRTypeError("a cumulative sum needs numbers, got bool; convert by dtype")
    wide = sum_dtype(kind)
    extent = data.shape[along]
    start = const(first, wide)

    def at(axes: Sequence[PrimExpr], position: PrimExpr) -> list[PrimExpr]:
        own = extent - 1 - position if reverse else position
        return [*axes[:along], own, *axes[along + 1 :]]

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        source, result = ins[0], outs[0]

        def step(axes: Sequence[PrimExpr]) -> Stmt:
            position = axes[along]
            before = BufferLoad(result, at(axes, position - 1))
            place = at(axes, position - 1 if exclusive else position)
            taken = cast(wide, BufferLoad(source, place))
            begin = start if exclusive else combine(start, taken)
            is_first = compare(EQ, position, const(0, INT64))
            value = if_then_else(is_first, begin, combine(before, taken))
            return BufferStore(result, value, at(axes, position))

        kinds = [*[IterVar.DATA_PAR] * along, IterVar.OPAQUE]
        visible = {source.data: source, result.data: result}
        return block_nest(f"{name}_step", data.shape, step, visible, kinds=kinds)

    result = te.extern(data.shape, [data], body, name=name, dtype=wide)
    assert isinstance(result, Tensor)
    return convert_dtype(result, kind)
