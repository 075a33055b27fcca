"""Block analyses that decide if a rule applies: data reuse, access patterns, loop nests."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final, NamedTuple

from schedule.analysis.bindings import is_trivial_binding, loop_iter_types
from schedule.analysis.block_kind import is_dominant, reduction_violation
from schedule.analysis.dependency import dependencies
from schedule.analysis.loops import is_plain
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from search.space_generator.annotations import RANDOM_COMPUTE_PRODUCER, TILING_STRUCTURE
from tensorir.comparison.equal import expr_deep_equal
from tensorir.nodes.buffer import BufferRegion
from tensorir.nodes.expr import Add, IntImm, IterVar, PrimExpr, Sub, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize, For
from tensorir.rewriting.visit import collect_vars


class AccessPattern(NamedTuple):
    """The dimensions of a read region that follow those of the written region.

    A read dimension follows a written dimension if both have the same index, up to a constant
    shift. A read dimension with a constant index follows none.
    """

    injective: bool
    """True if no written dimension is followed twice."""
    ordered: bool
    """True if the written dimensions are followed in their order."""


def access_pattern(read: BufferRegion, write: BufferRegion) -> AccessPattern | None:
    """Return the pattern; None if an index is neither a shifted variable nor a constant."""
    if not all(isinstance(dim.extent, IntImm) for dim in write.region):
        return None
    written = [dim.min for dim in write.region if isinstance(dim.min, Var)]
    return _pattern(read, written) if len(written) == len(write.region) else None


def _pattern(read: BufferRegion, written: Sequence[PrimExpr]) -> AccessPattern | None:
    """Return the pattern of a read region for the written indices.

    A written index that is a sum of variables is followed by one read dimension with the same sum,
    or by several read dimensions with one of its variables each.
    """
    if not all(isinstance(dim.extent, IntImm) for dim in read.region):
        return None
    parts = {index: collect_vars(index) for index in written}
    variables = [var for of_index in parts.values() for var in of_index]
    dimension = {var: k for k, var in enumerate(variables)}
    followed: list[int] = []
    for r in read.region:
        if isinstance(r.min, IntImm):
            continue
        whole = next((i for i in parts if len(parts[i]) > 1 and expr_deep_equal(i, r.min)), None)
        if whole is not None:
            followed += [dimension[var] for var in parts[whole]]
            continue
        var = _shifted_var(r.min)
        if var is None or var not in dimension:
            return None
        followed.append(dimension[var])
    return AccessPattern(
        injective=len(set(followed)) == len(followed),
        ordered=all(a <= b for a, b in itertools.pairwise(followed)),
    )


def is_elementwise_consumer(block: StmtSRef) -> bool:
    """Return True if a block writes one buffer and reads all others in the same dimension order.

    Such a block (a copy, a bias, an activation) can replace a write cache. A block that writes at
    `2 * i + j` may read in two dimensions, at `[i, j]`.
    """
    node = block.block
    if len(node.writes) != 1:
        return False
    written = [dim.min for dim in node.writes[0].region]
    patterns = [_pattern(read, written) for read in node.reads]
    return all(p is not None and p.injective and p.ordered for p in patterns)


def has_data_reuse(block: StmtSRef) -> bool:
    """Return True if a read of the block does not depend on a spatial axis, so that tiling pays.

    False for reads of variable extent, and for several reads of one buffer. Axes of extent 1 are
    ignored.
    """
    node = block.block
    if len({read.buffer for read in node.reads}) != len(node.reads):
        return False
    axes = {
        axis.var
        for axis in node.iter_vars
        if axis.iter_type == IterVar.DATA_PAR
        and not (axis.dom is not None and is_const_int(axis.dom.extent, 1))
    }
    written = {write.buffer for write in node.writes}
    unused = 0
    for read in node.reads:
        if read.buffer in written:
            continue
        if not all(isinstance(r.extent, IntImm) for r in read.region):
            return False
        used = {var for r in read.region for var in collect_vars(r.min)}
        unused += len(axes - used)
    return unused > 0


def _shifted_var(index: PrimExpr) -> Var | None:
    """Return the variable of `var`, `var + constant` or `var - constant`."""
    if isinstance(index, Var):
        return index
    if isinstance(index, (Add, Sub)) and isinstance(index.a, Var) and isinstance(index.b, IntImm):
        return index.a
    if isinstance(index, Add) and isinstance(index.b, Var) and isinstance(index.a, IntImm):
        return index.b
    return None


def has_been_tiled(block: StmtSRef) -> bool:
    """Return True if multi-level tiling was applied to a block."""
    return TILING_STRUCTURE in block.block.annotations


_REDUCTIONS: Final = ({IterVar.COMM_REDUCE}, {IterVar.DATA_PAR, IterVar.COMM_REDUCE})
"""The axis kinds of a reduction that can be reordered; ordered axes cannot."""


def needs_multi_level_tiling(block: StmtSRef) -> bool:
    """Return True for an untiled reduction with data reuse along a spatial axis.

    Its loops must be directly nested, and it must be possible to split and reorder them.
    """
    node = block.block
    loops = loops_above(block)
    return (
        not has_been_tiled(block)
        and len(node.writes) == 1
        and bool(node.reads)
        and {axis.iter_type for axis in node.iter_vars} in _REDUCTIONS
        and is_trivial_binding(block)
        and has_data_reuse(block)
        and _directly_nested(loops)
        and all(_can_be_split(loop.loop) for loop in loops)
        and not _has_dependent_range(loops)
    )


def needs_rfactor(
    state: ScheduleState, block: StmtSRef, max_parallel_extent: int | None = None
) -> bool:
    """Return True if a reduction has too little spatial parallelism.

    A block that would be tiled has too little if its spatial loops have fewer iterations than its
    reduction loops, and at most `max_parallel_extent` unless that is None. Any other block has too
    little if it reduces over several iterations.
    """
    if not block.block.writes or has_been_tiled(block) or not is_trivial_binding(block):
        return False
    scope = dependencies(state, state.scope_root(block))
    if reduction_violation(state, block, is_dominant(block, scope)) != 0:
        return False
    loops = loops_above(block)
    kinds = loop_iter_types(state, loops)
    if IterVar.COMM_REDUCE not in kinds or not _perfectly_nested(loops, block):
        return False
    lengths = cumulative_lengths(state, block)
    if lengths is None or not all(_can_be_split(loop.loop) for loop in loops):
        return False
    spatial, reduce = lengths
    if needs_multi_level_tiling(block):
        enough = max_parallel_extent is not None and spatial > max_parallel_extent
        return spatial < reduce and not enough
    return reduce > 1


def is_reduction_to_design(state: ScheduleState, block: StmtSRef) -> bool:
    """Return True if a block would be tiled or factored, and no rule has factored it yet."""
    if block.parent is None or RANDOM_COMPUTE_PRODUCER in block.block.annotations:
        return False
    return needs_multi_level_tiling(block) or needs_rfactor(state, block)


def cumulative_lengths(state: ScheduleState, block: StmtSRef) -> tuple[int, int] | None:
    """Return the number of iterations of the spatial loops and of the reduction loops of a block.

    None if a loop is neither spatial nor a reduction, or its extent is not constant.
    """
    spatial = reduce = 1
    loops = loops_above(block)
    for loop, kind in zip(loops, loop_iter_types(state, loops), strict=True):
        extent = loop.loop.extent
        if not isinstance(extent, IntImm):
            return None
        if kind == IterVar.DATA_PAR:
            spatial *= extent.value
        elif kind == IterVar.COMM_REDUCE:
            reduce *= extent.value
        else:
            return None
    return spatial, reduce


def _can_be_split(loop: For) -> bool:
    """Return True for a serial loop without annotations that starts at 0 and is not empty."""
    return is_const_int(loop.min, 0) and not is_const_int(loop.extent, 0) and is_plain(loop)


def _has_dependent_range(loops: list[StmtSRef]) -> bool:
    """Return True if the extent of a loop depends on another one of the loops."""
    variables = {loop.loop.loop_var for loop in loops}
    return any(not variables.isdisjoint(collect_vars(loop.loop.extent)) for loop in loops)


def _directly_nested(loops: list[StmtSRef]) -> bool:
    return all(outer.loop.body is inner.loop for outer, inner in itertools.pairwise(loops))


def _perfectly_nested(loops: list[StmtSRef], block: StmtSRef) -> bool:
    last = loops[-1].loop.body
    return _directly_nested(loops) and isinstance(last, BlockRealize) and last.block is block.block
