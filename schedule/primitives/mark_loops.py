"""Vectorizing and unrolling those of some loops that were sampled for it."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.decisions.knobs import MARKS
from schedule.errors import ArgumentError, Problem, fail
from schedule.instruction import FactorsArg, primitive
from schedule.primitives.loop_kind import unroll, vectorize
from schedule.primitives.reorder_by import LoopsArg
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.expr import IntImm

TOO_LONG = Problem(
    "LoopExtentError",
    "{0} has extent {extent}, and {what}",
    "choose another mark or another extent",
)


@primitive("MarkLoops")
def mark_loops(
    state: ScheduleState,
    loops: LoopsArg,
    marks: FactorsArg,
    max_unroll: int | None = None,
    vec_sizes: Sequence[int] | None = None,
) -> None:
    """Vectorize and unroll loops as marks say: 0 leaves a loop, 1 vectorizes, 2 unrolls it.

    `max_unroll` is the largest extent that may be unrolled, `vec_sizes` are the extents that may
    be vectorized; None allows all.
    Raises ArgumentError for other marks, or not one for each loop; ScheduleError for an extent that
    is not allowed (LoopExtentError), and as `vectorize`.
    """
    if len(marks) != len(loops) or any(mark not in range(len(MARKS)) for mark in marks):
        reason = f"is {list(marks)}; give 0, 1 or 2 for each of {len(loops)} loops"
        raise ArgumentError("mark_loops", "marks", reason)
    for loop, mark in zip(loops, marks, strict=True):
        assert mark is not None
        problem = refused_extent(extent_of(loop), MARKS[mark], max_unroll, vec_sizes)
        if problem:
            fail(TOO_LONG, loop, extent=loop.loop.extent, what=problem)
        if MARKS[mark] == "vec":
            vectorize(state, loop)
        elif MARKS[mark] == "unroll":
            unroll(state, loop)


def extent_of(loop: StmtSRef) -> int | None:
    """Return the extent of a loop, None if it is not constant."""
    extent = loop.loop.extent
    return extent.value if isinstance(extent, IntImm) else None


def refused_extent(
    extent: int | None, mark: str, max_unroll: int | None, vec_sizes: Sequence[int] | None
) -> str:
    """Return the reason against a mark of a loop, an empty text if there is none."""
    if mark == "unroll" and max_unroll is not None and (extent is None or extent > max_unroll):
        return f"an unrolled loop must have at most {max_unroll} iterations"
    if mark == "vec" and vec_sizes is not None and extent not in vec_sizes:
        return f"a vectorized loop must have an extent of {list(vec_sizes)}"
    return ""
