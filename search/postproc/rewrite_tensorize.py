"""The postprocessor that replaces blocks by tensor intrinsics."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from schedule import BlockRV, Schedule, ScheduleError
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from search.errors import refusal_reason
from search.postproc.postproc import Postproc, functions_with_blocks
from search.space_generator.annotations import AUTO_TENSORIZE
from tensorir.nodes.stmt import Block

if TYPE_CHECKING:
    from search.task import Task


class RewriteTensorize(Postproc):
    """Tensorizes each block that carries the annotation `meta_schedule.auto_tensorize`.

    The value is the name of the intrinsic. An init that was separated from such a block has an
    empty name, and its innermost loop is vectorised if `vectorize_init_loop`. It never rejects: if
    the intrinsic does not match, a warning is logged and the block stays as it was.
    """

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        self.vectorize_init_loop = vectorize_init_loop
        self._logger = logging.getLogger("tensorir.search")

    def _initialize_with_tune_context(self, context: Task) -> None:
        self._logger = context.logger

    def apply(self, sch: Schedule) -> bool:
        """Rewrite every annotated block, inner ones first."""
        for name in functions_with_blocks(sch):
            for node in list(_annotated(sch.state, sch.state.root(name))):
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
            self._logger.warning("Block %s is not replaced by %s: %s", name, intrin, reason)


def _annotated(state: ScheduleState, sref: StmtSRef) -> Iterator[Block]:
    """Yield the annotated blocks inside a block, then the block itself if it is annotated."""
    for child in state.child_blocks(sref):
        yield from _annotated(state, child)
    if AUTO_TENSORIZE in sref.block.annotations:
        yield sref.block


def _vectorize_init(sch: Schedule, block: BlockRV) -> None:
    (child,) = sch.get_child_blocks(block)
    sch.vectorize(sch.get_loops(child)[-1])
