"""Fusing perfectly nested loops into one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from schedule.analysis.bindings import BindingSimplifier, substitute_loops
from schedule.analysis.empty_reductions import check_fused
from schedule.analysis.loops import check_plain, check_starts_at_zero, dtype_holding
from schedule.errors import ArgumentError, Problem, check
from schedule.instruction import LoopArg, NewLoop, primitive
from schedule.sref import loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.ops import const, floordiv, floormod, is_const_int
from tensorir.nodes.stmt import For, ForKind, Stmt
from tensorir.rewriting.visit import uses_var

NOT_PARENT = Problem(
    "OuterNotInnerParent",
    "{0} is not the parent of {1}",
    "give the loops from the outermost to the innermost, without leaving one out",
)
NOT_ONLY_CHILD = Problem(
    "NotOnlyChildError",
    "{1} is not the only child of {0}",
    "move the other statements out of {0} first",
)
DEPENDENT = Problem(
    "DependentLoopError",
    "the range of {0} is dependent on the loop variable {var} of a loop to be fused with it",
    "fuse only loops whose ranges do not depend on one another",
)


@primitive("Fuse")
def fuse(state: ScheduleState, *loops: LoopArg, preserve_unit_iters: bool = True) -> NewLoop:
    """Replace perfectly nested loops by one over their product.

    Before: for i, j in T.grid(n, m): S(i, j)
    After:  for i_j_fused in range(n * m): S(i_j_fused // m, i_j_fused % m)

    The order of iterations is kept; the new loop is serial. It counts in the widest dtype of the
    old ones, or in a wider one if that cannot hold the product. With `preserve_unit_iters` loops of
    extent 1 stay visible in the bindings.

    Raises ValueError without loops; ScheduleError: HasAnnotationOrThreadBindingError,
    OuterNotInnerParent, NotOnlyChildError, LoopNotStartWithZeroError, DependentLoopError,
    EmptyReductionError.
    """
    # Preconditions.
    if not loops:
        raise ArgumentError("fuse", "loops", "is empty: fuse takes at least one loop")
    for sref in loops:
        check_plain(sref)
    for outer, inner in pairwise(loops):
        check(inner.parent is outer, NOT_PARENT, outer, inner)
        check(outer.loop.body is inner.loop, NOT_ONLY_CHILD, outer, inner)
    for sref in loops:
        check_starts_at_zero(sref)
    for k, sref in enumerate(loops):
        if isinstance(sref.loop.extent, IntImm):
            continue
        for outer in loops[:k]:
            var = outer.loop.loop_var
            check(not uses_var(sref.loop.extent, var), DEPENDENT, sref, var=var.name)
    if state.enable_check and (len(loops) > 1 or is_const_int(loops[0].loop.extent, 1)):
        check_fused(state, loops)

    # Rewrite.
    old = [sref.loop for sref in loops]
    widest = max((loop.loop_var.dtype for loop in old), key=lambda d: d.bits)
    known = [loop.extent.value for loop in old if isinstance(loop.extent, IntImm)]
    dtype = dtype_holding(prod(known) if len(known) == len(old) else None, widest)
    fused = Var("_".join([*(loop.loop_var.name for loop in old), "fused"]), dtype)
    extents = [loop.extent.astype(dtype) for loop in old]
    product: PrimExpr = const(1, dtype)
    for extent in extents:
        product = product * extent
    if not isinstance(product, IntImm):
        product = Analyzer().simplify(product).astype(dtype)
    body = substitute_loops(old[-1].body, _loop_var_values(old, extents, fused))
    nest: Stmt = For(fused, const(0, dtype), product, ForKind.SERIAL, body)
    nest = BindingSimplifier(loops_above(loops[0]), preserve_unit_iters)(nest)

    # Result.
    state.replace(loops[0], nest)
    assert type(nest) is For
    return state.stmt2ref[nest]


def _loop_var_values(
    loops: Sequence[For], extents: Sequence[PrimExpr], fused: Var
) -> dict[Var, PrimExpr]:
    """Return the old loop variables as expressions of the fused one; `extents` have its dtype."""
    values: dict[Var, PrimExpr] = {}
    inner_size: PrimExpr = const(1, fused.dtype)
    for position, loop in reversed(list(enumerate(loops))):
        if is_const_int(loop.extent, 1):
            values[loop.loop_var] = const(0, loop.loop_var.dtype)
            continue
        size = inner_size * extents[position]
        piece = fused if position == 0 else floormod(fused, size)
        values[loop.loop_var] = floordiv(piece, inner_size).astype(loop.loop_var.dtype)
        inner_size = size
    return values
