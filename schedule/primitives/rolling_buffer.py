"""Storing only the part of a buffer in a sliding window."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from schedule.analysis.accesses import check_no_opaque
from schedule.analysis.bindings import analyzer_with_ranges, axis_domain, loop_domain
from schedule.analysis.block_kind import check_not_output, require_pipeline
from schedule.analysis.buffer_definition import checked_region
from schedule.analysis.dependency import BlockScope, DepKind
from schedule.analysis.rebuild import RedirectEverywhere
from schedule.analysis.regions import bound_region, path_domain, relax_by_intervals
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, WriteIndex, primitive
from schedule.sref import StmtSRef, loops_above, lowest_common_ancestor
from schedule.staging.old_values import reads_old_values
from schedule.state import ScheduleState
from tensorir.arith import Analyzer, IterMapLevel, detect_iter_map
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.expr import Add, CmpOp, FloorDiv, FloorMod, IntImm, IterVar, Mul, PrimExpr, Var
from tensorir.nodes.ops import TRUE, conjuncts, const, is_const_int, logical_and, logical_or
from tensorir.nodes.stmt import Block, BlockRealize, ForKind, Stmt
from tensorir.rewriting.visit import collect_vars, uses_var

DEPENDENCY = Problem(
    "RollingBufferDependencyError",
    "{buffer} cannot become a rolling buffer: {1} accesses elements that {0} has not written "
    "before",
    "the buffer must have one writer, and only later blocks may read it",
)
NO_LOOP = Problem(
    "RollingBufferInsertionError",
    "{0} and its consumers have no common loop along which a window slides",
    "move the block to its consumer with compute_at first",
)
NO_MATCH = Problem(
    "RollingBufferMatchError",
    "an iteration writes {region} of {buffer}, no dimension of which slides with overlap: {reason}",
    "a dimension must start at a serial loop variable, times a stride, and extend over more than "
    "the stride",
)


@primitive("RollingBuffer")
def rolling_buffer(state: ScheduleState, block: BlockArg, write_buffer_index: WriteIndex) -> None:
    """Store only a sliding window of a buffer, and compute only the elements that enter the window.

    Before: for i: { for k in range(3): B[i + k] = f(i + k);  C[i] = B[i] + B[i + 2] }
    After:  for i: { for k in range(3) if i < 1 or 2 <= k: B[(i + k) % 3] = f(i + k)
                     C[i] = B[i % 3] + B[(i + 2) % 3] }

    The block must share a loop with its consumers. The outermost dimension in which the written
    region slides by less than its extent shrinks to that extent, and is indexed modulo it. Further
    such dimensions, along inner loops, keep their size, but their overlap is not computed again
    either. As iterations use values of earlier ones, their order must stay: the axes that index
    these dimensions, and the axes at the positions of these dimensions in all blocks of the scope,
    become opaque.

    TVM also keeps values that another iteration would compute differently; here these are refused.

    Raises ScheduleError: BufferIndexOutOfRangeError, RootBlockError, NotStagePipelineError,
    OutputBlockError, RollingBufferDependencyError, RollingBufferInsertionError,
    RollingBufferMatchError, StaleValueError, OpaqueAccessError, AliasedBufferError,
    GuardedBlockError.
    """
    # Preconditions.
    written = {region.buffer for region in block.block.writes}
    scope, graph = require_pipeline(state, block, known=state.rolling - written)
    region = checked_region(block, "write", write_buffer_index)
    buffer = region.buffer
    check_not_output(state, block)
    consumers = _consumers(graph, block, buffer)
    check(bool(consumers), NO_LOOP, block)
    place = lowest_common_ancestor([block, *consumers])
    check(not place.is_block, NO_LOOP, block)
    check_no_opaque(scope, buffer)
    windows = _find_windows(block, place, region)
    window = windows[0]
    check_same_each_time(state, graph, block, place, buffer, window.var)

    # Rewrite.
    size = const(window.size, buffer.shape[window.dimension].dtype)
    shape = [size if k == window.dimension else n for k, n in enumerate(buffer.shape)]
    rolling = buffer.with_(shape=tuple(shape))
    rewriter = _WindowRewriter(block.block_realize, buffer, rolling, windows)
    old = scope.block
    allocated = [rolling if b is buffer else b for b in old.alloc_buffers]
    body = rewriter(old.body)
    state.replace(scope, old.with_(body=body, alloc_buffers=allocated), rewriter.reuse)
    state.rolling.add(rolling)


def _consumers(graph: BlockScope, block: StmtSRef, buffer: Buffer) -> list[StmtSRef]:
    """Return the blocks that read the block's results; raise for any other dependency."""
    for edge in (*graph.edges_to(block), *graph.out_of(block)):
        if edge.buffer is buffer:
            other = edge.src if edge.dst is block else edge.dst
            allowed = edge.kind is DepKind.RAW and edge.src is block
            check(allowed, DEPENDENCY, block, other, buffer=buffer.name)
    own = reads_old_values(block.block, buffer)
    check(not own, DEPENDENCY, block, block, buffer=buffer.name)
    return [edge.dst for edge in graph.out_of(block) if edge.buffer is buffer]


