"""Changing the kind of a loop: parallel, vectorized, unrolled, bound to a thread."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.axis_independence import check_any_order
from schedule.analysis.block_kind import blocks_in, check_compact_dataflow
from schedule.analysis.dependency import dependencies
from schedule.analysis.iteration_flow import check_no_flow, is_private
from schedule.analysis.step_order import ORDERED, steps_commute
from schedule.analysis.surroundings import check_order_is_free, check_told_apart
from schedule.decisions.knobs import MARKS
from schedule.errors import ArgumentError, Problem, check, fail
from schedule.instruction import FactorsArg, LoopArg, LoopsArg, primitive
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.nodes.expr import IntImm, IterVar, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, ForKind, Stmt
from tensorir.rewriting.visit import uses_var

WRONG_AXIS = Problem(
    "WrongBlockIterTypeError",
    'the "{kind}" cannot be fulfilled with regard to {0} because some block iter whose block '
    "binding contains the loop var is not {allowed}: axis {axis} of {1}",
    "decompose the reduction first, or choose a loop that only drives data-parallel axes",
)

REPEATED_UPDATE = Problem(
    "RepeatedUpdateError",
    'the "{kind}" cannot be fulfilled with regard to {0} because no axis of {1} is bound to it, so '
    "all its iterations would update the same elements of {buffer}",
    "bind the loop to an axis of the block, or move all uses of {buffer} below the loop, so that "
    "each iteration has its own elements",
)

TOO_LONG = Problem(
    "LoopExtentError",
    "{0} has extent {extent}, and {what}",
    "choose another mark or another extent",
)

_AXES = ("x", "y", "z")
_THREAD_AXES = frozenset(
    [f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in _AXES]
    + ["vthread"]
)


@primitive("Parallel")
def parallel(state: ScheduleState, loop: LoopArg) -> None:
    """Run the iterations of a loop on several cores.

    Needs a compact dataflow below the loop, and only data-parallel axes bound to it.
    Raises ScheduleError: NotCompactDataFlowError, WrongBlockIterTypeError, DependentAxisError,
    DependentIterationsError, RepeatedUpdateError, BareAccessError.
    """
    _check_independent(state, loop, "parallel", allow_reduce=False)
    _set_kind(state, loop, ForKind.PARALLEL)


@primitive("Vectorize")
def vectorize(state: ScheduleState, loop: LoopArg) -> None:
    """Run the iterations of a loop as lanes of vector instructions.

    Needs a compact dataflow below the loop, and only data-parallel axes bound to it.
    Raises ScheduleError: NotCompactDataFlowError, WrongBlockIterTypeError, DependentAxisError,
    DependentIterationsError, RepeatedUpdateError, BareAccessError.
    """
    _check_independent(state, loop, "vectorize", allow_reduce=False)
    _set_kind(state, loop, ForKind.VECTORIZED)


@primitive("Unroll")
def unroll(state: ScheduleState, loop: LoopArg) -> None:
    """Replace a loop by copies of its body, one for each iteration."""
    _set_kind(state, loop, ForKind.UNROLLED)


@primitive("Bind")
def bind(state: ScheduleState, loop: LoopArg, thread_axis: str) -> None:
    """Give each iteration of a loop to a thread of a GPU axis such as `threadIdx.x`.

    A CPU cannot run such a program; building one for it is refused.
    Raises ValueError for an unknown axis; ScheduleError: NotCompactDataFlowError,
    WrongBlockIterTypeError, DependentAxisError, RepeatedUpdateError, BareAccessError.
    """
    if thread_axis not in _THREAD_AXES:
        reason = f"names no thread axis {thread_axis!r}; it must be one of {sorted(_THREAD_AXES)}"
        raise ArgumentError("bind", "thread_axis", reason)
    reduces = thread_axis.startswith("threadIdx")
    _check_independent(state, loop, "bind", allow_reduce=reduces)
    old = loop.loop
    binding = IterVar(None, Var(thread_axis, old.loop_var.dtype), IterVar.THREAD_INDEX, thread_axis)
    state.replace(loop, old.with_(kind=ForKind.THREAD_BINDING, thread_binding=binding))


@primitive("MarkLoops")
def mark_loops(
    state: ScheduleState,
    loops: LoopsArg,
    marks: FactorsArg,
    max_unroll: int | None = None,
    vec_sizes: Sequence[int] | None = None,
) -> None:
    """Vectorize and unroll loops by marks: 0 keeps a loop, 1 vectorizes it, 2 unrolls it.

    `max_unroll` is the largest extent that may be unrolled, `vec_sizes` are the extents that may
    be vectorized; None allows all.
    Raises ArgumentError for other marks, or not one for each loop; ScheduleError: LoopExtentError
    for an extent that is not allowed, NotCompactDataFlowError, WrongBlockIterTypeError,
    DependentAxisError, DependentIterationsError, RepeatedUpdateError, BareAccessError.
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
    """Return the reason why a loop cannot have a mark, an empty text if it can."""
    if mark == "unroll" and max_unroll is not None and (extent is None or extent > max_unroll):
        return f"an unrolled loop must have at most {max_unroll} iterations"
    if mark == "vec" and vec_sizes is not None and extent not in vec_sizes:
        return f"a vectorized loop must have an extent of {list(vec_sizes)}"
    return ""


