"""Replacing reads of an intermediate buffer by the expression that fills it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schedule.analysis.accesses import check_no_effect, check_no_opaque
from schedule.analysis.bindings import axis_domain
from schedule.analysis.block_kind import (
    check_complete,
    check_not_only_leaf,
    check_not_output,
    check_uses_no_loop,
    require_pipeline,
)
from schedule.analysis.rebuild import BlockRewriter
from schedule.analysis.region_cover import fills_buffer
from schedule.analysis.regions import visible_buffers, with_derived_regions
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, primitive
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from tensorir.arith import (
    Analyzer,
    IterMapLevel,
    detect_iter_map,
    inverse_affine_iter_map,
)
from tensorir.indices.placed_values import mark_as_value, never_wraps
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, PrimExpr, Var
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.ops import TRUE, is_const_int
from tensorir.nodes.stmt import Block, BufferStore, Stmt
from tensorir.reducers import written_out
from tensorir.rewriting.visit import substitute, walk

HAS_INIT = Problem(
    "HasInitBlock",
    "{0} has an init statement, so it cannot be inlined",
    "a reduction cannot be inlined; compute_at moves it to its consumers",
)
NOT_ONE_BUFFER = Problem(
    "NotSingleReadWriteBuffer",
    "{0} is expected to have a single buffer region that it {verb}, but it has {count}",
    "name a block with one such region; several buffers need several blocks",
)
BODY = Problem(
    "BodyAnalysisError",
    "the body of {0} cannot be inlined: {reason}",
    "the body must be one store, possibly under lets, and its indices must be an invertible map "
    "of the axes",
)


@primitive("ComputeInline")
def compute_inline(state: ScheduleState, block: BlockArg) -> None:
    """Inline a block into its consumers, which then compute its values themselves.

    Before: B[i] = f(A[i]);  C[i] = g(B[i])
    After:  C[i] = g(f(A[i]))

    An integer that is computed from indices only is inlined as `T.reinterpret` of the same type if
    a consumer's arithmetic on it may wrap, because index arithmetic must not wrap.

    Raises ScheduleError: HasInitBlock, NotSingleReadWriteBuffer, NotStagePipelineError,
    OutputBlockError, IncompleteBlockError, BodyAnalysisError, OnlyLeafError, OpaqueAccessError,
    OpaqueCallError, OpaqueBlockError, AliasedBufferError, BareAccessError, GuardedBlockError,
    RootBlockError.
    """
    scope, store, places, inverse = check_compute_inline(state, block)
    # From now on the consumers access the block's inputs, possibly as the only blocks.
    inliner = Inliner(
        store.buffer, substitute(store.value, inverse), places, visible_buffers(state, scope)
    )
    state.replace(block, None)
    old = scope.block
    new = without_buffer(old.with_body(inliner.inline_into(old.body)), store.buffer)
    state.replace(scope, new, {**inliner.reuse, old: new})


def check_compute_inline(
    state: ScheduleState, block: StmtSRef
) -> tuple[StmtSRef, BufferStore, list[Var], dict[Var, PrimExpr]]:
    """Check that a block can be inlined into its consumers; the program is unchanged.

    Returns its scope, its store, variables for the indices of the store, and the block's axes in
    terms of these variables.
    """
    node = block.block
    check(node.init is None, HAS_INIT, block)
    written = [r.buffer for r in node.writes]
    check(len(written) == 1, NOT_ONE_BUFFER, block, verb="writes", count=len(written))
    buffer = written[0]
    # In conditions, the value also replaces loads of the buffer.
    scope, graph = require_pipeline(state, block, read_after=fills_buffer(block, buffer))
    check_not_output(state, block)
    check_complete(state, block, graph)
    check_uses_no_loop(block)
    store = written_out(node.body)
    if not isinstance(store, BufferStore):
        fail(BODY, block, reason="it is not a single store")
    places, inverse = _inverse_of_store(block, store)
    check_not_only_leaf(graph, block, scope)
    check_no_opaque(scope, buffer)
    if state.enable_check:
        check_no_effect(block)
    return scope, store, places, inverse


def _inverse_of_store(block: StmtSRef, store: BufferStore) -> tuple[list[Var], dict[Var, PrimExpr]]:
    """Return variables for the indices of a store, and each axis in terms of these variables."""
    node = block.block
    analyzer = Analyzer()
    ranges = axis_domain(node.iter_vars)
    places = [Var(f"_{k}", i.dtype) for k, i in enumerate(store.indices)]
    missing = [v for v in ranges if not is_const_int(ranges[v].extent, 1)]
    direct: dict[Var, PrimExpr] = {}
    for place, index in zip(places, store.indices, strict=True):
        if isinstance(index, Var) and index in ranges and index not in direct:
            direct[index] = place
    trivial = all(
        (isinstance(i, Var) and direct.get(i) is p) or is_const_int(i, 0)
        for p, i in zip(places, store.indices, strict=True)
    )
    if trivial and all(v in direct for v in missing):
        rest = {v: ranges[v].min for v in ranges if v not in direct}
        return places, {**direct, **rest}
    result = detect_iter_map(store.indices, ranges, TRUE, IterMapLevel.BIJECTIVE, True, analyzer)
    if not result.indices:
        fail(BODY, block, reason=f"its indices are not a bijective affine map: {result.errors[0]}")
    solved = inverse_affine_iter_map(result.indices, places, analyzer.linearizer)
    for place, extent in zip(places, store.buffer.shape, strict=True):
        analyzer.bind(place, Range(extent))
    simple = {v: analyzer.simplify(e) for v, e in solved.items()}
    return places, {v: simple.get(v, ranges[v].min) for v in ranges}


class Inliner(BlockRewriter):
    """Replaces loads of a buffer by the value that is stored there.

    The variables `places` in the value are replaced by the indices of a load. Blocks that touched
    the buffer declare their new accesses to the `visible` buffers and their own buffers.
    """

    def __init__(
        self,
        buffer: Buffer,
        value: PrimExpr,
        places: Sequence[Var] = (),
        visible: Mapping[Var, Buffer] | None = None,
    ) -> None:
        super().__init__()
        self._buffer = buffer
        self._value = value
        self._places = places
        self._visible = dict(visible or {})
        self._placed: list[PrimExpr] = []

    def inline_into(self, body: Stmt, domains: Mapping[Var, Range] | None = None) -> Stmt:
        """Return a statement in which the value replaces loads.

        Index arithmetic is marked as a value (`T.reinterpret`) if arithmetic on it may wrap;
        `domains` has the domains of variables that the statement does not bind.
        """
        new: Stmt = self(body)
        if is_index_arithmetic(self._value) and not never_wraps(new, self._placed, domains):
            self._value = mark_as_value(self._value)
            self.reuse.clear()
            new = self(body)
        return new

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        """Rewrite a block and its declared regions."""
        self._visible.update((b.data, b) for b in node.alloc_buffers)
        regions = (*node.reads, *node.writes)
        self._visible.update((r.buffer.data, r.buffer) for r in regions)
        new = super().rewrite_Block(node)
        if any(r.buffer is self._buffer for r in regions):
            new = self.reuse[node] = with_derived_regions(new, self._visible)
        return new

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        """Return the value for the indices of a load."""
        new = self.generic(node)
        if new.buffer is not self._buffer:
            return new
        indices = dict(zip(self._places, new.indices, strict=True)) if self._places else {}
        self._placed.append(substitute(self._value, indices))
        return self._placed[-1]


def without_buffer(block: Block, buffer: Buffer) -> Block:
    """Return a block that no longer allocates a buffer."""
    return block.with_(alloc_buffers=[b for b in block.alloc_buffers if b is not buffer])


LONG: Final = 1000
"""The maximum number of nodes that inlining may add to a block that reads another one in several
places. Machine code computes equal values once, but every earlier pass visits each copy.
"""


def stays_short(producer: StmtSRef, consumers: Sequence[StmtSRef]) -> bool:
    """Return True if inlining a producer makes none of its consumers much longer.

    In a chain of blocks that each read the previous block twice, each inlining doubles the size.
    """
    written = {region.buffer for region in producer.block.writes}
    length = sum(1 for _ in walk(producer.block.body))
    for consumer in dict.fromkeys(consumers):
        nodes = walk(consumer.block.body)
        loads = sum(isinstance(node, BufferLoad) and node.buffer in written for node in nodes)
        if loads > 1 and loads * length > LONG:
            return False
    return True
