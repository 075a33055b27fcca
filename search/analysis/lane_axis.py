"""Along which axis vectors of operands lie one after the other in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen.target import Target
from schedule.analysis.bindings import loop_iter_types
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from search.analysis.moves import moves
from tensorir.expr import BufferLoad, IntImm, IterVar
from tensorir.stmt import BufferStore
from tensorir.visit import walk

_SHORTEST: Final = 4
"""A vector has at least one lane for so many lanes of a register."""


def vector_lanes(extent: int, register: int) -> int:
    """Return the lanes of the longest vector that a loop divides into; 1 if that is too short.

    A register holds `register` elements.
    """
    lanes = max(n for n in range(1, register + 1) if extent % n == 0)
    return lanes if lanes * _SHORTEST >= register else 1


@dataclass(frozen=True)
class LaneAxis:
    """A reduction that can be done in the lanes of vectors."""

    spatial: tuple[int, ...]
    """The places of the spatial loops around the block."""
    reduction: tuple[int, ...]
    """The places of the reduction loops, that along memory last."""
    lanes: int
    result_ndim: int


def reduction_along_memory(
    state: ScheduleState, block: StmtSRef, target: Target
) -> LaneAxis | None:
    """Return the reduction loop along which each operand stays or moves by one element.

    None where there is no such loop, and where a spatial loop moves operands and result so: vectors
    along that one need not be added up. All loops must have a constant extent, and the block an
    `init` and one store.
    """
    node = block.block
    store = node.body
    if node.init is None or not isinstance(store, BufferStore):
        return None
    loads = [part for part in walk(store.value) if isinstance(part, BufferLoad)]
    operands = [
        moves(block, load.buffer, load.indices) for load in loads if load.buffer is not store.buffer
    ]
    if not operands:
        return None
    result = moves(block, store.buffer, store.indices)
    register = target.vector_lanes(max(load.dtype.bits for load in loads))
    around = loops_above(block)
    spatial: list[int] = []
    reduction: list[int] = []
    along: list[tuple[int, int]] = []
    for place, (sref, kind) in enumerate(zip(around, loop_iter_types(state, around), strict=True)):
        loop = sref.loop
        if not isinstance(loop.extent, IntImm):
            return None
        steps = {operand.get(loop.loop_var, 0) for operand in operands}
        lanes = vector_lanes(loop.extent.value, register) if steps in ({1}, {0, 1}) else 1
        if kind == IterVar.DATA_PAR:
            if lanes > 1 and result.get(loop.loop_var) == 1:
                return None
            spatial.append(place)
        elif kind == IterVar.COMM_REDUCE:
            if lanes > 1:
                along.append((lanes, place))
            reduction.append(place)
        else:
            return None
    if not along or not spatial:
        return None
    lanes, last = max(along)
    others = [place for place in reduction if place != last]
    return LaneAxis(tuple(spatial), (*others, last), lanes, len(store.buffer.shape))