def _set_kind(state: ScheduleState, loop: StmtSRef, kind: ForKind) -> None:
    state.replace(loop, loop.loop.with_(kind=kind, thread_binding=None))


def _check_independent(
    state: ScheduleState, loop: StmtSRef, kind: str, *, allow_reduce: bool
) -> None:
    """Raise unless the iterations of a loop may run in any order, or all at once."""
    if state.enable_check:
        check_compact_dataflow(state, loop)
        check_order_is_free(state, loop)
        check_told_apart(state, loop)
        if kind != "bind":  # barriers order what threads pass to one another
            check_no_flow(state, loop)
    old = loop.loop
    allowed = {IterVar.DATA_PAR, IterVar.COMM_REDUCE} if allow_reduce else {IterVar.DATA_PAR}
    driven = driven_axes(old.body, old.loop_var)
    for block, axis in driven:
        if axis.iter_type not in allowed:
            words = "data-parallel or reduction" if allow_reduce else "data-parallel"
            fail(WRONG_AXIS, loop, block, kind=kind, allowed=words, axis=axis.var.name)
    if state.enable_check:
        _check_not_repeated(state, loop, kind)
        for block, axis in driven:
            check_any_order(block, {axis.var})
            check(axis.iter_type == IterVar.DATA_PAR or steps_commute(block), ORDERED, block)


def _check_not_repeated(state: ScheduleState, loop: StmtSRef, kind: str) -> None:
    """Raise if all iterations of a loop update the same elements of shared memory."""
    if is_const_int(loop.loop.extent, 1):
        return
    below, scope = state.child_blocks(loop), state.scope_root(loop)
    for child in below:
        if any(uses_var(value, loop.loop.loop_var) for value in child.block_realize.iter_values):
            continue
        block = child.block
        read = {region.buffer for region in block.reads}
        for buffer in (region.buffer for region in block.writes):
            if block.init is None and buffer not in read:
                continue
            is_own = is_private(buffer, below, dependencies(state, scope), scope)
            check(is_own, REPEATED_UPDATE, loop, child, kind=kind, buffer=buffer.name)


def driven_axes(body: Stmt, loop_var: Var) -> list[tuple[Block, IterVar]]:
    """Return the axes of all blocks below, at any depth, whose values depend on `loop_var`."""
    found: list[tuple[Block, IterVar]] = []
    driven: set[Var] = {loop_var}
    for realize in blocks_in(body):
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if uses_var(value, lambda v: v in driven):
                driven.add(axis.var)
                found.append((realize.block, axis))
    return found
