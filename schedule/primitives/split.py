"""Splitting a loop into a nest."""

from __future__ import annotations

from math import prod

from schedule.analysis.bindings import BindingSimplifier, analyzer_with_ranges, substitute_loops
from schedule.analysis.loops import check_plain, check_starts_at_zero, dtype_holding, nest_of_loops
from schedule.errors import Problem, check
from schedule.instruction import FactorsArg, LoopArg, NewLoops, primitive
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import LT, IntImm, PrimExpr, Var
from tensorir.nodes.ops import const, floordiv
from tensorir.nodes.stmt import For

SEVERAL_INFERRED = Problem(
    "NotSingleInferFactorError",
    "only one factor can be specified as -1 or none, but {count} are",
    "give all factors but one",
)
NOT_POSITIVE = Problem(
    "NonPositiveFactorError",
    "all the constant factors are required to be positive, but factor {position} is {value}",
    "give factors of at least 1",
)
WRONG_PRODUCT = Problem(
    "WrongFactorError",
    "the product of factors, {product}, is smaller than the extent {extent} of {0}",
    "pass None for one factor to have it inferred",
)


@primitive("Split")
def split(
    state: ScheduleState,
    loop: LoopArg,
    factors: FactorsArg,
    preserve_unit_iters: bool = True,
    disable_predication: bool = False,
) -> NewLoops:
    """Replace a loop by a nest of loops, outermost first, with the given extents.

    Before: for i in range(n): S(i)
    After:  for i_0, i_1 in T.grid(f0, f1): S(i_0 * f1 + i_1)

    One factor may be None: it becomes the smallest that covers the extent. Where the product
    exceeds the extent, the blocks below get the predicate `i_0 * f1 + i_1 < n`, unless
    `disable_predication`. The new loops count in the dtype of the old one, or a wider one if that
    cannot hold the product. With `preserve_unit_iters` loops of extent 1 stay visible in the
    bindings. The new loops are serial, whatever the old one was.

    Raises ScheduleError: NotSingleInferFactorError, NonPositiveFactorError, WrongFactorError,
    HasAnnotationOrThreadBindingError, LoopNotStartWithZeroError.
    """
    # Preconditions.
    old = loop.loop
    inferred = [k for k, f in enumerate(factors) if f is None]
    check(len(inferred) <= 1, SEVERAL_INFERRED, loop, count=len(inferred))
    for position, factor in enumerate(factors):
        if factor is not None:
            check(factor > 0, NOT_POSITIVE, loop, position=position, value=factor)
    rest = prod(factor for factor in factors if factor is not None)
    surplus: int | None = None
    if isinstance(old.extent, IntImm):
        count = -(-old.extent.value // rest) * rest if inferred else rest
        surplus = count - old.extent.value
        largest = max(count - 1, count // rest, *(f for f in factors if f is not None), 0)
        covers, dtype = surplus >= 0, dtype_holding(largest, old.loop_var.dtype)
    else:
        dtype = dtype_holding(None if inferred else rest, old.loop_var.dtype)
        covers = bool(inferred) or Analyzer().can_prove(old.extent <= const(rest, dtype))
    check(covers, WRONG_PRODUCT, loop, product=rest, extent=old.extent)
    whole = old.extent.astype(dtype)
    check_plain(loop)
    check_starts_at_zero(loop)

    # Rewrite: a nest of serial loops over the old body.
    extents = _extents(whole, factors, rest)
    loop_vars = [Var(f"{old.loop_var.name}_{k}", dtype) for k in range(len(factors))]
    index: PrimExpr = const(0, dtype)
    for var, extent in zip(loop_vars, extents, strict=True):
        index = index * extent + var
    if surplus is not None:
        exact = surplus == 0
    else:
        ranges = dict(zip(loop_vars, map(Range, extents), strict=True))
        exact = analyzer_with_ranges(ranges).can_prove(index < whole)
    predicate = None if exact or disable_predication else LT(index, whole)
    value = index.astype(old.loop_var.dtype)
    body = substitute_loops(old.body, {old.loop_var: value}, predicate)
    nest = nest_of_loops(list(zip(loop_vars, map(Range, extents), strict=True)), body)
    nest = BindingSimplifier(loops_above(loop), preserve_unit_iters)(nest)

    # Result.
    state.replace(loop, nest)
    made: list[StmtSRef] = []
    for _ in factors:
        assert isinstance(nest, For)
        made.append(state.stmt2ref[nest])
        nest = nest.body
    return made


def _extents(extent: PrimExpr, factors: FactorsArg, rest: int) -> list[PrimExpr]:
    """Return the extents of the new loops, the inferred one included.

    `rest` is the product of the factors that are given.
    """
    dtype = extent.dtype
    if isinstance(extent, IntImm):
        inferred: PrimExpr = const(-(-extent.value // rest), dtype)
    else:
        inferred = Analyzer().simplify(floordiv(extent + (rest - 1), rest))
    return [inferred if f is None else const(f, dtype) for f in factors]
