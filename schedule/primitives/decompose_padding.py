"""Separating the constant border of a padding block from the values inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedule.analysis.axis_independence import check_any_order
from schedule.analysis.bindings import loop_domain
from schedule.analysis.block_kind import check_complete, require_scope
from schedule.analysis.dependency import BlockScope
from schedule.analysis.region_cover import covers_reads
from schedule.analysis.surroundings import check_dependencies_show, guards
from schedule.errors import Problem, check, describe, fail
from schedule.instruction import BlockArg, LoopArg, NewBlock, primitive
from schedule.sref import StmtSRef, is_ancestor, loops_above
from schedule.staging.nests import Staged, Sweep
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import (
    GE,
    GT,
    LE,
    LT,
    BufferLoad,
    Call,
    FloatImm,
    IntImm,
    IterVar,
    PrimExpr,
    Var,
)
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.ops import conjuncts, const, is_const_int, logical_and
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, For, Stmt, sequence
from tensorir.rewriting.visit import Rewriter, substitute, walk

NOT_AN_ANCESTOR = Problem(
    "LoopPositionError",
    "{0} is not an ancestor of {1}",
    "give one of the loops that get_loops returns for the block",
)
PATTERN = Problem(
    "PaddingPatternMatchError",
    "{0} is no padding that can be decomposed: {reason}",
    "the body must be `buffer[...] = T.if_then_else(condition, value, constant)`, with a condition "
    "that bounds axes by constants",
)
READ_EARLY = Problem(
    "PaddingReadEarlyError",
    "{0} may read {buffer} before {1} has stored there, and would find the constant",
    "choose a loop further in, around blocks that read only what is stored before",
)


@primitive("DecomposePadding")
def decompose_padding(state: ScheduleState, block: BlockArg, loop: LoopArg) -> NewBlock:
    """Store a padding block's constant everywhere right before `loop`, then the values inside.

    Before: for i in range(n + 2): P[i] = A[i - 1] if 1 <= i < n + 1 else 0
    After:  for i in range(n + 2): P[i] = 0;  for i in range(n): P[i + 1] = A[i]

    The block that fills, `<name>_pad_const`, is returned; it runs under serial copies of the loops
    from `loop` down. The block itself keeps its handle and runs for the inside alone: loops from
    `loop` down in which it is alone, and which drive one of its axes directly, become shorter, for
    other axes its predicate says so.

    A block below `loop` that may read elements before they are stored is refused, unlike in TVM,
    unless the schedule was made with `enable_check=False`.

    Raises ScheduleError: RootBlockError, IncompleteBlockError, LoopPositionError,
    PaddingPatternMatchError, PaddingReadEarlyError, OutOfScopeError.
    """
    # Preconditions.
    _, graph = require_scope(state, block)
    check_dependencies_show(state, graph, block)
    check_complete(state, block, graph)
    if state.enable_check:
        check_any_order(block)
    loops = loops_above(block)
    check(loop in loops, NOT_AN_ANCESTOR, loop, block)
    store, value, padding = _match_body(block)
    box = _inner_box(block, value.args[0])
    reason = f"a condition below {describe(loop.loop)} may leave it out"
    check(not guards(block, loop), PATTERN, block, reason=reason)
    _check_nothing_reads_early(state, block, loop, graph, store.buffer)

    # Rewrite.
    parts = _Parts(block, loops, loops.index(loop), store, value.args[1], padding, box)
    filling, inside = parts.filling(), parts.inside()
    state.replace(loop, sequence([filling.nest, inside.nest]), {block.block: inside.block})

    # Result.
    return state.get_sref(filling.block)


def _check_nothing_reads_early(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, graph: BlockScope, buffer: Buffer
) -> None:
    """Raise if a block in the loop may read the constant where the value is stored later."""
    if not state.enable_check:
        return
    order = {child: k for k, child in enumerate(graph.children)}
    for reader in graph.buffer_readers.get(buffer, ()):
        if is_ancestor(loop, reader):
            late = order[reader] > order[block] and covers_reads(state, reader, graph)
            check(late, READ_EARLY, reader, block, buffer=buffer.name)


class _Parts:
    """A padding block, the box of its axes in which it stores values, and the nests it becomes."""

    def __init__(
        self,
        block: StmtSRef,
        loops: Sequence[StmtSRef],
        position: int,
        store: BufferStore,
        value: PrimExpr,
        padding: PrimExpr,
        inside: Mapping[Var, tuple[int, int]],
    ) -> None:
        self._realize = block.block_realize
        self._below = [sref.loop for sref in loops[position:]]
        self._store = store
        self._value = value
        self._padding = padding
        self._box = inside
        self._analyzer = Analyzer()
        for var, values in loop_domain(loops).items():
            self._analyzer.bind(var, values)

    # ---------------------------------------------------------------------------------- the border

    def filling(self) -> Staged:
        """Return the nest that stores the constant everywhere."""
        old = self._realize.block
        values = [self._analyzer.simplify(value) for value in self._realize.iter_values]
        sweep, axes = Sweep.like(self._below, old.iter_vars, values, self._realize.predicate)
        indices = [substitute(index, axes) for index in self._store.indices]
        name = f"{old.name_hint}_pad_const"
        store = BufferStore(self._store.buffer, self._padding, indices)
        return sweep.running(store, (), [substitute(region, axes) for region in old.writes], name)

    # ---------------------------------------------------------------------------------- the inside

    def inside(self) -> Staged:
        """Return the block's own nest, which stores no padding any more."""
        realize = self._realize
        shorter = self._shorter_loops()
        analyzer = self._analyzer
        moved: dict[Var, PrimExpr] = {}
        for var, (low, high) in shorter.items():
            analyzer.bind(var, Range(const(high - low, var.dtype)), allow_override=True)
            if low:
                moved[var] = var + low
        bindings: list[PrimExpr] = []
        axes: list[IterVar] = []
        shifted: dict[Var, PrimExpr] = {}
        predicate = substitute(realize.predicate, moved)
        for axis, bound in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            value = analyzer.simplify(substitute(bound, moved))
            low, high = self._box[axis.var]
            for holds in (value >= low, value < high):
                if not analyzer.can_prove(holds):
                    predicate = logical_and(predicate, holds)
            bindings.append(analyzer.simplify(value - low))
            axes.append(IterVar(Range(const(high - low, axis.var.dtype)), axis.var, axis.iter_type))
            if low:
                shifted[axis.var] = axis.var + low
        block = self._shifted_block(axes, shifted)
        predicate = analyzer.simplify(predicate)
        nest: Stmt = self._below[0]
        nest = _Shorten(shorter, moved, realize, BlockRealize(bindings, predicate, block))(nest)
        return Staged(nest, block)

    def _shorter_loops(self) -> dict[Var, tuple[int, int]]:
        """Return the shorter range of each loop that only runs the block and drives one axis."""
        axis_of: dict[Var, Var] = {}
        for axis, value in zip(
            self._realize.block.iter_vars, self._realize.iter_values, strict=True
        ):
            if isinstance(value, Var):
                axis_of.setdefault(value, axis.var)
        found: dict[Var, tuple[int, int]] = {}
        inner: Stmt = self._realize
        for loop in reversed(self._below):
            if loop.body is not inner:
                break
            inner = loop
            axis_var = axis_of.get(loop.loop_var)
            if axis_var is None or not is_const_int(loop.min, 0):
                continue
            low, high = self._box[axis_var]
            if isinstance(loop.extent, IntImm) and high <= loop.extent.value:
                found[loop.loop_var] = (low, high)
        return found

    def _shifted_block(self, axes: Sequence[IterVar], shifted: Mapping[Var, PrimExpr]) -> Block:
        """Return the block over the inside alone, with axes that start at 0."""
        analyzer = Analyzer()
        for axis in axes:
            assert axis.dom is not None
            if not is_const_int(axis.dom.extent, 1):  # a bound axis of extent 1 would become 0
                analyzer.bind(axis.var, axis.dom)

        def shift_region(region: BufferRegion) -> BufferRegion:
            new = substitute(region, shifted)
            if new is region:
                return region
            ranges = [
                Range.from_min_extent(analyzer.simplify(r.min), analyzer.simplify(r.extent))
                for r in new.region
            ]
            return BufferRegion(region.buffer, ranges)

        old, store = self._realize.block, self._store
        indices = [analyzer.simplify(substitute(i, shifted)) for i in store.indices]
        value = self._value
        if shifted:
            value = analyzer.simplify(substitute(value, shifted))
        return old.with_(
            iter_vars=axes,
            reads=[shift_region(region) for region in old.reads],
            writes=[shift_region(region) for region in old.writes],
            body=BufferStore(store.buffer, value, indices),
        )


