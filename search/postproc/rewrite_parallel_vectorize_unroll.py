"""The postprocessor that makes parallel and vector loops and sets unroll limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from search.postproc.least_work import least_cycles
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
from tensorir.indices.accesses import Bindings
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.expr import IntImm, IterVar, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import For, SeqStmt, Stmt

if TYPE_CHECKING:
    from search.task import Task

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
        target = self._task_target()
        self._machine = None if target.gpu is not None else Machine.of(target)

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
    # A block for an intrinsic, or around other blocks, has its vector lanes inside.
    is_intrinsic = sch.get(block).annotations.get(AUTO_TENSORIZE)
    has_lanes_inside = is_intrinsic or sch.state.child_blocks(sch.get_sref(block))
    wants_vector = limits.vectorize != -1 and not has_lanes_inside
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
