"""Checks of loops that primitives transform, and construction of new loops."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.bindings import substitute_loops
from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from tensorir.nodes.buffer import Range
from tensorir.nodes.dtype import INT32, INT64, DataType
from tensorir.nodes.expr import IntImm, Var, integer_limits
from tensorir.nodes.index_arithmetic import holds_indices
from tensorir.nodes.stmt import Block, BlockRealize, For, ForKind, Stmt
from tensorir.rewriting.fresh_copy import fresh_thread

NOT_FROM_ZERO = Problem(
    "LoopNotStartWithZeroError",
    "the primitive only supports loops that start with 0, but {0} starts at {start}",
    "use the primitive before loop_partition; to start elsewhere, add the start to the loop "
    "variable in the body",
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
    """Return True if a loop has neither annotations nor a thread binding."""
    return not loop.annotations and loop.kind is not ForKind.THREAD_BINDING


def nest_of_loops(loops: Sequence[tuple[Var, Range]], body: Stmt) -> Stmt:
    """Return serial loops over some ranges, outermost first, around `body`."""
    for var, values in reversed(loops):
        body = For(var, values.min, values.extent, ForKind.SERIAL, body)
    return body


def copied_nest(loops: Sequence[For], body: BlockRealize, suffix: str = "") -> tuple[Stmt, Block]:
    """Return a copy of a loop nest, outermost loop first, with new loop variables, and its block.

    The bindings of the block, and possibly the domains of its axes, use the loop variables.
    """
    copies = {lp.loop_var: lp.loop_var.with_name(lp.loop_var.name + suffix) for lp in loops}
    inner = substitute_loops(body, copies)
    assert isinstance(inner, BlockRealize)
    nest: Stmt = inner
    for lp in reversed(loops):
        thread = fresh_thread(lp)
        nest = lp.with_(loop_var=copies[lp.loop_var], body=nest, thread_binding=thread)
    return substitute_loops(nest, copies), inner.block


def dtype_holding(largest: int | None, dtype: DataType) -> DataType:
    """Return the narrowest dtype, at least `dtype`, that holds the largest value of a loop.

    `largest` is None if it is not constant. In dtypes of 32 bits or more, index arithmetic cannot
    overflow, because overflowing programs are refused; in narrower dtypes it wraps.
    """
    if largest is None:
        return dtype if holds_indices(dtype) else INT32
    for wider in (dtype, INT32, INT64):
        if wider.bits >= dtype.bits and largest <= integer_limits(wider)[1]:
            return wider
    return dtype
