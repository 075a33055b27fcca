"""Replacing the store of an intermediate buffer by the store of its consumer."""

from __future__ import annotations

from schedule.analysis.accesses import check_no_effect, check_no_opaque
from schedule.analysis.axis_independence import check_any_order, dependent_axes
from schedule.analysis.bindings import axis_domain, axis_values
from schedule.analysis.block_kind import (
    check_complete,
    check_not_only_leaf,
    check_not_output,
    check_uses_no_loop,
    complete_violation,
    is_dominant,
    require_pipeline,
)
from schedule.analysis.dependency import DepKind
from schedule.analysis.iteration_cover import runs_where, stays_within
from schedule.analysis.regions import visible_buffers, with_derived_regions
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, primitive
from schedule.primitives.inline import (
    BODY,
    HAS_INIT,
    NOT_ONE_BUFFER,
    Inliner,
    without_buffer,
)
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    detect_iter_map,
    inverse_affine_iter_map,
)
from tensorir.arith.terms import choice_of
from tensorir.comparison.equal import expr_deep_equal
from tensorir.indices.accesses import loads_in
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import EQ, And, Or, PrimExpr, Var
from tensorir.nodes.ops import TRUE, compare, conjuncts, is_const_int, logical_and
from tensorir.nodes.stmt import BlockRealize, BufferStore, IfThenElse, Stmt
from tensorir.reducers import bound_values, written_out
from tensorir.rewriting.visit import substitute, walk

SEVERAL_PRODUCERS = Problem(
    "NonSingleProducerError",
    "{0} does not have a single producer of {buffer} that is a complete block",
    "call decompose_reduction or compute_inline on its producers first, so that one block "
    "without an init writes {buffer}",
)

SEVERAL_CONSUMERS = Problem(
    "NonSingleConsumerError",
    "{buffer} would disappear, but both {0} and {1} read it",
    "inline the producer into all its consumers with compute_inline",
)


@primitive("ReverseComputeInline")
def reverse_compute_inline(state: ScheduleState, block: BlockArg) -> None:
    """Inline a consumer into its producer, which then stores the final value directly.

    Before: B[i] = f(A[i]);  C[i] = g(B[i])
    After:  C[i] = g(f(A[i])), in the place of the producer

    If not all instances of the consumer run, the producer gets the same predicate.
    Integers are inlined as in `compute_inline`.

    Raises ScheduleError: HasInitBlock, NotStagePipelineError, NotSingleReadWriteBuffer,
    IncompleteBlockError, NonSingleProducerError, NonSingleConsumerError, OutputBlockError,
    BodyAnalysisError, OnlyLeafError, OpaqueAccessError, OpaqueCallError, OpaqueBlockError,
    AliasedBufferError, BareAccessError, DependentAxisError, RootBlockError.
    """
    # Preconditions.
    node = block.block
    check(node.init is None, HAS_INIT, block)
    scope, graph = require_pipeline(state, block)
    read = list(dict.fromkeys(r.buffer for r in node.reads))
    made = [b for b in read if b in graph.buffer_writers]
    check(len(made) == 1, NOT_ONE_BUFFER, block, verb="reads", count=len(made))
    buffer = made[0]
    check_complete(state, block, graph)
    check_uses_no_loop(block)
    edges = graph.edges_to(block)
    sources = [d.src for d in edges if d.kind is DepKind.RAW and d.buffer is buffer]
    single = len(sources) == 1 and not complete_violation(
        sources[0], is_dominant(sources[0], graph)
    )
    check(single, SEVERAL_PRODUCERS, block, buffer=buffer.name)
    producer = sources[0]
    check_not_output(state, producer)
    for other in graph.buffer_readers[buffer]:
        check(other is block, SEVERAL_CONSUMERS, block, other, buffer=buffer.name)
    plan = _ReversePlan(state, block, producer, buffer)
    check_not_only_leaf(graph, block, scope)
    check_no_opaque(scope, buffer)
    if state.enable_check:
        check_no_effect(block)
        check_no_effect(producer)

    # Rewrite.
    plan.apply(scope)