@dataclass(frozen=True, slots=True)
class _Window:
    """A dimension of a buffer that slides along a loop."""

    dimension: int
    var: Var
    axis: Var
    """The axis of the block that indexes the dimension."""
    size: int
    overlap: int
    inner: PrimExpr
    """The position in the window of the element that an instance of the block computes."""


def _find_windows(block: StmtSRef, place: StmtSRef, region: BufferRegion) -> list[_Window]:
    """Return the outermost sliding dimension, and the sliding dimensions of loops further in.

    Raises ScheduleError if there is none.
    """
    realize = block.block_realize
    loops = loops_above(block)
    analyzer = analyzer_with_ranges(loop_domain(loops))
    bound = bound_region(region, realize)
    box = relax_by_intervals(bound, path_domain(block, place), analyzer)
    written = []
    for dim in box:
        first = analyzer.simplify(dim.min_value)
        point = dim.max_value is dim.min_value
        written.append((first, first if point else analyzer.simplify(dim.max_value)))
    reason = "no dimension starts at a loop variable"
    axes = {axis.var for axis in realize.block.iter_vars}
    shared = loops[: loops.index(place) + 1]
    windows: list[_Window] = []
    for k, (low, high) in enumerate(written):
        found = _stride(low)
        if found is None:
            continue
        var, stride = found
        loop = next((sref.loop for sref in shared if sref.loop.loop_var is var), None)
        if loop is None:
            continue
        extent = analyzer.simplify(high - low + 1)
        index = region.region[k]
        if loop.kind is not ForKind.SERIAL or not is_const_int(loop.min, 0):
            reason = f"loop {var.name} is not serial from 0"
        elif not isinstance(extent, IntImm):
            reason = f"its extent along {var.name} is not constant"
        elif extent.value <= stride:
            reason = f"the windows of two iterations of {var.name} do not overlap"
        elif any(
            uses_var(bound_end, lambda v, var=var: v is var)  # type: ignore[misc]
            for other, ends in enumerate(written)
            if other != k
            for bound_end in ends
        ):
            reason = f"loop {var.name} moves other dimensions as well"
        elif not is_const_int(index.extent, 1) or index.min not in axes:
            reason = f"dimension {k} is not indexed by an axis of the block alone"
        else:
            assert isinstance(index.min, Var)
            inner = analyzer.simplify(bound[k].min - low)
            overlap = extent.value - stride
            windows.append(_Window(k, var, index.min, extent.value, overlap, inner))
    if not windows:
        text = ", ".join(f"{low} to {high}" for low, high in written)
        fail(NO_MATCH, block, buffer=region.buffer.name, region=text, reason=reason)
    # A dimension that slides along an outer loop would need elements that are overwritten.
    depth = {sref.loop.loop_var: k for k, sref in enumerate(shared)}
    outer = depth[windows[0].var]
    return [windows[0], *(w for w in windows[1:] if depth[w.var] > outer)]


