"""Separating the constant border of a padding block from the values inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedule.analysis.axis_independence import check_any_order
from schedule.analysis.bindings import axis_domain, knowing, loop_domain
from schedule.analysis.block_kind import check_complete, require_scope
from schedule.analysis.dependency import BlockScope
from schedule.analysis.rebuild import ReplaceAxes
from schedule.analysis.region_cover import covers_reads
from schedule.analysis.staging_copy import Sweep
from schedule.analysis.surroundings import check_dependencies_show, guards
from schedule.errors import Problem, check, describe, fail
from schedule.instruction import BlockArg, LoopArg, NewBlock, primitive
from schedule.primitives.decompose_reduction import NOT_AN_ANCESTOR
from schedule.sref import StmtSRef, is_ancestor, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.nodes.buffer import Buffer, Range
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
from tensorir.rewriting.visit import substitute, walk

Box = Mapping[Var, tuple[int, int]]
"""The values `[low, high)` of variables."""

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

    # Rewrite: a nest that stores the constant everywhere.
    old, realize = block.block, block.block_realize
    below = loops[loops.index(loop) :]
    analyzer = knowing(loop_domain(loops))
    values = [analyzer.simplify(bound) for bound in realize.iter_values]
    around = [sref.loop for sref in below]
    sweep, axes = Sweep.like(around, old.iter_vars, values, realize.predicate)
    border = BufferStore(store.buffer, padding, [substitute(i, axes) for i in store.indices])
    written = [substitute(region, axes) for region in old.writes]
    filling = sweep.running(border, (), written, f"{old.name_hint}_pad_const")

    # Rewrite: the block's own nest, which stores no padding any more.
    shorter = _shorter_loops(realize, around, box)
    moved: dict[Var, PrimExpr] = {var: var + low for var, (low, _) in shorter.items() if low}
    for var, (low, high) in shorter.items():
        analyzer.bind(var, Range(const(high - low, var.dtype)), allow_override=True)
    values_only = BufferStore(store.buffer, value.args[1], store.indices)
    inside = _inside(realize, values_only, box, moved, analyzer)
    state.replace(block, inside, {old: inside.block})
    for sref in reversed(below):
        lp = sref.loop
        first, extent = substitute(lp.min, moved), substitute(lp.extent, moved)
        if lp.loop_var in shorter:
            low, high = shorter[lp.loop_var]
            extent = const(high - low, lp.loop_var.dtype)
        state.replace(sref, lp.with_(min=first, extent=extent))
    state.replace(loop, sequence([filling.nest, loop.loop]))

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


def _shorter_loops(realize: BlockRealize, below: Sequence[For], box: Box) -> Box:
    """Return the shorter range of each loop that only runs the block and drives one axis."""
    axis_of: dict[PrimExpr, Var] = {}
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        axis_of.setdefault(value, axis.var)
    found: dict[Var, tuple[int, int]] = {}
    inner: Stmt = realize
    for loop in reversed(below):
        if loop.body is not inner:
            break
        inner = loop
        axis_var = axis_of.get(loop.loop_var)
        if axis_var is None or not is_const_int(loop.min, 0):
            continue
        low, high = box[axis_var]
        if isinstance(loop.extent, IntImm) and high <= loop.extent.value:
            found[loop.loop_var] = (low, high)
    return found


def _inside(
    realize: BlockRealize,
    store: BufferStore,
    box: Box,
    moved: Mapping[Var, PrimExpr],
    analyzer: Analyzer,
) -> BlockRealize:
    """Return the block over the inside alone, with axes that start at 0.

    `moved` are the variables of loops that became shorter, `analyzer` knows what they take then.
    """
    bindings: list[PrimExpr] = []
    axes: list[IterVar] = []
    shifted: dict[Var, PrimExpr] = {}
    predicate = substitute(realize.predicate, moved)
    for axis, bound in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        value = analyzer.simplify(substitute(bound, moved))
        low, high = box[axis.var]
        for holds in (value >= low, value < high):
            if not analyzer.can_prove(holds):
                predicate = logical_and(predicate, holds)
        bindings.append(analyzer.simplify(value - low))
        axes.append(IterVar(Range(const(high - low, axis.var.dtype)), axis.var, axis.iter_type))
        if low:
            shifted[axis.var] = axis.var + low
    # A bound axis of one value would become 0.
    domain = {v: r for v, r in axis_domain(axes).items() if not is_const_int(r.extent, 1)}
    block: Block = ReplaceAxes(shifted, knowing(domain))(realize.block.with_(body=store))
    return BlockRealize(bindings, analyzer.simplify(predicate), block.with_(iter_vars=axes))


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


def _inner_box(block: StmtSRef, condition: PrimExpr) -> Box:
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


def _limit(condition: PrimExpr, box: Box, analyzer: Analyzer) -> tuple[Var, tuple[int, int]] | None:
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
