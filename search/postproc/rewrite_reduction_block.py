"""Initialising reductions before their loops."""

from __future__ import annotations

from schedule import BlockRV, Schedule
from schedule.analysis.bindings import loop_iter_types
from schedule.sref import StmtSRef, loops_above
from search.annotations import AUTO_TENSORIZE, AUTO_TENSORIZE_INIT
from search.postproc.postproc import Postproc, functions_with_blocks
from tensorir.expr import IterVar
from tensorir.stmt import ForKind
from tensorir.visit import uses_var


class RewriteReductionBlock(Postproc):
    """Decomposes each reduction, so that its `init` runs before the first reduction loop.

    Reductions over GPU threads are left alone. It never rejects.
    """

    def apply(self, sch: Schedule) -> bool:
        """Decompose every block with an `init`."""
        for name in functions_with_blocks(sch):
            while True:
                found = [(s, d) for s in _with_init(sch, name) if (d := _depth(sch, s)) is not None]
                if not found:
                    break
                for sref, depth in found:
                    block = sch.get_block(sref.block.name_hint, name)
                    loops = sch.get_loops(block)
                    _move_annotations(sch, block, sch.decompose_reduction(block, loops[depth]))
        return True


def _with_init(sch: Schedule, name: str) -> list[StmtSRef]:
    return [
        sref
        for sref in sch.state.blocks(name)
        if sref.block.init is not None and not _is_over_threads(sref)
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
    """Return the place of the first loop that is not spatial, None without one."""
    kinds = loop_iter_types(sch.state, loops_above(block))
    return next((k for k, kind in enumerate(kinds) if kind != IterVar.DATA_PAR), None)


def _move_annotations(sch: Schedule, block: BlockRV, init: BlockRV) -> None:
    """Give the init block the intrinsic meant for it, and the update its own only."""
    annotations = sch.get(block).annotations
    if AUTO_TENSORIZE in annotations:
        sch.unannotate(init, AUTO_TENSORIZE)
        sch.annotate(init, AUTO_TENSORIZE, annotations.get(AUTO_TENSORIZE_INIT, ""))
    if AUTO_TENSORIZE_INIT in annotations:
        sch.unannotate(block, AUTO_TENSORIZE_INIT)
        sch.unannotate(init, AUTO_TENSORIZE_INIT)
