"""The postprocessors that separate the inits of reductions, and that apply tensor intrinsics."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from codegen.lower.forms import PIPELINE_STAGE
from schedule import BlockRV, Schedule, ScheduleError
from schedule.analysis.bindings import loop_iter_types
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from search.errors import refusal_reason
from search.postproc.postproc import Postproc, functions_with_blocks
from search.space_generator.annotations import AUTO_TENSORIZE, AUTO_TENSORIZE_INIT
from tensorir.nodes.expr import IterVar
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, ForKind
from tensorir.rewriting.visit import uses_var

if TYPE_CHECKING:
    pass


class RewriteReductionBlock(Postproc):
    """Decomposes each reduction, so that its `init` runs before the first reduction loop.

    Reductions over GPU threads are left unchanged, and so are reductions that cannot be decomposed,
    for example under a condition. It never rejects.
    """

    def apply(self, sch: Schedule) -> bool:
        """Decompose every block with an `init`."""
        for name in functions_with_blocks(sch):
            refused: set[str] = set()
            while found := _with_init(sch, name, refused):
                for sref, depth in found:
                    block = sch.get_block(sref.block.name_hint, name)
                    loops = sch.get_loops(block)
                    try:
                        init = sch.decompose_reduction(block, loops[depth])
                    except ScheduleError:
                        refused.add(sref.block.name_hint)
                        continue
                    _move_annotations(sch, block, init)
        return True


def _with_init(sch: Schedule, name: str, refused: Collection[str]) -> list[tuple[StmtSRef, int]]:
    """Return the blocks to decompose, each with the index of its first reduction loop."""
    return [
        (sref, depth)
        for sref in sch.state.blocks(name)
        if sref.block.init is not None
        and sref.block.name_hint not in refused
        and not _is_over_threads(sref)
        and (depth := _depth(sch, sref)) is not None
    ]


def _is_over_threads(block: StmtSRef) -> bool:
    threads = [
        loop.loop.loop_var
        for loop in loops_above(block)
        if loop.loop.kind == ForKind.THREAD_BINDING
    ]
    if not threads:
        return False
    realize = block.block_realize
    return any(
        axis.iter_type == IterVar.COMM_REDUCE and any(uses_var(value, var) for var in threads)
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
    )


def _depth(sch: Schedule, block: StmtSRef) -> int | None:
    """Return the index of the first loop that is not spatial or is pipelined, None without one.

    Also None for a block that never runs, because its init must not run either.
    """
    loops = loops_above(block)
    if any(is_const_int(loop.loop.extent, 0) for loop in loops):
        return None
    kinds = loop_iter_types(sch.state, loops)
    # A pipelined loop has one iteration if the reduction has one step.
    return next(
        (
            k
            for k, (kind, loop) in enumerate(zip(kinds, loops, strict=True))
            if kind != IterVar.DATA_PAR or PIPELINE_STAGE in loop.loop.annotations
        ),
        None,
    )


def _move_annotations(sch: Schedule, block: BlockRV, init: BlockRV) -> None:
    """Annotate the init block with its intrinsic, and the update with its intrinsic only."""
    annotations = sch.get(block).annotations
    if AUTO_TENSORIZE in annotations:
        sch.unannotate(init, AUTO_TENSORIZE)
        sch.annotate(init, AUTO_TENSORIZE, annotations.get(AUTO_TENSORIZE_INIT, ""))
    if AUTO_TENSORIZE_INIT in annotations:
        sch.unannotate(block, AUTO_TENSORIZE_INIT)
        sch.unannotate(init, AUTO_TENSORIZE_INIT)


class RewriteTensorize(Postproc):
    """Tensorizes each block that carries the annotation `meta_schedule.auto_tensorize`.

    The value is the name of the intrinsic. An init that was separated from such a block has an
    empty name, and its innermost loop is vectorised if `vectorize_init_loop`. It never rejects: if
    the intrinsic does not match, a warning is logged and the block stays as it was.
    """

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        self.vectorize_init_loop = vectorize_init_loop

    def apply(self, sch: Schedule) -> bool:
        """Rewrite every annotated block, inner ones first."""
        for name in functions_with_blocks(sch):
            for node in list(_annotated_blocks(sch.state, sch.state.root(name))):
                intrin = node.annotations[AUTO_TENSORIZE]
                if not intrin and not self.vectorize_init_loop:
                    continue
                block = sch.get_block(node.name_hint, name)
                sch.unannotate(block, AUTO_TENSORIZE)
                if intrin:
                    self._tensorize(sch, block, intrin)
                else:
                    _vectorize_init(sch, block)
        return True

    def _tensorize(self, sch: Schedule, block: BlockRV, intrin: str) -> None:
        try:
            sch.tensorize(block, intrin)
        except ScheduleError as error:
            name, reason = sch.get(block).name_hint, refusal_reason(error)
            self._task_logger().warning("Block %s is not replaced by %s: %s", name, intrin, reason)


def _annotated_blocks(state: ScheduleState, sref: StmtSRef) -> Iterator[Block]:
    """Yield the annotated blocks inside a block, then the block itself if it is annotated."""
    for child in state.child_blocks(sref):
        yield from _annotated_blocks(state, child)
    if AUTO_TENSORIZE in sref.block.annotations:
        yield sref.block


def _vectorize_init(sch: Schedule, block: BlockRV) -> None:
    (child,) = sch.get_child_blocks(block)
    sch.vectorize(sch.get_loops(child)[-1])
