"""Parallel and vector loops and unrolling, as the root block asks for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schedule import BlockRV, LoopRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_types
from schedule.analysis.block_kind import check_compact_dataflow, is_spatial
from schedule.analysis.loops import is_plain
from schedule.analysis.surroundings import check_order_is_free, check_told_apart
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from search.postproc.contiguity import max_fusible
from search.postproc.postproc import Postproc, functions_with_blocks
from search.spaces.annotations import (
    AUTO_TENSORIZE,
    PACKED,
    PARALLEL,
    PRAGMA_AUTO_UNROLL_MAX_STEP,
    PRAGMA_UNROLL_EXPLICIT,
    UNROLL_EXPLICIT,
    UNROLL_IMPLICIT,
    VECTORIZE,
)
from tensorir.nodes.expr import IntImm, IterVar
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, SeqStmt, Stmt

_KEYS = (PARALLEL, VECTORIZE, UNROLL_EXPLICIT, UNROLL_IMPLICIT)


class RewriteParallelVectorizeUnroll(Postproc):
    """Does what `ParallelizeVectorizeUnroll` has put down on the root block.

    For each block under the root: the outer spatial loops are fused, as many as give the wanted
    number of parallel iterations, and run in parallel; the inner ones that walk through memory
    without a gap are fused up to the wanted length and vectorised; the unroll limit is annotated
    on the outermost loop of a block that reduces. Loops whose order matters stay as they are, and
    a nest that makes at most `one_core` stores stays on one core: threads take microseconds to
    start. Packed operands are left to `RewritePanels`. It never rejects.
    """

    def __init__(self, one_core: int = 4096) -> None:
        self.one_core = one_core

    def apply(self, sch: Schedule) -> bool:
        """Rewrite every function whose root block asks for it."""
        for name in functions_with_blocks(sch):
            root = sch.state.root(name)
            wishes = {key: root.block.annotations[key] for key in _KEYS if _asks(root, key)}
            if wishes:
                block = sch.get_block(root.block.name_hint, name)
                for key in wishes:
                    sch.unannotate(block, key)
                numbers = (_number(wishes.get(key)) for key in _KEYS)
                wish = _Wish(self.one_core, *numbers)
                for child in sch.get_child_blocks(block):
                    if PACKED not in sch.get(child).annotations:
                        _rewrite(sch, child, wish)
        return True


@dataclass(frozen=True)
class _Wish:
    """The limits that the root block asks for; -1 where it does not."""

    one_core: int
    """The most stores of a nest that is not run in parallel."""
    parallel: int
    vectorize: int
    unroll_explicit: int
    unroll_implicit: int


@dataclass(frozen=True)
class _Loop:
    """The facts about one of the loops around a block."""

    sref: StmtSRef
    kind: int
    extent: int | None
    """None if it is not constant, or 0."""
    marked: bool
    """True if it cannot be fused: bound, annotated, or not counting from 0."""
    single: bool
    """True if nothing stands between it and the loop below, or beside the block."""

    @staticmethod
    def of(sref: StmtSRef, kind: int, below: StmtSRef | None) -> _Loop:
        loop = sref.loop
        extent = loop.extent.value or None if isinstance(loop.extent, IntImm) else None
        marked = not is_plain(loop) or not is_const_int(loop.min, 0)
        single = not isinstance(loop.body, SeqStmt) if below is None else type(loop.body) is For
        return _Loop(sref, kind, extent, marked, single)

    @property
    def is_spatial(self) -> bool:
        return self.kind == IterVar.DATA_PAR


def _rewrite(sch: Schedule, block: BlockRV, wish: _Wish) -> None:
    handles = sch.get_loops(block)
    if not handles:
        return
    srefs = [sch.get_sref(handle) for handle in handles]
    kinds = loop_iter_types(sch.state, srefs)
    below = [*srefs[1:], None]
    loops = [_Loop.of(*of) for of in zip(srefs, kinds, below, strict=True)]
    fusible = max_fusible(sch.get_sref(block), srefs)
    n_parallel = n_vector = -1
    all_free = _any_order(sch.state, srefs[0], srefs)
    if wish.parallel != -1 and all_free and _stores(srefs[0].loop) > wish.one_core:
        n_parallel = _count_parallel(loops, wish.parallel)
    # The lanes of a block that is to become an intrinsic are inside of it.
    is_scalar = not sch.get(block).annotations.get(AUTO_TENSORIZE)
    if is_scalar and wish.vectorize != -1 and (all_free or _any_order(sch.state, srefs[-1], srefs)):
        n_vector = _count_vector(loops, wish.vectorize, fusible)
    count = len(loops)
    if n_parallel != -1 and n_vector != -1:
        free = sum(1 for x in loops if not x.marked and x.is_spatial and x.single and x.extent)
        if free == count and fusible == count:
            n_parallel = n_vector = count
        else:
            n_parallel = min(n_parallel, count - n_vector)
    outermost = _rewrite_loops(sch, handles, n_parallel, n_vector, wish.vectorize)
    step = max(wish.unroll_explicit, wish.unroll_implicit)
    if step > 0 and not is_spatial(sch.get_sref(block)):
        sch.annotate(outermost, PRAGMA_AUTO_UNROLL_MAX_STEP, step)
        sch.annotate(outermost, PRAGMA_UNROLL_EXPLICIT, int(wish.unroll_explicit > 0))


def _any_order(state: ScheduleState, loop: StmtSRef, nest: Sequence[StmtSRef]) -> bool:
    """Say whether all that is below a loop of a nest lets its iterations run in any order."""
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
    """Make the parallel and the vector loop; return what is now the outermost loop."""
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


def _stores(node: Stmt) -> float:
    """Return how many stores a statement makes, infinite where that is not known."""
    if isinstance(node, For):
        extent = node.extent
        return extent.value * _stores(node.body) if isinstance(extent, IntImm) else math.inf
    if isinstance(node, SeqStmt):
        return sum(map(_stores, node.seq))
    if isinstance(node, BlockRealize):
        return _stores(node.block.body)
    return 1 if isinstance(node, BufferStore) else math.inf


def _count_parallel(loops: Sequence[_Loop], limit: int) -> int:
    """Return how many outer loops to fuse; the one that exceeds the limit is included."""
    count, product = 0, 1
    for loop in loops:
        if not loop.is_spatial or loop.marked or loop.extent is None:
            break
        count += 1
        product *= loop.extent
        if product > limit or not loop.single:
            break
    return -1 if product == 1 else count


def _count_vector(loops: Sequence[_Loop], limit: int, fusible: int) -> int:
    """Return how many inner loops to fuse; the one that exceeds the limit is left out."""
    count, product = 0, 1
    for loop in reversed(loops):
        if not loop.is_spatial or count >= fusible:
            break
        if loop.marked or not loop.single or loop.extent is None:
            break
        product *= loop.extent
        if product > limit:
            break
        count += 1
    return -1 if product == 1 else count


def _asks(root: StmtSRef, key: str) -> bool:
    return key in root.block.annotations


def _number(value: object) -> int:
    return value.value if isinstance(value, IntImm) else -1
