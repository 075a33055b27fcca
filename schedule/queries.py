"""Questions about the blocks of a schedule: is it a matrix product, which kinds are its loops?

They take a schedule and a block, change nothing, and are not recorded in the trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.reducer import find_reduction
from schedule.errors import ScheduleError
from schedule.handles import BlockRV
from schedule.schedule import Schedule
from schedule.sref import StmtSRef, loops_above
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Add, BufferLoad, Cast, IntImm, IterVar, Mul, PrimExpr, Var
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import collect_vars, walk

_LETTERS: Final = {IterVar.DATA_PAR: "S", IterVar.COMM_REDUCE: "R"}


@dataclass(frozen=True)
class Contraction:
    """A block that sums products of elements of two buffers: `C[i, j] += A[i, k] * B[k, j]`.

    The axes are numbers among the axes of the block.
    """

    left: Buffer
    """The buffer with the rows, or the first of the two."""
    right: Buffer
    rows: tuple[int, ...]
    """The data-parallel axes that only the index of `left` uses."""
    columns: tuple[int, ...]
    """The data-parallel axes that only the index of `right` uses."""
    batch: tuple[int, ...]
    """The data-parallel axes that both use, or none."""
    reduced: tuple[int, ...]
    """The reduction axes."""


def contraction(sch: Schedule, block: BlockRV) -> Contraction | None:
    """Return a block as a sum of products of two buffers, None if it is no such block.

    Conversions between types may stand around the elements and the product. The axis that is last
    in the result is one of the columns, if it is not in both.
    """
    sref = sch.get_sref(block)
    try:
        update = find_reduction(sref)
    except ScheduleError:
        return None
    x, y = (Var(name, update.values[0].dtype) for name in "xy")
    (combined, *more) = update.reducer.combine([x], [y]) if len(update.values) == 1 else ([], [])
    if more or not (isinstance(combined, Add) and {combined.a, combined.b} == {x, y}):
        return None
    product = _converted(update.values[0])
    if not isinstance(product, Mul):
        return None
    factors = [_converted(product.a), _converted(product.b)]
    loads = [load for load in factors if isinstance(load, BufferLoad)]
    if len(loads) != 2:
        return None
    axes = sref.block.iter_vars
    uses = [_axes_in(load, axes) for load in loads]
    written = _axes_in(BufferLoad(update.buffers[0], update.indices), axes)
    kinds = [axis.iter_type for axis in axes]
    spatial = [k for k, kind in enumerate(kinds) if kind == IterVar.DATA_PAR]
    own = [tuple(k for k in spatial if (k in uses[n]) > (k in uses[1 - n])) for n in (0, 1)]
    if spatial and spatial[-1] in own[0]:
        loads.reverse()
        own.reverse()
    reduced = tuple(k for k, kind in enumerate(kinds) if kind == IterVar.COMM_REDUCE)
    batch = tuple(k for k in spatial if k not in own[0] and k not in own[1])
    if not set(spatial) <= written or not all(set(reduced) & used for used in uses):
        return None
    return Contraction(loads[0].buffer, loads[1].buffer, own[0], own[1], batch, reduced)


def is_gemm(sch: Schedule, block: BlockRV) -> bool:
    """Say whether a block is a matrix product, possibly a batch of them: rows and columns."""
    found = contraction(sch, block)
    return found is not None and bool(found.rows) and bool(found.columns)


def is_gemv(sch: Schedule, block: BlockRV) -> bool:
    """Say whether a block is a product of a matrix and a vector: rows or columns, not both."""
    found = contraction(sch, block)
    return found is not None and bool(found.rows) is not bool(found.columns)


def is_reduction(sch: Schedule, block: BlockRV) -> bool:
    """Say whether a block has an axis that it reduces over."""
    return any(axis.iter_type == IterVar.COMM_REDUCE for axis in sch.get(block).iter_vars)


def is_elementwise(sch: Schedule, block: BlockRV) -> bool:
    """Say whether a block computes each element from the elements at the same index.

    A buffer of fewer dimensions may be read at some of the axes in their order, as in a broadcast.
    """
    node = sch.get(block)
    if not isinstance(node.body, BufferStore) or is_reduction(sch, block):
        return False
    variables = [axis.var for axis in node.iter_vars]
    if list(node.body.indices) != variables:
        return False
    for load in walk(node.body.value):
        if isinstance(load, BufferLoad):
            places = [
                variables.index(i) for i in load.indices if isinstance(i, Var) and i in variables
            ]
            constants = [i for i in load.indices if isinstance(i, IntImm)]
            if len(places) + len(constants) != len(load.indices) or places != sorted(set(places)):
                return False
    return True


def loop_kinds(sch: Schedule, block: BlockRV) -> str:
    """Return a letter for each loop around a block: S for data-parallel, R for reduction, O else.

    Example: `"SSR"` for a matrix product.
    """
    kinds = loop_iter_types(sch.state, loops_above(sch.get_sref(block)))
    return "".join(_LETTERS.get(kind, "O") for kind in kinds)


def blocks(sch: Schedule, func_name: str | None = None) -> list[BlockRV]:
    """Return handles of the blocks of a function that have no blocks in them, in program order.

    `func_name` is the function to look in, by default the function that `work_on` has chosen.
    """
    names = [b.block.name_hint for b in innermost_blocks(sch, func_name)]
    return [sch.get_block(name, func_name) for name in names]


def innermost_blocks(sch: Schedule, func_name: str | None = None) -> list[StmtSRef]:
    """Return the references of the blocks of a function that have no blocks in them."""
    chosen = sch.function_to_search() if func_name is None else func_name
    return [b for b in sch.state.blocks(chosen) if not sch.state.child_blocks(b)]


def _converted(value: PrimExpr) -> PrimExpr:
    """Return a value without conversions around it."""
    while isinstance(value, Cast):
        value = value.value
    return value


def _axes_in(load: BufferLoad, axes: tuple[IterVar, ...]) -> set[int]:
    used = {var for index in load.indices for var in collect_vars(index)}
    return {k for k, axis in enumerate(axes) if axis.var in used}