def _stride(start: PrimExpr) -> tuple[Var, int] | None:
    """Return the variable that moves a window, and the maximum distance of a step.

    A window starts at a multiple of the variable, at a quotient of a multiple, or at the sum of
    both.
    """
    whole, divisor = 0, 1
    if isinstance(start, Add):
        steps = _multiple(start.a)
        if steps is None or not isinstance(start.b, FloorDiv):
            return None
        var, whole = steps
        inner = _multiple(start.b.a)
        if inner is None or inner[0] is not var:
            return None
        start = start.b
    if isinstance(start, FloorDiv) and isinstance(start.b, IntImm):
        divisor, start = start.b.value, start.a
    found = _multiple(start)
    if found is None or divisor <= 0 or whole < 0 or found[1] <= 0:
        return None
    return found[0], whole - (-found[1] // divisor)


def _multiple(value: PrimExpr) -> tuple[Var, int] | None:
    """Return the variable and the constant factor of a product, None for anything else."""
    factor = 1
    if isinstance(value, Mul) and isinstance(value.b, IntImm):
        factor, value = value.b.value, value.a
    return (value, factor) if isinstance(value, Var) else None


class _WindowRewriter(RedirectEverywhere):
    """Redirects accesses to the window, and skips elements that it already holds."""

    def __init__(
        self,
        producer: BlockRealize,
        old: Buffer,
        new: Buffer,
        windows: Sequence[_Window],
    ) -> None:
        super().__init__(old, new)
        self._producer = producer
        self._windows = windows
        self._depth = 0

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        block = self(node.block)
        predicate = node.predicate
        if node is self._producer:
            for window in self._windows:
                first = window.var < 1
                fresh = const(window.overlap, window.inner.dtype) <= window.inner
                predicate = logical_and(predicate, logical_or(first, fresh))
        if block is node.block and predicate is node.predicate:
            return node
        return BlockRealize(node.iter_values, predicate, block)

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        self._depth += 1
        result = super().rewrite_Block(node)
        self._depth -= 1
        if self._depth == 0:
            ordered = {
                result.iter_vars[w.dimension].var
                for w in self._windows
                if w.dimension < len(result.iter_vars)
            }
            if node is self._producer.block:
                ordered.update(w.axis for w in self._windows)
            result = _make_axes_opaque(result, ordered)
        if result is not node:
            self.reuse[node] = result
        return result

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> Sequence[PrimExpr]:
        """Return the indices of an element in the window."""
        k, size = self._windows[0].dimension, self._windows[0].size
        return [index % size if d == k else index for d, index in enumerate(indices)]


def _make_axes_opaque(block: Block, ordered: Collection[Var]) -> Block:
    """Return a block with some data-parallel axes made opaque."""
    axes = [
        IterVar(axis.dom, axis.var, IterVar.OPAQUE, axis.thread_tag)
        if axis.var in ordered and axis.iter_type == IterVar.DATA_PAR
        else axis
        for axis in block.iter_vars
    ]
    same = all(a is b for a, b in zip(axes, block.iter_vars, strict=True))
    return block if same else block.with_(iter_vars=axes)


# -------------------------------------------------------------------------------------- kept values


STALE = Problem(
    "StaleValueError",
    "{0} cannot reuse results of an earlier iteration: in {1}, {reason}",
    "every axis that the common loops move must index the stored element; a schedule made with "
    "enable_check=False does not check it",
)


def check_same_each_time(
    state: ScheduleState,
    graph: BlockScope,
    block: StmtSRef,
    place: StmtSRef,
    buffer: Buffer,
    var: Var,
) -> None:
    """Raise unless every iteration computes the same value for an element of a buffer.

    `graph` has the dependencies of the scope of the block.
    The iterations are those of the loops from the loop of `var` down to `place`. They may only
    select elements, both computed and read elements.
    """
    if not state.enable_check:
        return
    loops = [*loops_above(place), place]
    outermost = next(k for k, sref in enumerate(loops) if sref.loop.loop_var is var)
    moving = {sref.loop.loop_var for sref in loops[outermost:]}
    pending, seen = [(block, buffer)], {(block, buffer)}
    while pending:
        current, stored = pending.pop()
        reason = _influence(current, stored, moving)
        if reason is not None:
            fail(STALE, block, current, reason=reason)
        for edge in graph.edges_to(current):
            source = (edge.src, edge.buffer)
            inside = edge.kind is DepKind.RAW and loops[outermost] in loops_above(edge.src)
            if inside and source not in seen:
                seen.add(source)
                pending.append(source)
    _check_predicate(block, moving)


def _influence(block: StmtSRef, buffer: Buffer, moving: Collection[Var]) -> str | None:
    """Return how loops influence the value that a block stores to an element.

    None if they do not.
    """
    node = block.block
    if reads_old_values(node, buffer):
        return f"the value stored in {buffer.name} depends on the previous one"
    fixed = _axes_of_elements(node, buffer)
    for axis, value in zip(node.iter_vars, block.block_realize.iter_values, strict=True):
        if axis.var not in fixed and uses_var(value, moving.__contains__):
            decides = f"axis {axis.var.name} = `{value}` decides what"
            return f"{decides} is stored in {buffer.name}, but not where"
    return None


def _axes_of_elements(block: Block, buffer: Buffer) -> set[Var]:
    """Return the axes whose values follow from the written element of a buffer."""
    indices = [d.min for r in block.writes if r.buffer is buffer for d in r.region]
    # A buffer that rolls already holds one of the elements that share a place.
    plain = {i.a if isinstance(i, FloorMod) else i for i in indices}
    domains = axis_domain(block.iter_vars)
    used = {var: domains[var] for i in indices for var in collect_vars(i) if var in domains}
    if detect_iter_map(indices, used, TRUE, IterMapLevel.BIJECTIVE).indices:
        return set(used)
    return {var for var in used if var in plain}


def _check_predicate(block: StmtSRef, moving: Collection[Var]) -> None:
    """Raise unless the block skips the same elements in each iteration."""
    realize = block.block_realize
    entangled = set(moving)
    for value in realize.iter_values:
        used = collect_vars(value)
        if any(var in moving for var in used):
            entangled.update(used)
    analyzer = Analyzer()
    for condition in conjuncts(realize.predicate):
        by_element = not uses_var(condition, entangled.__contains__) or _bounds_one_of(
            condition, realize.iter_values, analyzer
        )
        reason = f"the condition `{condition}` is not the same for an element in each iteration"
        check(by_element, STALE, block, block, reason=reason)


def _bounds_one_of(condition: PrimExpr, values: Sequence[PrimExpr], analyzer: Analyzer) -> bool:
    """Return True if a condition compares a multiple of one axis with a constant."""
    if not isinstance(condition, CmpOp) or not condition.a.dtype.is_int:
        return False
    gap = analyzer.linear(condition.a).plus(analyzer.linear(condition.b), -1)
    for value in values:
        terms = analyzer.linear(value).terms
        if gap.terms.keys() == terms.keys():
            ratios = {(gap.terms[term] / terms[term]) for term in terms}
            if len(ratios) == 1:
                return True
    return False
