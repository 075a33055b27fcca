"""How accesses move with the loops around an update, and along which of them vectors lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from codegen.target import Target
from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.bound_values import written_out
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.arith.coefficients import Coefficients, coefficients
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.stmt import BufferStore, SeqStmt, Stmt
from tensorir.rewriting.visit import collect_vars, walk

SHORTEST_VECTOR: Final = 4
"""A vector has at least one lane for so many lanes of a register."""
_VECTORS: Final = 4
"""Vectors of partial results whose updates hide most of one another's latency."""
_MANY: Final = 16
"""Vectors in a row from which on it is rounded up to a multiple of `_VECTORS`."""


def update_stores(body: Stmt) -> tuple[BufferStore, ...]:
    """Return the stores of a body that is one, or lets around several, without the lets; else none.

    The values of several are all computed before the first is stored.
    """
    inner = written_out(body)
    parts = inner.seq if isinstance(inner, SeqStmt) else (inner,)
    stores = tuple(part for part in parts if isinstance(part, BufferStore))
    return stores if len(stores) == len(parts) else ()


def moves(block: StmtSRef, buffer: Buffer, indices: Sequence[PrimExpr]) -> dict[Var, int | None]:
    """Return by how many elements each loop moves an access in the body of a block.

    Loops that do not move it are left out; None stands for those that move it by no constant
    number of elements.
    """
    realize = block.block_realize
    values = {
        axis.var: coefficients(value)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    }
    analyzer: Analyzer | None = None
    found: dict[Var, int | None] = {}
    size: int | None = 1
    for index, extent in zip(reversed(indices), reversed(buffer.shape), strict=True):
        linear = coefficients(index)
        if linear.parts:
            # A quotient of an axis may be a constant over the values that the axis has.
            if analyzer is None:
                analyzer = Analyzer()
                for axis in realize.block.iter_vars:
                    if axis.dom is not None:
                        analyzer.bind(axis.var, axis.dom)
            linear = coefficients(analyzer.simplify(index))
        linear = linear.substituted(values)
        for var, factor in linear.of.items():
            before = found.get(var, 0)
            if size is None or before is None:
                found[var] = None if factor != 0 else before
            else:
                found[var] = before + factor * size
        for part, _ in linear.parts:
            for inner in collect_vars(part):
                value = values.get(inner)
                found.update(dict.fromkeys([inner] if value is None else _variables(value)))
        size = size * extent.value if size is not None and isinstance(extent, IntImm) else None
    return {var: step for var, step in found.items() if step != 0}


def _variables(value: Coefficients) -> list[Var]:
    return [*value.of, *(var for part, _ in value.parts for var in collect_vars(part))]


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
