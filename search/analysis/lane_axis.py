"""Along which axis vectors of operands lie one after the other in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen.target import Target
from schedule.analysis.bindings import loop_iter_types
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from search.analysis.moves import moves, update_stores
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar
from tensorir.rewriting.visit import walk

SHORTEST_VECTOR: Final = 4
"""A vector has at least one lane for so many lanes of a register."""
_VECTORS: Final = 4
"""Vectors of partial results whose updates hide most of one another's latency."""
_MANY: Final = 16
"""Vectors in a row from which on it is rounded up to a multiple of `_VECTORS`."""


@dataclass(frozen=True)
class Lanes:
    """The lanes of a vector that a loop is cut into."""

    count: int
    multiple: int
    """The loop is lengthened to a multiple of this; 1 if it stays as it is."""


def vector_lanes(extent: int, register: int, may_pad: bool) -> Lanes:
    """Return the lanes of the vectors along a loop; 1 if they would be too short.

    A register holds `register` elements. A power of two that divides the loop and fills half of a
    register is best: then vectors lie where the rows of an array begin. Other loops of more than a
    register are lengthened, if they may be; the rest get the longest vector that divides them.
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
class LaneAxis:
    """A reduction that can be done in the lanes of vectors."""

    spatial: tuple[int, ...]
    """The places of the spatial loops around the block."""
    reduction: tuple[int, ...]
    """The places of the reduction loops, that along memory last."""
    lanes: Lanes
    result_ndim: int


def reduction_along_memory(
    state: ScheduleState, block: StmtSRef, target: Target, may_pad: bool
) -> LaneAxis | None:
    """Return the reduction loop along which each operand stays or moves by one element.

    None where there is no such loop, and where a spatial loop moves operands and result so: vectors
    along that one need not be added up. All loops must have a constant extent, and the block an
    `init` and an update that stores one value, or a tuple.
    """
    node = block.block
    stores = update_stores(node.body)
    if node.init is None or not stores:
        return None
    stored = {store.buffer for store in stores}
    loads = [p for store in stores for p in walk(store.value) if isinstance(p, BufferLoad)]
    operands = [
        moves(block, load.buffer, load.indices) for load in loads if load.buffer not in stored
    ]
    if not operands:
        return None
    store = stores[0]
    result = moves(block, store.buffer, store.indices)
    register = target.vector_lanes(max(load.dtype.bits for load in loads))
    around = loops_above(block)
    spatial: list[int] = []
    reduction: list[int] = []
    along: list[tuple[int, int, Lanes]] = []
    for place, (sref, kind) in enumerate(zip(around, loop_iter_types(state, around), strict=True)):
        loop = sref.loop
        if not isinstance(loop.extent, IntImm):
            return None
        steps = {operand.get(loop.loop_var, 0) for operand in operands}
        lanes = Lanes(1, 1)
        if steps in ({1}, {0, 1}):
            lanes = vector_lanes(loop.extent.value, register, may_pad)
        if kind == IterVar.DATA_PAR:
            if lanes.count > 1 and result.get(loop.loop_var) == 1:
                return None
            spatial.append(place)
        elif kind == IterVar.COMM_REDUCE:
            if lanes.count > 1:
                along.append((lanes.count, place, lanes))
            reduction.append(place)
        else:
            return None
    if not along or not spatial:
        return None
    _, last, lanes = max(along, key=lambda found: found[:2])
    others = [place for place in reduction if place != last]
    return LaneAxis(tuple(spatial), (*others, last), lanes, len(store.buffer.shape))