def _match_body(block: StmtSRef) -> tuple[BufferStore, Call, PrimExpr]:
    """Return the store of a padding block, its choice, and the constant it chooses outside."""
    store = block.block.body
    if not isinstance(store, BufferStore) or store.predicate is not None:
        fail(PATTERN, block, reason="its body is not a single store")
    value = store.value
    if not isinstance(value, Call) or getattr(value.op, "short_name", "") != "if_then_else":
        fail(PATTERN, block, reason="the value that it stores is no if_then_else")
    padding = value.args[2]
    known = isinstance(padding, (IntImm, FloatImm))
    check(known, PATTERN, block, reason="the value that it stores outside is not constant")
    for node in walk(value.args[1]):
        quiet = not isinstance(node, Call) or (
            isinstance(node.op, Op) and node.op.effect in (Effect.PURE, Effect.ANNOTATION)
        )
        check(quiet, PATTERN, block, reason="computing what it stores inside has an effect")
    for node in walk(value.args[0]):
        check(
            not isinstance(node, BufferLoad), PATTERN, block, reason="its condition depends on data"
        )
    return store, value, padding


def _inner_box(block: StmtSRef, condition: PrimExpr) -> dict[Var, tuple[int, int]]:
    """Return for each axis the values `[low, high)` for which a condition holds."""
    box: dict[Var, tuple[int, int]] = {}
    analyzer = Analyzer()
    for axis in block.block.iter_vars:
        dom = axis.dom
        constant = dom is not None and is_const_int(dom.min, 0) and isinstance(dom.extent, IntImm)
        check(
            constant, PATTERN, block, reason=f"the domain of axis {axis.var.name} is not constant"
        )
        assert dom is not None
        assert isinstance(dom.extent, IntImm)
        box[axis.var] = (0, dom.extent.value)
        analyzer.bind(axis.var, dom)
    whole = dict(box)
    for part in conjuncts(condition):
        if analyzer.can_prove(part):
            continue
        limit = _limit(part, box, analyzer)
        if limit is None:
            fail(PATTERN, block, reason=f"`{part}` does not bound one axis by a constant")
        var, (low, high) = limit
        box[var] = (max(low, box[var][0]), min(high, box[var][1]))
    check(box != whole, PATTERN, block, reason="its condition always holds")
    never = any(low >= high for low, high in box.values())
    check(not never, PATTERN, block, reason="its condition never holds")
    return box


