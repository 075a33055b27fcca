"""Giving a block and the loops around it another index space."""

from __future__ import annotations

from schedule.analysis.axis_independence import check_any_order
from schedule.analysis.bindings import analyzer_with_ranges, is_trivial_binding
from schedule.analysis.layout_map import analyze_layout, map_of_axes
from schedule.analysis.loops import check_starts_at_zero, nest_of_loops
from schedule.analysis.rebuild import ReplaceAxes
from schedule.analysis.step_order import check_steps_commute
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, IndexMapAttr, primitive
from schedule.sref import StmtSRef, lone_loops, loops_above
from schedule.state import ScheduleState
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Range
from tensorir.nodes.expr import IterVar, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BlockRealize
from tensorir.rewriting.visit import collect_vars, substitute

NOT_TRIVIAL = Problem(
    "NotTrivialBindingError",
    "the axes of {0} are not variables of outer loops, each bound to the loop at its position",
    "transform the block before its loops are split, fused or reordered",
)
NOT_ALONE = Problem(
    "NotSingleChildBlockError",
    "{1} is not the only block below its outermost loop {0}",
    "move the other blocks out first",
)
DEPENDENT = Problem(
    "DependentLoopError",
    "the range of {0} depends on a loop around it, so the ranges of new axes would not be constant",
    "give the loop the maximum number of iterations, and the block a T.where for the skipped ones",
)
MIXED = Problem(
    "OpaqueNewIterTypeError",
    "the new axis `{index}` of {0} would mix axes of different kinds",
    "a new axis may combine data-parallel axes only, or reduction axes only",
)
NOT_BIJECTIVE = Problem(
    "NotBijectiveAffineIndexMapError",
    "the index map {index_map} is not a bijective affine map of the axes of {0}: {reason}",
    "use sums of products, quotients and remainders that give each instance of the block one "
    "place, without gaps",
)


@primitive("TransformBlockLayout")
def transform_block_layout(state: ScheduleState, block: BlockArg, index_map: IndexMapAttr) -> None:
    """Replace the axes of a block by the results of an index map, with new loops over them.

    Before: for i in range(4 * n): S(i)      # transform_block_layout(S, lambda i: (i // 4, i % 4))
    After:  for ax0, ax1 in T.grid(n, 4): S(ax0 * 4 + ax1)

    The new axes `v0`, `v1`, ... are bound to new serial loops `ax0`, `ax1`, ...; the handle of the
    block stays valid, those of its loops expire.

    Raises ScheduleError: LoopNotStartWithZeroError, NotSingleChildBlockError,
    NotTrivialBindingError, DependentLoopError, IndexMapNotApplicableToBlockIterError,
    OpaqueNewIterTypeError, NotBijectiveAffineIndexMapError, DependentAxisError,
    OrderedReductionError.
    """
    # Preconditions.
    old, realize = block.block, block.block_realize
    loops = loops_above(block)
    for loop in loops:
        check_starts_at_zero(loop)
    check(bool(loops) and is_trivial_binding(block), NOT_TRIVIAL, block)
    check(state.child_blocks(loops[0]) == [block], NOT_ALONE, loops[0], block)
    check(len(lone_loops(block)) == len(loops), NOT_ALONE, loops[0], old)
    around = {loop.loop.loop_var for loop in loops}
    for loop in loops:
        check(around.isdisjoint(collect_vars(loop.loop.extent)), DEPENDENT, loop)
    index_map = map_of_axes(index_map, block)
    kinds = [_kind(block, index, index_map) for index in index_map.final_indices]
    try:
        ranges = [Range(loop.loop.extent) for loop in loops]
        layout = analyze_layout(index_map, ranges)
    except IRValueError as error:
        fail(NOT_BIJECTIVE, block, index_map=index_map, reason=error)
    if layout.has_padding:
        reason = f"no instance is mapped to the places where {layout.padding}"
        fail(NOT_BIJECTIVE, block, index_map=index_map, reason=reason)

    if state.enable_check:
        check_any_order(block)
        check_steps_commute(block)

    # Rewrite.
    shape = layout.shape
    axes = [
        IterVar(Range(n), Var(f"v{k}", n.dtype), kind)
        for k, (n, kind) in enumerate(zip(shape, kinds, strict=True))
    ]
    loop_vars = [Var(f"ax{k}", n.dtype) for k, n in enumerate(shape)]
    variables = [*(a.var for a in axes), *loop_vars]
    analyzer = analyzer_with_ranges(dict(zip(variables, map(Range, [*shape, *shape]), strict=True)))
    back = layout.inverse.map_indices([axis.var for axis in axes], analyzer)
    values = {a.var: value for a, value in zip(old.iter_vars, back, strict=True)}
    rewriter = ReplaceAxes(values, analyzer)
    new = rewriter(old).with_(iter_vars=axes)
    counted = {axis.var: var for axis, var in zip(axes, loop_vars, strict=True)}
    replaced = {
        loop.loop.loop_var: substitute(value, counted)
        for loop, value in zip(loops, back, strict=True)
    }
    predicate = analyzer.simplify(substitute(realize.predicate, replaced))
    inside = BlockRealize(loop_vars, predicate, new)
    nest = nest_of_loops(list(zip(loop_vars, map(Range, shape), strict=True)), inside)
    state.replace(loops[0], nest, {**rewriter.reuse, old: new})


def _kind(block: StmtSRef, index: PrimExpr, index_map: IndexMap) -> int:
    """Return the kind of a new axis; axes of one value may be mixed with any other."""
    used = set(collect_vars(index))
    kinds = {
        axis.iter_type
        for var, axis in zip(index_map.initial_indices, block.block.iter_vars, strict=True)
        if var in used and axis.dom is not None and not is_const_int(axis.dom.extent, 1)
    }
    check(len(kinds) <= 1, MIXED, block, index=index)
    return kinds.pop() if kinds else IterVar.DATA_PAR
