"""Preconditions that several primitives on loops share."""

from __future__ import annotations

from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from tensorir.nodes.expr import IntImm
from tensorir.nodes.stmt import For, ForKind

NOT_FROM_ZERO = Problem(
    "LoopNotStartWithZeroError",
    "the primitive only supports loops that start with 0, but {0} starts at {start}",
    "",
)
ANNOTATED = Problem(
    "HasAnnotationOrThreadBindingError",
    "the primitive needs a loop without annotation or thread binding, but {0} has one",
    "unannotate it first",
)


def check_starts_at_zero(sref: StmtSRef) -> None:
    """Raise unless the loop's minimum is 0."""
    low = sref.loop.min
    check(isinstance(low, IntImm) and low.value == 0, NOT_FROM_ZERO, sref, start=low)


def check_plain(sref: StmtSRef) -> None:
    """Raise if the loop carries annotations or is bound to a thread."""
    check(is_plain(sref.loop), ANNOTATED, sref)


def is_plain(loop: For) -> bool:
    """Say whether a loop has neither annotations nor a thread binding."""
    return not loop.annotations and loop.kind is not ForKind.THREAD_BINDING
