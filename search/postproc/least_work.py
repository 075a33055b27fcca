"""A lower bound of the cycles of a nest on one core, which decides if threads pay."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from tensorir.arith.coefficients import coefficients
from tensorir.nodes import expr as e
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt
from tensorir.rewriting.visit import children, uses_var, walk
from tensorir.semantics.floats import REAL

if TYPE_CHECKING:
    from search.feature_extractor.machine import Machine

_FUNCTION_CYCLES: Final = 8.0
"""The minimum cycles of a function of real numbers, on a vector register."""
_DIVISION_CYCLES: Final = 4.0
_UPDATE_FACTOR: Final = 4.0
"""The ratio of the time of an update to the time of its arithmetic: a sum waits for its previous
value, at least 4 cycles per element for a single scalar sum, and not at all with many sums.
"""


class _Sort(Enum):
    LOAD = auto()
    ARITHMETIC = auto()
    DIVISION = auto()
    FUNCTION = auto()


_SORTS: Final[Mapping[type[PrimExpr], _Sort]] = {
    BufferLoad: _Sort.LOAD,
    **dict.fromkeys((e.Add, e.Sub, e.Mul, e.Min, e.Max, e.Select), _Sort.ARITHMETIC),
    e.Div: _Sort.DIVISION,
}


def least_cycles(node: Stmt, machine: Machine) -> float:
    """Return a lower bound of the cycles of a statement, infinite if it is unknown.

    It assumes whole vectors, busy units, and data in the first cache. Inits count 0, and a branch
    counts as its longer arm.
    """
    if isinstance(node, For):
        extent = node.extent
        if not isinstance(extent, IntImm):
            return math.inf
        return extent.value * least_cycles(node.body, machine) if extent.value else 0.0
    if isinstance(node, SeqStmt):
        return sum(least_cycles(part, machine) for part in node.seq)
    if isinstance(node, BlockRealize):
        return least_cycles(node.block.body, machine)
    if isinstance(node, LetStmt):
        return least_cycles(node.body, machine)
    if isinstance(node, IfThenElse):
        arms = [node.then_case] + ([] if node.else_case is None else [node.else_case])
        return max(least_cycles(arm, machine) for arm in arms)
    return _of_store(node, machine) if isinstance(node, BufferStore) else math.inf


def _of_store(node: BufferStore, machine: Machine) -> float:
    counts: Counter[_Sort] = Counter()
    bits = node.buffer.dtype.bits
    accesses = [node.indices]
    todo: list[PrimExpr] = [node.value]
    while todo:
        part = todo.pop()
        sort = _SORTS.get(type(part))
        if isinstance(part, Call) and isinstance(part.op, Op) and part.op.short_name in REAL:
            sort = _Sort.FUNCTION
        if sort is not None:
            counts[sort] += 1
        if isinstance(part, BufferLoad):
            bits = max(bits, part.buffer.dtype.bits)
            accesses.append(part.indices)
            continue  # the indices compute addresses
        todo.extend(child for child in children(part) if isinstance(child, PrimExpr))
    cycles = max(
        counts[_Sort.LOAD] / machine.loads, counts[_Sort.ARITHMETIC] / machine.fma_units / 2, 1.0
    )
    cycles += counts[_Sort.DIVISION] * _DIVISION_CYCLES + counts[_Sort.FUNCTION] * _FUNCTION_CYCLES
    updates = any(
        isinstance(part, BufferLoad) and part.buffer is node.buffer for part in walk(node.value)
    )
    cycles *= _UPDATE_FACTOR if updates else 1.0
    elements = node.value.dtype.lanes
    return cycles * elements * (bits / machine.vector_bits if _has_vectors(accesses) else 1.0)


def _has_vectors(accesses: Sequence[Sequence[PrimExpr]]) -> bool:
    """Return whether there is a variable that moves each access by one element or not at all."""
    accesses = [indices for indices in accesses if indices]
    variables = {part for (*_, last) in accesses for part in walk(last) if isinstance(part, Var)}
    return not variables or any(
        all(
            coefficients(last).step(var) in (0, 1) and not any(uses_var(x, var) for x in outer)
            for *outer, last in accesses
        )
        for var in variables
    )
