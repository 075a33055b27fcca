"""The postprocessor that makes parallel and vector loops and sets unroll limits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import numpy as np

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.block_kind import check_compact_dataflow, is_spatial
from schedule.analysis.loops import is_plain
from schedule.analysis.surroundings import check_order_is_free, check_told_apart
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from search.feature_extractor.machine import Machine
from search.postproc.loop_marks import (
    Array,
    Marks,
    fusible_loops,
    parallel_loops,
    vector_loops,
)
from search.postproc.postproc import Postproc, functions_with_blocks
from search.space_generator.annotations import (
    AUTO_TENSORIZE,
    PACKED,
    PARALLEL,
    PRAGMA_AUTO_UNROLL_MAX_STEP,
    PRAGMA_UNROLL_EXPLICIT,
    UNROLL_EXPLICIT,
    UNROLL_IMPLICIT,
    VECTORIZE,
)
from tensorir.arith.coefficients import coefficients
from tensorir.indices.accesses import Bindings
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.expr import BufferLoad, Call, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, IfThenElse, LetStmt, SeqStmt, Stmt
from tensorir.rewriting.visit import children, uses_var, walk
from tensorir.semantics.floats import REAL

if TYPE_CHECKING:
    from search.task import Task

_FUNCTION_CYCLES: Final = 8.0
"""The least cycles of a function of real numbers, on a vector register."""
_DIVISION_CYCLES: Final = 4.0
_UPDATE_FACTOR: Final = 4.0
"""The time of an update over that of its arithmetic: sums wait for their last value, 4 cycles and
more for each element where they are scalars, and not at all where there are many."""


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
    """Return the cycles that a statement takes at best, infinite where that is not known.

    Whole vectors, all units at work, everything in the first cache; inits count nothing, and of a
    branch the longer arm.
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
            continue  # what its indices compute are addresses
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
    """Say whether some variable moves each access by one element, or leaves it where it is."""
    accesses = [indices for indices in accesses if indices]
    variables = {part for (*_, last) in accesses for part in walk(last) if isinstance(part, Var)}
    return not variables or any(
        all(
            coefficients(last).step(var) in (0, 1) and not any(uses_var(x, var) for x in outer)
            for *outer, last in accesses
        )
        for var in variables
    )


_ENDLESS: Final = 2.0**60
"""The extent of a loop of unknown length; no outer loop has such a stride."""
_KEYS = (PARALLEL, VECTORIZE, UNROLL_EXPLICIT, UNROLL_IMPLICIT)


class RewriteParallelVectorizeUnroll(Postproc):
    """Applies the annotations that `ParallelizeVectorizeUnroll` sets on a root block.

    For each block below the root, outer spatial loops are fused until they have the requested
    number of iterations, and run in parallel. Inner loops that are contiguous in memory are fused
    up to the requested length and vectorised. The unroll limit is annotated on the outermost loop
    of a reduction. Loops whose order matters are left unchanged. A nest with too little work for
    threads on the target machine, or at most `one_core` cycles if given, gets no parallel loop.
    Packed operands are left to `RewritePanels`. It never rejects.
    """

    def __init__(self, one_core: float | None = None) -> None:
        self.one_core = one_core
        self._machine: Machine | None = None

    def _initialize_with_tune_context(self, context: Task) -> None:
        super()._initialize_with_tune_context(context)
        self._machine = Machine.of(self._task_target())

    def is_shared(self, nest: Stmt) -> bool:
        """Return True if a nest has enough work for several cores, or the machine is unknown."""
        if self._machine is None:
            return True
        cycles = least_cycles(nest, self._machine)
        if self.one_core is None:
            return self._machine.is_worth_a_fork(cycles)
        return cycles > self.one_core

    def apply(self, sch: Schedule) -> bool:
        """Rewrite every function with an annotated root block."""
        for name in functions_with_blocks(sch):
            root = sch.state.root(name)
            found = {k: root.block.annotations[k] for k in _KEYS if k in root.block.annotations}
            if found:
                block = sch.get_block(root.block.name_hint, name)
                for key in found:
                    sch.unannotate(block, key)
                given = (found.get(key) for key in _KEYS)
                numbers = (x.value if isinstance(x, IntImm) else -1 for x in given)
                limits = _Limits(self.is_shared, *numbers)
                for child in sch.get_child_blocks(block):
                    if PACKED not in sch.get(child).annotations:
                        _rewrite(sch, child, limits)
        return True


@dataclass(frozen=True)
class _Limits:
    """The annotated numbers of a root block; -1 for a missing annotation."""

    is_shared: Callable[[Stmt], bool]
    """Returns True for a nest with enough work for several cores."""
    parallel: int
    vectorize: int
    unroll_explicit: int
    unroll_implicit: int


