"""Hints on loops and blocks."""

from __future__ import annotations

from typing import Any

from schedule.errors import Problem, check
from schedule.instruction import AnnotationArg, BlockOrLoopArg, primitive
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.node import Attrs
from tensorir.nodes.stmt import Block, For, normalize_annotation

NO_SUCH_KEY = Problem(
    "AnnotationKeyError",
    "{0} has no annotation {key!r}",
    "its keys are {keys}",
)


@primitive("Annotate")
def annotate(
    state: ScheduleState, block_or_loop: BlockOrLoopArg, ann_key: str, ann_val: AnnotationArg
) -> None:
    """Add an annotation to a block or loop; one that is there already is kept.

    `ann_val` is a str, an int, a float, a sampled number, or a list or dict of those.
    """
    stmt = _annotated(block_or_loop)
    if ann_key not in stmt.annotations:
        added = stmt.annotations.with_item(ann_key, normalize_annotation(ann_val))
        _set_annotations(state, block_or_loop, added)


@primitive("Unannotate")
def unannotate(state: ScheduleState, block_or_loop: BlockOrLoopArg, ann_key: str) -> None:
    """Remove an annotation of a block or loop.

    Raises ScheduleError (AnnotationKeyError) if there is none of that name.
    """
    stmt = _annotated(block_or_loop)
    present = ann_key in stmt.annotations
    check(present, NO_SUCH_KEY, block_or_loop, key=ann_key, keys=sorted(stmt.annotations))
    _set_annotations(state, block_or_loop, stmt.annotations.without(ann_key))


def _annotated(sref: StmtSRef) -> Block | For:
    return sref.block if sref.is_block else sref.loop


def _set_annotations(state: ScheduleState, sref: StmtSRef, annotations: Attrs) -> None:
    stmt: Any = _annotated(sref)
    state.replace(sref, stmt.with_(annotations=annotations))
