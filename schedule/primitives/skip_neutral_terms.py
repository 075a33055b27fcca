"""Skipping the steps of a reduction that a periodic condition makes neutral."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from schedule.analysis.bindings import analyzer_with_ranges, axis_domain
from schedule.analysis.loops import check_starts_at_zero
from schedule.analysis.rebuild import ReplaceAxes
from schedule.analysis.reducer import find_reduction
from schedule.analysis.regions import visible_buffers, with_derived_regions
from schedule.errors import Problem, check, fail
from schedule.instruction import LoopArg, primitive
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith.coefficients import coefficients
from tensorir.arith.terms import choice_of
from tensorir.comparison.equal import expr_deep_equal
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import (
    EQ,
    BufferLoad,
    Cast,
    FloatImm,
    FloorMod,
    IntImm,
    IterVar,
    Mul,
    PrimExpr,
    Var,
)
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.ops import TRUE, all_of, conjuncts, const, floormod, if_then_else
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, Stmt
from tensorir.reducers import Reduction
from tensorir.rewriting.visit import Rewriter, rewrite, substitute, uses_var
from tensorir.semantics.purity import has_effects, may_run_anywhere

NOT_ONE_BLOCK = Problem(
    "NotSingleChildBlockError",
    "the body of {0} is more than loops around a single block",
    "move the other statements out first",
)
NOT_AN_AXIS = Problem(
    "NotTrivialBindingError",
    "{0} must have a constant extent and drive one reduction axis of {1} and no other axis",
    "give the loop of a reduction axis before it is split, fused or predicated",
)
NO_INIT = Problem(
    "NotReductionBlockError",
    "{0} has no init, so the start value is not known",
    "skip the terms before decompose_reduction",
)
NO_PERIOD = Problem(
    "NoPeriodError",
    "no condition makes terms of {0} neutral periodically along reduction axis {axis}",
    "the combined value, or a factor of a summed value, must be an if_then_else with "
    "a condition such as `(i + {axis}) % 2 == 0` and the neutral element as the other side",
)
VIEW = Problem(
    "MatchBufferError",
    "{0} has a match_buffer that moves with reduction axis {axis}, and its last step may lie past "
    "the extent {extent}, which the period {modulus} does not divide",
    "read the buffer itself, not a match_buffer of it",
)


@primitive("SkipNeutralTerms")
def skip_neutral_terms(state: ScheduleState, loop: LoopArg) -> None:
    """Run a reduction loop only for terms that a periodic condition does not make neutral.

    Before: for h, r in T.grid(16, 4):
                C[h] += T.if_then_else((h + r) % 2 == 0, A[(h + r) // 2], 0) * W[r]
    After:  for h, r in T.grid(16, 2): C[h] += A[h - h // 2 + r] * W[r * 2 + h % 2]

    The primitive needs a condition `(a * r + rest) % m == c`, with coprime constants `a` and `m`,
    that every term except neutral ones satisfies (neutral: zero in a sum, the lowest value in a
    maximum, and so on). Then `r % m` follows from the other axes, and the loop runs over `r // m`.
    Where `m` does not divide the extent, the last step gets a condition. The terms that remain keep
    their order. If solving the condition needs loads or divisions, the conditions that are tested
    before it guard the solution; they must not depend on `r` then.

    Zero times an infinite number or NaN counts as zero: such a sum is NaN before the call, but not
    after.

    Raises ScheduleError: LoopNotStartWithZeroError, NotSingleChildBlockError,
    NotTrivialBindingError, NotReductionBlockError, RFactorNotApplicableError,
    NoMatchedReducerError, NoPeriodError, MatchBufferError.
    """
    # Preconditions.
    check_starts_at_zero(loop)
    realize = _only_block(loop)
    block = state.get_sref(realize.block)
    axis, extent = _axis(loop, block)
    check(realize.block.init is not None, NO_INIT, block)
    reduction = find_reduction(block)
    period = period_of(axis.var, reduction)
    if period is None:
        fail(NO_PERIOD, block, axis=axis.var.name)

    old, modulus = realize.block, period.modulus
    moving = any(uses_var(view, axis.var) for view in old.match_buffers)
    check(
        not moving or extent % modulus == 0,
        VIEW,
        block,
        axis=axis.var.name,
        extent=extent,
        modulus=modulus,
    )

    # Rewrite.
    (term,), buffers, indices = reduction.values, reduction.buffers, reduction.indices
    if extent % modulus:
        (neutral,) = reduction.reducer.identity([term.dtype])
        term = if_then_else(axis.var < extent, term, neutral)
    steps = Range(const(-(-extent // modulus), axis.var.dtype))
    analyzer = analyzer_with_ranges({**axis_domain(old.iter_vars), axis.var: steps})
    value = axis.var * modulus + analyzer.simplify(period.remainder)
    rewriter = ReplaceAxes({axis.var: value}, analyzer)

    def solved(node: EQ, rewriter: Rewriter) -> PrimExpr:
        return TRUE if node is period.condition else rewriter.generic(node)

    term = rewrite(term, before={EQ: solved})
    # Only the term is rewritten, so that later primitives still recognise the accumulator.
    term = analyzer.simplify(rewriter(BufferStore(buffers[0], term, indices)).value)
    body = reduction.update([BufferLoad(buffers[0], indices)], [term], buffers, indices)
    axes = [IterVar(steps, a.var, a.iter_type) if a is axis else a for a in old.iter_vars]
    views = rewriter.each(old.match_buffers)
    new = old.with_(iter_vars=axes, reads=rewriter.each(old.reads), match_buffers=views, body=body)
    if extent % modulus or not may_run_anywhere(period.remainder):
        new = with_derived_regions(new, visible_buffers(state, state.scope_root(block)))
    state.replace(block, new)
    state.replace(loop, loop.loop.with_(extent=steps.extent.astype(loop.loop.extent.dtype)))


def _only_block(loop: StmtSRef) -> BlockRealize:
    inner: Stmt = loop.loop
    while isinstance(inner, For):
        inner = inner.body
    if not isinstance(inner, BlockRealize):
        fail(NOT_ONE_BLOCK, loop)
    return inner


def _axis(loop: StmtSRef, block: StmtSRef) -> tuple[IterVar, int]:
    """Return the reduction axis that a loop runs over, and its extent."""
    realize, var, extent = block.block_realize, loop.loop.loop_var, loop.loop.extent
    bound = list(zip(realize.block.iter_vars, realize.iter_values, strict=True))
    axes = [axis for axis, value in bound if value is var]
    uses = [value for _, value in bound if uses_var(value, var)]
    alone = len(axes) == len(uses) == 1 and axes[0].iter_type == IterVar.COMM_REDUCE
    inner = [sref.loop for sref in loops_above(block) if sref is not loop]
    others = [realize.predicate, *(part for lp in inner for part in (lp.min, lp.extent))]
    free = not any(uses_var(part, var) for part in others)
    if not (alone and free and isinstance(extent, IntImm)):
        fail(NOT_AN_AXIS, loop, block)
    return axes[0], extent.value


# ---------------------------------------------------------------------------------- the condition


@dataclass(frozen=True, slots=True)
class Period:
    """The remainder of an axis in all terms of a reduction that are not neutral."""

    condition: PrimExpr
    """The equation for the remainder, a part of the term."""
    modulus: int
    remainder: PrimExpr
    """The value of `axis % modulus` in these terms, in terms of the other axes."""


def period_of(axis: Var, reduction: Reduction) -> Period | None:
    """Return the first period along an axis in the order of the conditions, None if there is none.

    The product of zero and another number counts as zero in a sum, whatever the other number is.
    """
    if reduction.reducer.size != 1:
        return None
    (term,) = reduction.values
    (neutral,) = reduction.reducer.identity([term.dtype])
    needed = _necessary_conditions(term, neutral, ())
    return next((found for c, guards in needed if (found := _solve_for(axis, c, guards))), None)


Conditions = tuple[PrimExpr, ...]


def _necessary_conditions(
    term: PrimExpr, neutral: PrimExpr, guards: Conditions
) -> Iterator[tuple[PrimExpr, Conditions]]:
    """Yield conditions that hold wherever a term is not neutral.

    Each comes with the conditions that are tested before it and that it may rely on.
    """
    choice = choice_of(term)
    if choice is not None:
        condition, inside, outside = choice
        if expr_deep_equal(outside, neutral):
            for part in conjuncts(condition):
                yield part, guards
                guards = (*guards, part)
            yield from _necessary_conditions(inside, neutral, guards)
    elif isinstance(neutral, IntImm | FloatImm) and neutral.value == 0:
        if isinstance(term, Mul):
            for factor in (term.a, term.b):
                yield from _necessary_conditions(factor, neutral, guards)
        elif isinstance(term, Cast):
            yield from _necessary_conditions(term.value, const(0, term.value.dtype), guards)


def _solve_for(axis: Var, condition: PrimExpr, guards: Conditions) -> Period | None:
    """Solve `(scale * axis + rest) % modulus == value` for the remainder of the axis.

    The remainder is computed unconditionally, so a remainder that needs guards includes them: if a
    guard is false, all terms are neutral, and any remainder is right.
    """
    if not (isinstance(condition, EQ) and isinstance(condition.a, FloorMod)):
        return None
    index, modulus, value = condition.a.a, condition.a.b, condition.b
    if not (isinstance(modulus, IntImm) and isinstance(value, IntImm) and modulus.value > 1):
        return None
    m = modulus.value
    scale = coefficients(index).step(axis)
    if scale is None or gcd(scale, m) != 1:
        return None
    wraps = not is_index_arithmetic(index)
    if has_effects(index) or (wraps and m & (m - 1)):
        return None  # Wrapping arithmetic preserves remainders modulo powers of two only.
    rest = substitute(index, {axis: const(0, axis.dtype)})
    # The inverse of the negative scale keeps the common `index = axis + rest` free of negatives.
    remainder = floormod((rest - value) * (pow(-scale, -1, m)), m)
    if guards and not may_run_anywhere(remainder):
        if any(uses_var(guard, axis) or has_effects(guard) for guard in guards):
            return None
        remainder = if_then_else(all_of(guards), remainder, const(0, remainder.dtype))
    return Period(condition, m, remainder)
