"""Factoring a reduction: one loop of it becomes an axis of partial results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedule.analysis.bindings import (
    analyzer_with_ranges,
    at_first_step,
    loop_domain,
    without_known,
)
from schedule.analysis.block_kind import check_reduction, require_pipeline
from schedule.analysis.buffer_definition import stage_buffer
from schedule.analysis.loops import copied_nest
from schedule.analysis.reducer import find_reduction
from schedule.analysis.reduction_steps import (
    Steps,
    instances_in_scope,
    instances_of,
    left_out_first,
)
from schedule.errors import Problem, check
from schedule.instruction import LoopArg, NewBlock, primitive
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, ForKind, Stmt, sequence
from tensorir.reducers import Reduction
from tensorir.rewriting.visit import collect_vars, rewrite, substitute

NOT_ONE_CHILD = Problem(
    "NonSingleChildBlockError",
    "{0} should have one block below it, but has {count}",
    "call rfactor before compute_at or reverse_compute_at moves other blocks below the loop",
)
NOT_SERIAL = Problem(
    "NotSerialLoopKindError",
    "only a serial loop can be factored, but {0} is {kind}",
    "factor it before it becomes parallel, vectorized or unrolled",
)
LOOPS = Problem(
    "LoopPropertyError",
    "{0} cannot be factored over {1}: {reason}",
    "call rfactor before compute_at, reverse_compute_at, fuse and reorder, on a loop that starts "
    "at 0 and drives only a reduction axis",
)
AXIS_RANGE = Problem(
    "FactorAxisOutOfRangeError",
    "factor_axis {axis} is not in [{low}, {high}]: the result of {0} has {ndim} dimensions",
    "0 is the first dimension of the partial results, -1 the last one",
)


@primitive("RFactor")
def rfactor(state: ScheduleState, loop: LoopArg, factor_axis: int) -> NewBlock:
    """Compute partial results of a reduction for each iteration of `loop`, and reduce those.

    Before: for i, ko, ki: C[i] = C[i] + A[i, ko * 4 + ki]        # rfactor(ki, 1)
    After:  for i, ko, ki: C_rf[i, ki] = C_rf[i, ki] + A[i, ko * 4 + ki]
            for i, ki:     C[i] = C[i] + C_rf[i, ki]

    The partial results have an additional dimension, before dimension `factor_axis` (negative
    counts from the end). Returns the block that computes them, `<name>_rf`, with a number if that
    name exists; the handle of the original block refers to the second reduction. The order of the
    sum changes, so floats may round differently, and a reduction of (index, value) pairs that does
    not compare indices may keep another of several equal values (Suriana, Adams, Kamil: Parallel
    associative reductions in Halide, CGO 2017).

    Raises ScheduleError: NonSingleChildBlockError, NotStagePipelineError, NotReductionBlockError,
    NotSerialLoopKindError, LoopPropertyError, RFactorNotApplicableError, NoMatchedReducerError,
    FactorAxisOutOfRangeError, BareAccessError, DependentAxisError, GuardedBlockError.
    """
    # Preconditions.
    children = state.child_blocks(loop)
    check(len(children) == 1, NOT_ONE_CHILD, loop, count=len(children))
    block = children[0]
    scope, graph = require_pipeline(state, block)
    if state.enable_check:
        check_reduction(state, block, graph)
    kind = loop.loop.kind
    check(kind is ForKind.SERIAL, NOT_SERIAL, loop, kind=kind.name.lower())
    loops = loops_above(block)
    if state.enable_check:
        _check_loops(state, block, loop, loops)
    reduction = find_reduction(block)
    ndim = len(reduction.buffers[0].shape)
    inside = -(ndim + 1) <= factor_axis <= ndim
    check(inside, AXIS_RANGE, block, axis=factor_axis, low=-(ndim + 1), high=ndim, ndim=ndim)
    axis = factor_axis if factor_axis >= 0 else factor_axis + ndim + 1
    spatial, reduce = instances_of(block).moved_by()
    others = [lp for lp in loops if lp is not loop and lp.loop.loop_var in reduce - spatial]
    predicate = _final_predicate(block, loop, loops, others)

    # Rewrite.
    partial = [_partial_buffer(b, axis, loop.loop.extent) for b in reduction.buffers]
    name = state.free_name(block, f"{block.block.name_hint}_rf")
    around = [sref.loop for sref in loops]
    plan = _Plan(block.block_realize, loop.loop, around, reduction, partial, axis)
    nest, partial_results = copied_nest(around, plan.partial_block(name))
    final = plan.final_block(predicate)
    old, dropped = block.block, {sref.loop.loop_var for sref in others}
    rules: dict[type, Any] = {
        For: lambda lp, rest: rest(lp.body) if lp.loop_var in dropped else None,
        BlockRealize: lambda node, _: final if node.block is old else node,
    }
    rebuilt = rewrite(around[0], before=rules)
    state.replace(loops[0], sequence([nest, rebuilt]), {old: final.block})
    root = scope.block
    state.replace(scope, root.with_(alloc_buffers=(*root.alloc_buffers, *partial)))

    # Result.
    return state.get_sref(partial_results)


def _check_loops(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, loops: Sequence[StmtSRef]
) -> None:
    """Raise unless the steps of a reduction can be divided by the iterations of a loop.

    A loop of one iteration is always accepted.
    """

    def require(condition: bool, reason: str) -> None:
        check(condition, LOOPS, block, loop, reason=reason)

    # The partial results live while the scope runs once, so each must be initialised in that time.
    instances, around = instances_in_scope(block)
    steps = Steps(instances, around)
    spatial, reduce = steps.spatial, steps.reduce
    var = loop.loop.loop_var
    if not is_const_int(loop.loop.extent, 1):
        require(var not in spatial, "a data-parallel axis is bound to it")
        require(var in reduce, "no reduction axis is bound to it")
    require(
        state.child_blocks(loops[0])[0] is block,
        "another block comes before it below its outermost loop",
    )
    below_reduction = False
    for sref in loops:
        name = sref.loop.loop_var
        both = name in spatial and name in reduce and not is_const_int(sref.loop.extent, 1)
        require(not both, f"loop {name.name} drives data-parallel and reduction axes")
        if name in reduce and not below_reduction:
            below_reduction = True
            require(
                len(state.child_blocks(sref)) == 1,
                f"its outermost reduction loop {name.name} has other blocks below it",
            )
        if name in reduce or sref is loop:
            require(is_const_int(sref.loop.min, 0), f"loop {name.name} does not start at 0")
    problem = steps.problem(around)
    passes = f"its steps do not each run once with the initialising step first, because {problem}"
    require(problem is None, passes)


def _final_predicate(
    block: StmtSRef, loop: StmtSRef, loops: Sequence[StmtSRef], others: Sequence[StmtSRef]
) -> PrimExpr:
    """Return the condition for a partial result: that the first step of the other loops runs.

    Raises unless a partial result that has any step has the first one, which initialises it.
    """
    predicate = block.block_realize.predicate
    if is_const_int(predicate, 1):
        return predicate
    nodes = [sref.loop for sref in others]
    late = left_out_first(predicate, nodes, analyzer_with_ranges(loop_domain(loops)))
    reason = f"its predicate `{late}` may skip the first step of a partial result"
    check(late is None, LOOPS, block, loop, reason=reason)
    first = at_first_step(predicate, nodes)
    # The partial results are reduced outside of the other loops, which may be empty.
    analyzer = analyzer_with_ranges(loop_domain([sref for sref in loops if sref not in others]))
    return without_known(first, analyzer)


def _partial_buffer(buffer: Buffer, axis: int, extent: PrimExpr) -> Buffer:
    shape = [*buffer.shape[:axis], extent, *buffer.shape[axis:]]
    made = stage_buffer(buffer, f"{buffer.name}_rf", buffer.scope(), shape)
    return made.with_(axis_separators=buffer.axis_separators)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The two blocks that a reduction block becomes."""

    realize: BlockRealize
    loop: For
    """The loop that is factored."""
    loops: Sequence[For]
    """All loops around the block."""
    reduction: Reduction
    partial: Sequence[Buffer]
    """The buffers of the partial results."""
    axis: int
    """The position of the additional dimension."""

    def _new_axis(self, iter_type: int) -> IterVar:
        extent = self.loop.extent
        var = Var(f"v{self.loop.loop_var.name}", extent.dtype)
        return IterVar(Range(extent), var, iter_type)

    def _insert_index(self, indices: Sequence[PrimExpr], index: PrimExpr) -> list[PrimExpr]:
        return [*indices[: self.axis], index, *indices[self.axis :]]

    # ------------------------------------------------------------------------- the partial results

    def partial_block(self, name: str) -> BlockRealize:
        """Return the block that computes partial results, in terms of all loops."""
        old = self.realize.block
        first = self._new_axis(IterVar.DATA_PAR)
        axes = [first]
        bindings: list[PrimExpr] = [self.loop.loop_var]
        by_loop: dict[Var, PrimExpr] = {self.loop.loop_var: first.var}
        extents = {lp.loop_var: lp.extent for lp in self.loops}
        values: dict[Var, PrimExpr] = {}
        remains = False
        for axis, value in zip(old.iter_vars, self.realize.iter_values, strict=True):
            found = collect_vars(value)
            is_reduce = axis.iter_type == IterVar.COMM_REDUCE
            if not is_reduce or self.loop.loop_var not in found:
                var = axis.var.with_name(axis.var.name)
                axes.append(IterVar(axis.dom, var, axis.iter_type))
                bindings.append(value)
                values[axis.var] = var
                remains |= is_reduce
                continue
            for loop_var in found:
                if loop_var in by_loop or loop_var not in extents:
                    continue
                var = Var(f"v{loop_var.name}", loop_var.dtype)
                axes.append(IterVar(Range(extents[loop_var]), var, IterVar.COMM_REDUCE))
                bindings.append(loop_var)
                by_loop[loop_var] = var
                remains = True
            values[axis.var] = substitute(value, by_loop).astype(axis.var.dtype)
        block = Block(
            axes,
            self._reads(values),
            self._partial_writes(values, first.var),
            name,
            *self._partial_body(values, first.var, remains),
            annotations=old.annotations,
        )
        return BlockRealize(bindings, self.realize.predicate, block)

    def _reads(self, values: Mapping[Var, PrimExpr]) -> list[BufferRegion]:
        own = set(self.reduction.buffers)
        reads = self.realize.block.reads
        return [substitute(region, values) for region in reads if region.buffer not in own]

    def _partial_writes(
        self, values: Mapping[Var, PrimExpr], index: PrimExpr
    ) -> list[BufferRegion]:
        regions = {region.buffer: region for region in self.realize.block.writes}
        writes = []
        for buffer, partial in zip(self.reduction.buffers, self.partial, strict=True):
            ranges = list(substitute(regions[buffer], values).region)
            ranges.insert(self.axis, Range.point(index))
            writes.append(BufferRegion(partial, ranges))
        return writes

    def _partial_body(
        self, values: Mapping[Var, PrimExpr], index: PrimExpr, remains: bool
    ) -> tuple[Stmt, Stmt | None]:
        """Return body and init; if no reduction remains, the body only stores the values."""
        reduction = self.reduction
        indices = self._insert_index([substitute(i, values) for i in reduction.indices], index)
        new = [substitute(value, values) for value in reduction.values]
        if not remains:
            return reduction.stored(new, self.partial, indices), None
        old = [BufferLoad(buffer, indices) for buffer in self.partial]
        identity = reduction.reducer.identity([buffer.dtype for buffer in self.partial])
        init = [
            BufferStore(b, value, indices) for b, value in zip(self.partial, identity, strict=True)
        ]
        return reduction.update(old, new, self.partial, indices), sequence(init)

    # -------------------------------------------------------------------------- reducing those

    def final_block(self, predicate: PrimExpr) -> BlockRealize:
        """Return the block that reduces the partial results, under the name of the original."""
        old = self.realize.block
        first = self._new_axis(IterVar.COMM_REDUCE)
        axes = [first]
        bindings: list[PrimExpr] = [self.loop.loop_var]
        values: dict[Var, PrimExpr] = {}
        for axis, value in zip(old.iter_vars, self.realize.iter_values, strict=True):
            if axis.iter_type != IterVar.COMM_REDUCE:
                var = axis.var.with_name(axis.var.name)
                axes.append(IterVar(axis.dom, var, axis.iter_type))
                bindings.append(value)
                values[axis.var] = var
        reduction = self.reduction
        indices = [substitute(i, values) for i in reduction.indices]
        inner = self._insert_index(indices, first.var)
        own = [BufferLoad(buffer, indices) for buffer in reduction.buffers]
        new = [BufferLoad(buffer, inner) for buffer in self.partial]
        assert old.init is not None
        block = Block(
            axes,
            [BufferRegion.from_point(buffer, inner) for buffer in self.partial],
            [substitute(region, values) for region in old.writes],
            old.name_hint,
            reduction.update(own, new, reduction.buffers, indices),
            substitute(old.init, values),
            annotations=old.annotations,
        )
        return BlockRealize(bindings, predicate, block)
