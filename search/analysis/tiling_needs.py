"""The tests of whether a block gains from multi-level tiling, or from a factored reduction."""

from __future__ import annotations

import itertools

from schedule.analysis.bindings import is_trivial_binding, loop_iter_types
from schedule.analysis.block_kind import is_dominant, reduction_violation
from schedule.analysis.dependency import dependencies
from schedule.analysis.loops import is_plain
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from search.analysis.access_pattern import has_data_reuse
from search.spaces.annotations import RANDOM_COMPUTE_PRODUCER, TILING_STRUCTURE
from tensorir.nodes.expr import IntImm, IterVar
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize, For


def has_been_tiled(block: StmtSRef) -> bool:
    """Say whether multi-level tiling was applied to a block."""
    return TILING_STRUCTURE in block.block.annotations


def needs_multi_level_tiling(block: StmtSRef) -> bool:
    """Say whether a block reduces, reads data again along a spatial axis, and was not tiled yet.

    Its loops stand directly in one another and can be split.
    """
    node = block.block
    loops = loops_above(block)
    return (
        not has_been_tiled(block)
        and len(node.writes) == 1
        and bool(node.reads)
        and any(axis.iter_type != IterVar.DATA_PAR for axis in node.iter_vars)
        and is_trivial_binding(block)
        and has_data_reuse(block)
        and _directly_nested(loops)
        and all(_can_be_split(loop.loop) for loop in loops)
    )


def needs_rfactor(
    state: ScheduleState,
    block: StmtSRef,
    max_parallel_extent: int | None,
    shortest_untiled: int = 2,
) -> bool:
    """Say whether a reduction has too little spatial parallelism of its own.

    For a block that would be tiled, this is so if its spatial loops have fewer iterations than the
    reduction and, unless that is None, at most `max_parallel_extent`; for another, if it reduces
    over at least `shortest_untiled` iterations.
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
    return reduce >= shortest_untiled


def is_reduction_to_design(state: ScheduleState, block: StmtSRef) -> bool:
    """Say whether a block would be tiled or factored, and no rule has factored it before."""
    if block.parent is None or RANDOM_COMPUTE_PRODUCER in block.block.annotations:
        return False
    return needs_multi_level_tiling(block) or needs_rfactor(state, block, None)


def cumulative_lengths(state: ScheduleState, block: StmtSRef) -> tuple[int, int] | None:
    """Return the iterations of the spatial and of the reduction loops around a block.

    None if a loop is neither, or its extent is not constant.
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
    """Say whether a loop has iterations, counts from 0 and is not marked for something else."""
    return is_const_int(loop.min, 0) and not is_const_int(loop.extent, 0) and is_plain(loop)


def _directly_nested(loops: list[StmtSRef]) -> bool:
    return all(outer.loop.body is inner.loop for outer, inner in itertools.pairwise(loops))


def _perfectly_nested(loops: list[StmtSRef], block: StmtSRef) -> bool:
    last = loops[-1].loop.body
    return _directly_nested(loops) and isinstance(last, BlockRealize) and last.block is block.block
