"""Running sums and products along an axis."""

from __future__ import annotations

from collections.abc import Callable

from tensorir import te
from tensorir.errors import IRTypeError
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.dtype import INT64, DataType
from tensorir.nodes.expr import EQ, BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import TRUE, cast, compare, const, if_then_else
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt
from tensorir.relax.declaration import operator
from tensorir.relax.signature import DTypeName
from tensorir.script.parts import complete_block
from tensorir.te.tensor import Tensor
from tensorir.topi.accumulation import rounded, sum_dtype
from tensorir.topi.extents import axis_of
from tensorir.topi.reshaping import flatten


@operator("cumsum")
def cumsum(
    data: Tensor,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Return the sums of elements up to each along an axis; of all in row-major order for None.

    Exclusive sums are without the element itself; with `reverse` they are from the end.
    """
    return _scanned("T_cumsum", te.add, 0, data, axis, dtype, exclusive, reverse)


@operator("cumprod")
def cumprod(
    data: Tensor,
    axis: int | None = None,
    dtype: DTypeName | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """Return the products of elements up to each along an axis; otherwise like `cumsum`."""
    return _scanned("T_cumprod", te.multiply, 1, data, axis, dtype, exclusive, reverse)


def _scanned(
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
        raise IRTypeError("a running sum is of numbers, got bool; dtype converts")
    wide = sum_dtype(kind)
    extent = data.shape[along]
    start = const(first, wide)

    def body(ins: list[Buffer], outs: list[Buffer]) -> Stmt:
        """Return loops over lines, and in each the loop that goes along it."""
        source, result = ins[0], outs[0]
        step = Var("k", INT64)
        loops = [Var(f"i{k}", INT64) for k in range(data.ndim) if k != along]
        axes = [Var(f"v_{loop.name}", INT64) for loop in loops]

        def at(position: PrimExpr) -> list[PrimExpr]:
            own = extent - 1 - position if reverse else position
            return [*axes[:along], own, *axes[along:]]

        before = BufferLoad(result, at(step - 1))
        taken = cast(wide, BufferLoad(source, at(step - 1 if exclusive else step)))
        begin = start if exclusive else combine(start, taken)
        is_first = compare(EQ, step, const(0, INT64))
        value = if_then_else(is_first, begin, combine(before, taken))
        store = BufferStore(result, value, at(step))
        line = For(step, const(0, INT64), extent, ForKind.SERIAL, store)
        lengths = [n for k, n in enumerate(data.shape) if k != along]
        iters = [
            IterVar(Range(n), axis, IterVar.DATA_PAR) for n, axis in zip(lengths, axes, strict=True)
        ]
        if not iters:
            return line
        block = Block(iters, (), (), f"{name}_line", line)
        visible = {source.data: source, result.data: result}
        stmt: Stmt = BlockRealize(loops, TRUE, complete_block(block, (True, True), visible))
        for loop, n in reversed(list(zip(loops, lengths, strict=True))):
            stmt = For(loop, const(0, INT64), n, ForKind.SERIAL, stmt)
        return stmt

    result = te.extern(data.shape, [data], body, name=name, dtype=wide)
    assert isinstance(result, Tensor)
    return rounded(result, kind)
