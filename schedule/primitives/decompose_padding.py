"""Separating the constant border of a padding block from the values inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedule.analysis.axis_independence import check_any_order
from schedule.analysis.bindings import analyzer_keeping_units, analyzer_with_ranges, loop_domain
from schedule.analysis.block_kind import check_complete, require_scope
from schedule.analysis.dependency import BlockScope
from schedule.analysis.rebuild import ReplaceAxes
from schedule.analysis.region_cover import covers_reads
from schedule.analysis.surroundings import check_dependencies_show, guards
from schedule.errors import Problem, check, describe, fail
from schedule.instruction import BlockArg, LoopArg, NewBlock, primitive
from schedule.primitives.decompose_reduction import NOT_AN_ANCESTOR
from schedule.sref import StmtSRef, is_ancestor, lone_loops, loops_above
from schedule.staging.nests import Staged, Sweep
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.arith.comparing import gap_of
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, Call, FloatImm, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.ops import conjuncts, const, is_const_int, logical_and
from tensorir.nodes.stmt import Block, BlockRealize, BufferStore, Stmt, sequence
from tensorir.rewriting.visit import substitute, walk

PATTERN = Problem(
    "PaddingPatternMatchError",
    "{0} is not a padding that can be decomposed: {reason}",
    "the body must be `buffer[...] = T.if_then_else(condition, value, constant)`, with a condition "
    "that bounds axes by constants",
)
READ_EARLY = Problem(
    "PaddingReadEarlyError",
    "{0} may read {buffer} before {1} has stored the value, and would read the constant",
    "choose a loop further in, around blocks that read only what is stored before",
)


@primitive("DecomposePadding")
def decompose_padding(state: ScheduleState, block: BlockArg, loop: LoopArg) -> NewBlock:
    """Store a padding block's constant everywhere right before `loop`, then the inner values.

    Before: for i in range(n + 2): P[i] = A[i - 1] if 1 <= i < n + 1 else 0
    After:  for i in range(n + 2): P[i] = 0;  for i in range(n): P[i + 1] = A[i]

    Returns the block that stores the constant, `<name>_pad_const`; it runs under serial copies of
    the loops from `loop` down. The block itself keeps its handle and runs for the inner values
    only. Loops from `loop` down become shorter if they contain only the block and drive one of its
    axes directly; for other axes, the predicate of the block excludes the border.

    A block below `loop` that may read elements before they are stored is refused, unlike in TVM,
    unless the schedule was made with `enable_check=False`.

    Raises ScheduleError: RootBlockError, IncompleteBlockError, LoopPositionError,
    PaddingPatternMatchError, PaddingReadEarlyError, OutOfScopeError, AliasedBufferError.
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
    below = loops[loops.index(loop) :]
    analyzer = analyzer_with_ranges(loop_domain(loops))
    filling = _fill_nest(block, below, BufferStore(store.buffer, padding, store.indices), analyzer)
    values = BufferStore(store.buffer, value.args[1], store.indices)
    nest, inside, place = _inner_nest(block, below, values, box, analyzer)
    state.replace(place, nest, {block.block: inside})
    state.replace(loop, sequence([filling.nest, loop.loop]))

    # Result.
    return state.get_sref(filling.block)


def _check_nothing_reads_early(
    state: ScheduleState, block: StmtSRef, loop: StmtSRef, graph: BlockScope, buffer: Buffer
) -> None:
    """Raise if a block in the loop may read the constant before the value is stored."""
    if not state.enable_check:
        return
    order = {child: k for k, child in enumerate(graph.children)}
    for reader in graph.buffer_readers.get(buffer, ()):
        if is_ancestor(loop, reader):
            late = order[reader] > order[block] and covers_reads(state, reader, graph)
            check(late, READ_EARLY, reader, block, buffer=buffer.name)


