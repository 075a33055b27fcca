"""The stores of a block, the nest of a reduction, and the vectors that fit a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen import Target
from schedule.analysis.bindings import loop_iter_types
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.indices.accesses import only_stores, strides
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, Var
from tensorir.nodes.stmt import BufferStore, Stmt
from tensorir.reducers import written_out
from tensorir.rewriting.visit import walk

SHORTEST_VECTOR: Final = 4
"""The minimum fraction of a register that a vector fills: 1/4."""
_VECTORS: Final = 4
"""The number of vectors of partial results whose updates hide most of each other's latency."""
_MANY: Final = 16
"""The number of vectors above which it is rounded up to a multiple of `_VECTORS`."""


def update_stores(body: Stmt) -> tuple[BufferStore, ...]:
    """Return the stores of a body that is a store, or lets around stores; otherwise none.

    The lets are substituted. All values are computed before the first store.
    """
    return only_stores(written_out(body))


@dataclass(frozen=True)
class Lanes:
    """The vectors that a loop is split into."""

    count: int
    """The number of lanes of a vector."""
    multiple: int
    """The loop is padded to a multiple of this; 1 for no padding."""


def vector_lanes(extent: int, register: int, may_pad: bool) -> Lanes:
    """Return the vectors for a loop, with one lane if longer vectors are impossible.

    A register holds `register` elements. The best number of lanes is a power of two that divides
    the loop and fills half a register, because such vectors are aligned with rows. Other loops
    longer than a register are padded if `may_pad`, else get the longest vector that divides them.
    """
    whole = extent & -extent
    if 2 * whole >= register:
        lanes = min(whole, register)
    elif may_pad and extent > register:
        lanes = register
    else:
        lanes = max(n for n in range(1, register + 1) if extent % n == 0)
        return Lanes(lanes if lanes * SHORTEST_VECTOR >= register else 1, 1)
    vectors = -(-extent // lanes)
    few = all(vectors % n for n in range(_VECTORS, _MANY + 1))
    multiple = lanes * _VECTORS if may_pad and few and vectors >= _MANY else lanes
    return Lanes(lanes, 1 if extent % multiple == 0 else multiple)


@dataclass(frozen=True)
class ReductionNest:
    """The loops around a reduction, all of constant extents, and the strides of its accesses."""

    loops: tuple[Var, ...]
    extents: tuple[int, ...]
    spatial: tuple[int, ...]
    """The indices of the spatial loops."""
    reduction: tuple[int, ...]
    """The indices of the reduction loops."""
    result: Buffer
    result_moves: dict[Var, int | None]
    operands: tuple[tuple[Buffer, dict[Var, int | None]], ...]
    """The loads of other buffers, with their strides."""
    register: int
    """The number of elements in a vector register."""


def reduction_nest(state: ScheduleState, block: StmtSRef, target: Target) -> ReductionNest | None:
    """Return the nest of a block with an `init` and an update of one value or a tuple.

    None for any other block, and if a loop is neither spatial nor a reduction, or not constant.
    """
    stores = update_stores(block.block.body)
    around = loops_above(block)
    kinds = loop_iter_types(state, around)
    extents = [sref.loop.extent.value for sref in around if isinstance(sref.loop.extent, IntImm)]
    known = {IterVar.DATA_PAR, IterVar.COMM_REDUCE}
    if block.block.init is None or not stores or len(extents) < len(around) or set(kinds) - known:
        return None
    stored = {store.buffer for store in stores}
    loads = [part for s in stores for part in walk(s.value) if isinstance(part, BufferLoad)]
    result = stores[0]
    return ReductionNest(
        tuple(sref.loop.loop_var for sref in around),
        tuple(extents),
        tuple(k for k, kind in enumerate(kinds) if kind == IterVar.DATA_PAR),
        tuple(k for k, kind in enumerate(kinds) if kind == IterVar.COMM_REDUCE),
        result.buffer,
        strides(block.block_realize, result.buffer, result.indices),
        tuple(
            (x.buffer, strides(block.block_realize, x.buffer, x.indices))
            for x in loads
            if x.buffer not in stored
        ),
        target.vector_lanes(max((load.dtype.bits for load in loads), default=32)),
    )
