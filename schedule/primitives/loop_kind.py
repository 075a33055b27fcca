"""Changing the kind of a loop: parallel, vectorized, unrolled, bound to a thread."""

from __future__ import annotations

from schedule.analysis.axis_independence import check_any_order
from schedule.analysis.block_kind import blocks_in, check_compact_dataflow
from schedule.analysis.step_order import ORDERED, steps_commute
from schedule.analysis.surroundings import check_order_is_free, check_told_apart
from schedule.errors import ArgumentError, Problem, check, fail
from schedule.instruction import LoopArg, primitive
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.expr import IterVar, Var
from tensorir.stmt import Block, ForKind, Stmt
from tensorir.visit import uses_var

WRONG_AXIS = Problem(
    "WrongBlockIterTypeError",
    'the "{kind}" cannot be fulfilled with regard to {0} because some block iter whose block '
    "binding contains the loop var is not {allowed}: axis {axis} of {1}",
    "decompose the reduction first, or choose a loop that only drives data-parallel axes",
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
    Raises ScheduleError: NotCompactDataFlowError, WrongBlockIterTypeError,
    DependentAxisError.
    """
    _check_independent(state, loop, "parallel", allow_reduce=False)
    _set_kind(state, loop, ForKind.PARALLEL)


@primitive("Vectorize")
def vectorize(state: ScheduleState, loop: LoopArg) -> None:
    """Run the iterations of a loop as lanes of vector instructions.

    Needs a compact dataflow below the loop, and only data-parallel axes bound to it.
    Raises ScheduleError: NotCompactDataFlowError, WrongBlockIterTypeError,
    DependentAxisError.
    """
    _check_independent(state, loop, "vectorize", allow_reduce=False)
    _set_kind(state, loop, ForKind.VECTORIZED)


@primitive("Unroll")
def unroll(state: ScheduleState, loop: LoopArg) -> None:
    """Write the iterations of a loop out one after another."""
    _set_kind(state, loop, ForKind.UNROLLED)


@primitive("Bind")
def bind(state: ScheduleState, loop: LoopArg, thread_axis: str) -> None:
    """Give each iteration of a loop to a thread of a GPU axis such as `threadIdx.x`.

    A CPU cannot run such a program; building one for it is refused.
    Raises ValueError for an unknown axis; ScheduleError: NotCompactDataFlowError,
    WrongBlockIterTypeError, DependentAxisError.
    """
    if thread_axis not in _THREAD_AXES:
        reason = f"names no thread axis {thread_axis!r}; it must be one of {sorted(_THREAD_AXES)}"
        raise ArgumentError("bind", "thread_axis", reason)
    reduces = thread_axis.startswith("threadIdx")
    _check_independent(state, loop, "bind", allow_reduce=reduces)
    old = loop.loop
    binding = IterVar(None, Var(thread_axis, old.loop_var.dtype), IterVar.THREAD_INDEX, thread_axis)
    state.replace(loop, old.with_(kind=ForKind.THREAD_BINDING, thread_binding=binding))


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
    old = loop.loop
    allowed = {IterVar.DATA_PAR, IterVar.COMM_REDUCE} if allow_reduce else {IterVar.DATA_PAR}
    driven = driven_axes(old.body, old.loop_var)
    for block, axis in driven:
        if axis.iter_type not in allowed:
            words = "data-parallel or reduction" if allow_reduce else "data-parallel"
            fail(WRONG_AXIS, loop, block, kind=kind, allowed=words, axis=axis.var.name)
    if state.enable_check:
        for block, axis in driven:
            check_any_order(block, {axis.var})
            check(axis.iter_type == IterVar.DATA_PAR or steps_commute(block), ORDERED, block)


def driven_axes(body: Stmt, loop_var: Var) -> list[tuple[Block, IterVar]]:
    """Return the axes of all blocks below, at any depth, whose values follow `loop_var`."""
    found: list[tuple[Block, IterVar]] = []
    driven: set[Var] = {loop_var}
    for realize in blocks_in(body):
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            if uses_var(value, lambda v: v in driven):
                driven.add(axis.var)
                found.append((realize.block, axis))
    return found
