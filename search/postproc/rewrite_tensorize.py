"""Putting tensor intrinsics in the place of the blocks that were tiled for them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from schedule import BlockRV, Schedule, ScheduleError
from search.annotations import AUTO_TENSORIZE
from search.auto_tensorize import refusal_reason
from search.postproc.postproc import Postproc, functions_with_blocks
from tensorir.node import Node
from tensorir.stmt import Block
from tensorir.visit import post_order_visit

if TYPE_CHECKING:
    from search.context import TuneContext


class RewriteTensorize(Postproc):
    """Tensorizes each block that carries the annotation `meta_schedule.auto_tensorize`.

    Its value names the intrinsic. The init that was separated from such a block has an empty name
    instead; its innermost loop is vectorised if `vectorize_init_loop`. It never rejects: a block
    that the intrinsic does not match is logged, and computes the same without it.
    """

    def __init__(self, vectorize_init_loop: bool = False) -> None:
        self.vectorize_init_loop = vectorize_init_loop
        self._logger = logging.getLogger("tensorir.search")

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        self._logger = context.logger

    def apply(self, sch: Schedule) -> bool:
        """Rewrite every annotated block, inner ones first."""
        for name in functions_with_blocks(sch):
            for node in _annotated(sch, name):
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
            self._logger.warning("Block %s does not become %s: %s", name, intrin, reason)


def _annotated(sch: Schedule, name: str) -> list[Block]:
    blocks: list[Block] = []

    def visit(node: Node) -> None:
        if isinstance(node, Block) and AUTO_TENSORIZE in node.annotations:
            blocks.append(node)

    post_order_visit(sch.mod.prim_func(name).body, visit)
    return blocks


def _vectorize_init(sch: Schedule, block: BlockRV) -> None:
    (child,) = sch.get_child_blocks(block)
    sch.vectorize(sch.get_loops(child)[-1])