def _limit(
    condition: PrimExpr, box: Mapping[Var, tuple[int, int]], analyzer: Analyzer
) -> tuple[Var, tuple[int, int]] | None:
    """Return an axis and the range of values that an inequality allows it, None for other forms."""
    if not isinstance(condition, (LT, LE, GT, GE)) or not condition.a.dtype.is_int:
        return None
    small, large = condition.a, condition.b
    if isinstance(condition, (GT, GE)):
        small, large = large, small
    # The condition is `gap >= 0`.
    gap = analyzer.linear(large).plus(analyzer.linear(small), -1)
    if isinstance(condition, (LT, GT)):
        gap = gap.plus_const(-1)
    if len(gap.terms) != 1:
        return None
    ((var, weight),) = gap.terms.items()
    if not isinstance(var, Var) or var not in box or weight not in (1, -1):
        return None
    low, high = box[var]
    return (var, (-gap.const, high)) if weight == 1 else (var, (low, gap.const + 1))


class _Shorten(Rewriter):
    """Puts a block in the place of another one, below loops that become shorter."""

    def __init__(
        self,
        shorter: Mapping[Var, tuple[int, int]],
        moved: Mapping[Var, PrimExpr],
        old: BlockRealize,
        new: BlockRealize,
    ) -> None:
        self._shorter = shorter
        self._moved = moved
        self._old = old
        self._new = new

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        """Rebuild a loop; those that become shorter start at 0 again."""
        body = self(node.body)
        if body is node.body:
            return node
        low, extent = (substitute(e, self._moved) for e in (node.min, node.extent))
        limits = self._shorter.get(node.loop_var)
        if limits is not None:
            extent = const(limits[1] - limits[0], node.loop_var.dtype)
        return node.with_(min=low, extent=extent, body=body)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        """Replace the block; leave others alone."""
        return self._new if node is self._old else node