def _fill_nest(
    block: StmtSRef, below: Sequence[StmtSRef], store: BufferStore, analyzer: Analyzer
) -> Staged:
    """Return the nest that stores the constant everywhere."""
    realize, old = block.block_realize, block.block
    values = [analyzer.simplify(value) for value in realize.iter_values]
    loops = [sref.loop for sref in below]
    sweep, axes = Sweep.like(loops, old.iter_vars, values, realize.predicate)
    writes = [substitute(region, axes) for region in old.writes]
    return sweep.around_block(substitute(store, axes), (), writes, f"{old.name_hint}_pad_const")


def _inner_nest(
    block: StmtSRef,
    below: Sequence[StmtSRef],
    store: BufferStore,
    box: Mapping[Var, tuple[int, int]],
    analyzer: Analyzer,
) -> tuple[Stmt, Block, StmtSRef]:
    """Return the block that stores the values, with its own loops around it, and their place.

    Loops that drive one axis directly become shorter. `box` has the inner values of each axis; new
    axes start at 0.
    """
    realize, old = block.block_realize, block.block
    longest = lone_loops(block)[: len(below)]
    alone = [sref.loop for sref in longest]
    driven: dict[Var, Var] = {}
    for axis, bound in zip(old.iter_vars, realize.iter_values, strict=True):
        if isinstance(bound, Var):
            driven.setdefault(bound, axis.var)
    shorter: dict[Var, PrimExpr] = {}
    moved: dict[Var, PrimExpr] = {}
    for lp in alone:
        var = lp.loop_var
        if var in driven and is_const_int(lp.min, 0) and isinstance(lp.extent, IntImm):
            low, high = box[driven[var]]
            if high <= lp.extent.value:
                shorter[var] = const(high - low, var.dtype)
                analyzer.bind(var, Range(shorter[var]), allow_override=True)
                if low:
                    moved[var] = var + low
    bindings: list[PrimExpr] = []
    axes: list[IterVar] = []
    shifted: dict[Var, PrimExpr] = {}
    predicate = substitute(realize.predicate, moved)
    for axis, bound in zip(old.iter_vars, realize.iter_values, strict=True):
        value = analyzer.simplify(substitute(bound, moved))
        low, high = box[axis.var]
        for holds in (value >= low, value < high):
            if not analyzer.can_prove(holds):
                predicate = logical_and(predicate, holds)
        bindings.append(analyzer.simplify(value - low))
        axes.append(IterVar(Range(const(high - low, axis.var.dtype)), axis.var, axis.iter_type))
        if low:
            shifted[axis.var] = axis.var + low
    new = ReplaceAxes(shifted, analyzer_keeping_units(axes))(old.with_(iter_vars=axes, body=store))
    nest: Stmt = BlockRealize(bindings, analyzer.simplify(predicate), new)
    for lp in alone:
        extent = shorter.get(lp.loop_var, substitute(lp.extent, moved))
        nest = lp.with_(min=substitute(lp.min, moved), extent=extent, body=nest)
    return nest, new, longest[-1] if longest else block


def _match_body(block: StmtSRef) -> tuple[BufferStore, Call, PrimExpr]:
    """Return the store of a padding block, its choice, and the constant it chooses outside."""
    store = block.block.body
    if not isinstance(store, BufferStore) or store.predicate is not None:
        fail(PATTERN, block, reason="its body is not a single store")
    value = store.value
    if not isinstance(value, Call) or getattr(value.op, "short_name", "") != "if_then_else":
        fail(PATTERN, block, reason="the stored value is not an if_then_else")
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
        gap = gap_of(part, analyzer.linearizer)
        terms = [] if gap is None else list(gap.terms.items())
        var, weight = terms[0] if len(terms) == 1 else (None, 0)
        if gap is None or not isinstance(var, Var) or var not in box or weight not in (1, -1):
            fail(PATTERN, block, reason=f"`{part}` does not bound one axis by a constant")
        low, high = box[var]
        box[var] = (max(low, -gap.const), high) if weight == 1 else (low, min(high, gap.const + 1))
    check(box != whole, PATTERN, block, reason="its condition always holds")
    never = any(low >= high for low, high in box.values())
    check(not never, PATTERN, block, reason="its condition never holds")
    return box