class _ReversePlan:
    """The plan by which a consumer's store replaces its producer's."""

    def __init__(
        self, state: ScheduleState, block: StmtSRef, producer: StmtSRef, buffer: Buffer
    ) -> None:
        self._state = state
        self._block = block
        self._producer = producer
        self._buffer = buffer
        self._analyzer = Analyzer()
        runs = runs_where(block)
        if runs is None:
            fail(BODY, block, reason="its predicate is not a function of its axes")
        self._runs = runs
        if not isinstance(bound_values(block.block.body)[1], BufferStore):
            fail(BODY, block, reason="it is not a single store")
        self._body = block.block.body
        self._producer_store, self._condition = self._store_of_producer()
        self._axes = self._solve_axes()
        self._check_not_skipped()

    def _check_not_skipped(self) -> None:
        """Raise if the consumer has instances that do not read the buffer and no producer instance.

        A consumer that always reads has none: it would read elements that nothing has written.
        """
        realize = self._producer.block_realize
        if is_const_int(realize.predicate, 1) and self._condition is None:
            return
        if not _loads_in_a_branch(self._body, self._buffer):
            return
        for var, values in axis_domain(realize.block.iter_vars).items():
            self._analyzer.bind(var, values, allow_override=True)
        axes = {v: self._analyzer.simplify(e) for v, e in self._axes.items()}
        in_bound = substitute(self._in_bound(axes), axis_values(realize))
        always = self._condition is None and self._implies(in_bound, realize.predicate)
        name = realize.block.name_hint
        reason = f"it runs where {name!r} does not, under the predicate `{realize.predicate}`"
        check(always, BODY, self._block, reason=reason)

    def _store_of_producer(self) -> tuple[BufferStore, PrimExpr | None]:
        body: Stmt = self._producer.block.body
        condition = None
        if isinstance(body, IfThenElse) and body.else_case is None:
            condition, body = body.condition, body.then_case
        body = written_out(body)
        if not isinstance(body, BufferStore) or body.buffer is not self._buffer:
            fail(BODY, self._producer, reason="it is not a single store to the buffer that is read")
        return body, condition

    def _solve_axes(self) -> dict[Var, PrimExpr]:
        """Return the consumer's axes in terms of the indices at which the producer stores."""
        node = self._block.block
        loads = [load for load in loads_in(self._body) if load.buffer is self._buffer]
        if not loads:
            fail(BODY, self._block, reason="the buffer is not loaded")
        indices = loads[0].indices
        for other in loads[1:]:
            pairs = zip(indices, other.indices, strict=True)
            if not all(expr_deep_equal(a, b) for a, b in pairs):
                fail(BODY, self._block, reason="the buffer is loaded at different indices")
        self._places = indices
        ranges = axis_domain(node.iter_vars)
        level = IterMapLevel.INJECTIVE
        result = detect_iter_map(indices, ranges, TRUE, level, True, self._analyzer)
        if not result.indices:
            reason = (
                "its loads are not affine, or several of its instances read the same element: "
                f"{result.errors[0]}"
            )
            fail(BODY, self._block, reason=reason)
        stored = self._producer_store.indices
        producer = self._producer.block
        read, given = ([Range.point(i) for i in where] for where in (indices, stored))
        if not stays_within(read, node.iter_vars, given, producer.iter_vars):
            reason = f"it runs for elements that {producer.name_hint!r} does not store"
            fail(BODY, self._block, reason=reason)
        solved = inverse_affine_iter_map(result.indices, stored, self._analyzer.linearizer)
        return {var: solved.get(var, values.min) for var, values in ranges.items()}

    def apply(self, scope: StmtSRef) -> None:
        """Move the consumer's store into the producer, and remove the consumer and the buffer."""
        producer, realize = self._producer.block, self._producer.block_realize
        for var, values in axis_domain(producer.iter_vars).items():
            self._analyzer.bind(var, values)
        axes = {v: self._analyzer.simplify(e) for v, e in self._axes.items()}
        inliner = Inliner(self._buffer, self._producer_store.value)
        body = inliner.inline_into(substitute(self._body, axes), axis_domain(producer.iter_vars))
        predicate = realize.predicate
        in_bound = self._in_bound(axes)
        if is_const_int(in_bound, 1):
            if self._condition is not None:
                body = IfThenElse(self._condition, body)
        else:
            if self._condition is not None:
                in_bound = self._analyzer.simplify(logical_and(in_bound, self._condition))
            in_bound = substitute(in_bound, axis_values(realize))
            if self._implies(in_bound, predicate):
                predicate = in_bound
            else:
                predicate = logical_and(predicate, in_bound)
        visible = visible_buffers(self._state, scope)
        new = with_derived_regions(producer.with_(body=body), visible)
        state = self._state
        if state.enable_check and dependent_axes(new):
            # From now on the consumer's instances run in the order of the producer's instances.
            check_any_order(self._block)
        state.replace(self._block, None)
        state.replace(
            self._producer,
            BlockRealize(realize.iter_values, predicate, new),
            {producer: new},
        )
        state.replace(scope, without_buffer(scope.block, self._buffer))

    def _implies(self, condition: PrimExpr, other: PrimExpr) -> bool:
        """Return True if one condition provably implies the other."""
        with self._analyzer.constraint_scope(condition):
            return self._analyzer.can_prove(other)

    def _in_bound(self, axes: dict[Var, PrimExpr]) -> PrimExpr:
        """Return the condition under which a producer instance has a consumer instance."""
        result: PrimExpr = TRUE
        for axis in self._block.block.iter_vars:
            assert axis.dom is not None
            value = axes[axis.var]
            for limit in (
                value >= axis.dom.min,
                value < self._analyzer.simplify(axis.dom.min + axis.dom.extent),
            ):
                result = logical_and(result, self._analyzer.simplify(limit))
        for condition in conjuncts(self._runs):
            there = self._analyzer.simplify(substitute(condition, axes))
            if not self._implies(result, there):
                result = logical_and(result, there)
        # Axes of one value are not solved from the indices, so the indices must be compared.
        for read, stored in zip(self._places, self._producer_store.indices, strict=True):
            place = substitute(read, axes)
            if not self._analyzer.can_prove_equal(place, stored):
                result = logical_and(result, self._analyzer.simplify(compare(EQ, stored, place)))
        return result


def _loads_in_a_branch(body: Stmt, buffer: Buffer) -> bool:
    """Return True if a load of `buffer` is conditional."""
    for node in walk(body):
        choice = choice_of(node) if isinstance(node, PrimExpr) else None
        branches = (node.b,) if isinstance(node, (And, Or)) else choice[1:] if choice else ()
        if any(load.buffer is buffer for branch in branches for load in loads_in(branch)):
            return True
    return False
