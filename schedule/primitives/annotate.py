"""Hints on loops and blocks, and marks in a trace."""

from __future__ import annotations

from typing import Any, Final

from schedule.errors import Problem, check
from schedule.instruction import AnnotationArg, BlockOrLoopArg, primitive
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.stmt import normalize_annotation

ENTER_COMPOSITE: Final = "EnterComposite"
EXIT_COMPOSITE: Final = "ExitComposite"

NO_SUCH_KEY = Problem(
    "AnnotationKeyError",
    "{0} has no annotation {key!r}",
    "its keys are {keys}",
)


@primitive("Annotate")
def annotate(
    state: ScheduleState, block_or_loop: BlockOrLoopArg, ann_key: str, ann_val: AnnotationArg
) -> None:
    """Add an annotation to a block or loop; an existing annotation of that key is kept.

    `ann_val` is a str, an int, a float, a sampled number, or a list or dict of those.
    """
    stmt: Any = block_or_loop.stmt
    if ann_key not in stmt.annotations:
        set_annotation(state, block_or_loop, ann_key, ann_val)


@primitive("Unannotate")
def unannotate(state: ScheduleState, block_or_loop: BlockOrLoopArg, ann_key: str) -> None:
    """Remove an annotation of a block or loop.

    Raises ScheduleError (AnnotationKeyError) if an annotation of that key does not exist.
    """
    stmt: Any = block_or_loop.stmt
    present = ann_key in stmt.annotations
    check(present, NO_SUCH_KEY, block_or_loop, key=ann_key, keys=sorted(stmt.annotations))
    state.replace(block_or_loop, stmt.with_(annotations=stmt.annotations.without(ann_key)))


def set_annotation(state: ScheduleState, sref: StmtSRef, key: str, value: Any) -> None:
    """Give a block or loop an annotation, replacing one of the same key."""
    stmt: Any = sref.stmt
    annotations = stmt.annotations.with_item(key, normalize_annotation(value))
    state.replace(sref, stmt.with_(annotations=annotations))


# ----------------------------------------------------------------------------- marks in a trace


@primitive("EnterPostproc")
def enter_postproc(state: ScheduleState) -> None:
    """Mark that postprocessing follows, which mutation drops and repeats.

    The program at the first mark is stored as `state.before_postproc`.
    """
    if state.before_postproc is None:
        state.before_postproc = state.mod


@primitive(ENTER_COMPOSITE)
def enter_composite(state: ScheduleState, name: str, arguments: str = "") -> None:
    """Mark that the instructions of a composite follow; see `Schedule.composite`.

    `name` is that of the composite, `arguments` the text of its arguments.
    """


@primitive(EXIT_COMPOSITE)
def exit_composite(state: ScheduleState) -> None:
    """Mark that the instructions of the composite that was entered last end here."""