def _rewrite(sch: Schedule, block: BlockRV, limits: _Limits) -> None:
    handles = sch.get_loops(block)
    if not handles:
        return
    srefs = [sch.get_sref(handle) for handle in handles]
    kinds = loop_iter_types(sch.state, srefs)
    loops = [sref.loop for sref in srefs]
    lengths = [x.extent.value if isinstance(x.extent, IntImm) else 0 for x in loops]
    extents = np.array([[n or _ENDLESS] for n in lengths])
    fusible = fusible_loops(_steps(sch.get_sref(block), srefs), extents)
    # A loop is free to be fused if it is not bound, not annotated, and starts at 0.
    free = [
        kind == IterVar.DATA_PAR and n > 0 and is_plain(loop) and is_const_int(loop.min, 0)
        for loop, kind, n in zip(loops, kinds, lengths, strict=True)
    ]
    single = [type(loop.body) is For for loop in loops[:-1]]
    single.append(not isinstance(loops[-1].body, SeqStmt))
    alone = [f and s for f, s in zip(free, single, strict=True)]
    n_parallel = n_vector = -1
    all_free = _any_order(sch.state, srefs[0], srefs)
    if limits.parallel > 0 and all_free and limits.is_shared(srefs[0].loop):
        n_parallel = _count(parallel_loops(extents, free, single, np.array([limits.parallel])))
    # A block for an intrinsic has its vector lanes inside.
    wants_vector = limits.vectorize != -1 and not sch.get(block).annotations.get(AUTO_TENSORIZE)
    if wants_vector and (all_free or _any_order(sch.state, srefs[-1], srefs)):
        n_vector = _count(vector_loops(extents, alone, fusible, np.array([limits.vectorize])))
    count = len(loops)
    if n_parallel != -1 and n_vector != -1:
        if all(alone) and fusible.all():
            n_parallel = n_vector = count
        else:
            n_parallel = min(n_parallel, count - n_vector)
    outermost = _rewrite_loops(sch, handles, n_parallel, n_vector, limits.vectorize)
    step = max(limits.unroll_explicit, limits.unroll_implicit)
    if step > 0 and not is_spatial(sch.get_sref(block)):
        sch.annotate(outermost, PRAGMA_AUTO_UNROLL_MAX_STEP, step)
        sch.annotate(outermost, PRAGMA_UNROLL_EXPLICIT, int(limits.unroll_explicit > 0))


def _any_order(state: ScheduleState, loop: StmtSRef, nest: Sequence[StmtSRef]) -> bool:
    """Return True if the iterations of a loop of a nest may run in any order."""
    try:
        check_compact_dataflow(state, loop)
        check_order_is_free(state, loop)
        check_told_apart(state, *nest)
    except ScheduleError:
        return False
    return True


def _rewrite_loops(
    sch: Schedule, loops: list[LoopRV], n_parallel: int, n_vector: int, vector_length: int
) -> LoopRV:
    """Make the parallel and the vector loop; return the new outermost loop."""
    outermost = loops[0]
    if n_parallel == n_vector == len(loops):
        outermost, inner = sch.split(sch.fuse(*loops), [None, vector_length])
        sch.parallel(outermost)
        sch.vectorize(inner)
        return outermost
    if n_parallel > 0:
        outermost = sch.fuse(*loops[:n_parallel])
        sch.parallel(outermost)
    if n_vector > 0:
        vector = sch.fuse(*loops[-n_vector:])
        sch.vectorize(vector)
        if n_vector == len(loops):
            outermost = vector
    return outermost


def _count(marks: Marks) -> int:
    """Return the number of chosen loops of the only nest, -1 if no loop can be chosen."""
    return -1 if marks.iterations[0] == 1 else int(marks.chosen.sum())


def _steps(block: StmtSRef, loops: Sequence[StmtSRef]) -> Array:
    """Return the stride of each access of a block along each loop [accesses, loops, 1]."""
    node = block.block
    bindings = Bindings.of(block.block_realize)
    steps = [_strides(region, bindings) for region in dict.fromkeys((*node.reads, *node.writes))]
    rows = [[of.get(sref.loop.loop_var, 0) for sref in loops] for of in steps]
    return np.array(rows, np.float64).reshape(len(rows), len(loops), 1)


def _strides(region: BufferRegion, bindings: Bindings) -> dict[Var, int]:
    """Return the stride of each loop variable in the buffer, in elements."""
    strides: dict[Var, int] = {}
    size = 1
    for r, extent in zip(reversed(region.region), reversed(region.buffer.shape), strict=True):
        for var, factor in bindings.read(r.min).of.items():
            if factor != 0:
                strides.setdefault(var, factor * size)
        size *= extent.value if isinstance(extent, IntImm) else 0
    return strides
