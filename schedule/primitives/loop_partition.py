"""Cutting the range of a loop into pieces that run one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from schedule.analysis.bindings import analyzer_with_ranges, axis_domain, loop_domain, loop_range
from schedule.analysis.empty_reductions import EMPTY, lacks_steps
from schedule.analysis.loops import check_plain
from schedule.analysis.reduction_steps import Instances, loops_around
from schedule.analysis.regions import is_point
from schedule.errors import Problem, check, fail
from schedule.instruction import FactorsArg, LoopArg, NewLoops, primitive
from schedule.primitives.decompose_reduction import without_init
from schedule.primitives.split import NOT_POSITIVE, SEVERAL_INFERRED
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.memory.access import get_block_access_region
from tensorir.nodes.buffer import BufferRegion, Range
from tensorir.nodes.expr import NE, IntImm, IterVar, Var
from tensorir.nodes.ops import TRUE, compare, const
from tensorir.nodes.stmt import Block, BlockRealize, For, ForKind, Stmt, sequence
from tensorir.rewriting.fresh_copy import FreshCopy
from tensorir.rewriting.visit import uses_var

SYMBOLIC = Problem(
    "SymbolicShapeError",
    "{0} has dynamic shape: it runs from {start} for {extent} iterations, which are not constant",
    "split it by a factor first and partition the inner loop",
)
WRONG_SUM = Problem(
    "WrongFactorError",
    "the sum of factors, {total}, is not smaller than the extent {extent} of {0}",
    "the factors are the lengths of the pieces; keep some iterations for the last piece",
)
NO_BLOCK = Problem(
    "NoBlockError", "there is no block below {0}", "put the statements of the loop into a block"
)


@primitive("LoopPartition")
def loop_partition(
    state: ScheduleState, loop: LoopArg, factors: FactorsArg, preserve_unit_iters: bool = True
) -> NewLoops:
    """Cut the range of a loop into pieces of the given lengths, each with its own loop.

    Before: for i in range(n): S(i)
    After:  for i0 in range(0, f0): S0(i0);  for i1 in range(f0, n): S1(i1)

    One factor may be None: that piece gets the remaining iterations. Without None, one more piece
    gets them. Each piece is a copy of the body, with blocks named `<block>_<loop><k>`, inside an
    opaque block; an opaque block around all of them replaces the loop. The axis bound to the
    loop gets the piece's range as its domain. Handles of the old blocks and loops expire.
    `preserve_unit_iters` is recorded for compatibility and ignored.

    If the loop drives a reduction, pieces that cannot contain its first step omit the init: they
    continue from the accumulated result. (In TVM each piece initialises again.) If the loop
    contains a single block, its declared regions become the regions that its axes reach in the
    piece.

    Raises ScheduleError: SymbolicShapeError, NotSingleInferFactorError, NonPositiveFactorError,
    WrongFactorError, HasAnnotationOrThreadBindingError, NoBlockError, EmptyReductionError.
    """
    # Preconditions.
    old = loop.loop
    if not isinstance(old.min, IntImm) or not isinstance(old.extent, IntImm):
        fail(SYMBOLIC, loop, start=old.min, extent=old.extent)
    start, extent = old.min.value, old.extent.value
    inferred = [k for k, f in enumerate(factors) if f is None]
    check(len(inferred) <= 1, SEVERAL_INFERRED, loop, count=len(inferred))
    for position, factor in enumerate(factors):
        if factor is not None:
            check(factor > 0, NOT_POSITIVE, loop, position=position, value=factor)
    total = sum(f for f in factors if f is not None)
    check(total < extent, WRONG_SUM, loop, total=total, extent=extent)
    check_plain(loop)
    blocks = state.child_blocks(loop)
    check(bool(blocks), NO_BLOCK, loop)

    # Rewrite.
    lengths = [extent - total if f is None else f for f in factors]
    if not inferred:
        lengths.append(extent - total)
    name, dtype = old.loop_var.name, old.loop_var.dtype
    base = f"{blocks[0].block.name_hint}_{name}"
    around = loop_domain(loops_above(loop))
    outer = loops_around(loop)
    made: list[For] = []
    pieces: list[Stmt] = []
    for k, length in enumerate(lengths):
        var = Var(f"{name}{k}", dtype)
        values = Range.from_min_extent(const(start, dtype), const(length, dtype))
        analyzer = analyzer_with_ranges({**around, old.loop_var: values})
        piece = old.with_(min=values.min, extent=values.extent)
        copy = _Piece(loop, [*outer, piece], var, k, analyzer, widen=len(blocks) == 1)
        made.append(For(var, values.min, values.extent, ForKind.SERIAL, copy(old.body)))
        pieces.append(_opaque(f"{base}{k}_partition", made[-1]))
        start += length
    state.replace(loop, _opaque(f"{base}_common", sequence(pieces)))

    # Result.
    return [state.get_sref(piece) for piece in made]


def _opaque(name: str, body: Stmt) -> Stmt:
    return BlockRealize((), TRUE, Block((), (), (), name, body))


class _Piece(FreshCopy):
    """Copies the body of a loop for one piece of its range."""

    def __init__(
        self,
        whole: StmtSRef,
        loops: Sequence[For],
        new: Var,
        number: int,
        analyzer: Analyzer,
        *,
        widen: bool,
    ) -> None:
        """Bind the loops around, and the piece instead of the `whole` loop, in the analyzer."""
        piece = loops[-1]
        super().__init__({piece.loop_var: new})
        self._whole = whole
        self._old_var = piece.loop_var
        self._loop_var = new
        self._range = loop_range(piece)
        self._suffix = f"_{piece.loop_var.name}{number}"
        self._is_first = number == 0
        self._widen = widen
        self._driven: set[Var] = set()
        self._analyzer = analyzer
        self._loops = list(loops)
        self._instances = Instances()

    def block_name(self, block: Block) -> str:
        return block.name_hint + self._suffix

    def rewrite_IterVar(self, node: IterVar) -> IterVar:  # noqa: N802
        new = self.generic(node)
        if node.var not in self._driven:
            return new
        values = self._range
        dtype = new.var.dtype
        dom = Range.from_min_extent(values.min.astype(dtype), values.extent.astype(dtype))
        return IterVar(dom, new.var, new.iter_type, new.thread_tag)

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        self._loops.append(node)
        with self._analyzer.loop_scope(node.loop_var, node.min, node.extent):
            new: Stmt = self.generic(node)
        self._loops.pop()
        return new

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        values = self.each(node.iter_values)
        for axis, value in zip(node.block.iter_vars, values, strict=True):
            if value is self._loop_var:
                self._driven.add(axis.var)
        block, outer = node.block, self._instances
        self._instances = outer.inside(node)
        if block.init is not None and not self._may_initialise(self._instances):
            block = without_init(block)
        new = BlockRealize(values, self(node.predicate), self(block))
        self._instances = outer
        return new

    def _may_initialise(self, instances: Instances) -> bool:
        """Return True if the init of a reduction belongs to this piece.

        The init runs in the first step, or alone without steps. A loop that drives
        data-parallel axes divides the instances, and each piece runs whole instances. Otherwise the
        first piece initialises, also elements without a step, and a later piece must not initialise
        again.
        """
        spatial, reduce = instances.moved_by()
        if self._is_first or self._old_var in spatial or self._old_var not in reduce:
            return True
        past = any(
            axis.iter_type == IterVar.COMM_REDUCE
            and axis.dom is not None
            and uses_var(value, self._old_var)
            and self._analyzer.can_prove(compare(NE, value, axis.dom.min))
            for axis, value in zip(instances.axes, instances.values, strict=True)
        )
        if not past:
            reason = lacks_steps(instances, self._loops)
            check(reason is None, EMPTY, self._whole, reason=reason, lost="run in each piece")
        return not past

    def rewrite_Block(self, node: Block) -> Block:  # noqa: N802
        inside = self._widen
        self._widen = inside and not node.iter_vars
        new = super().rewrite_Block(node)
        self._widen = inside
        if not inside or not new.iter_vars:
            return new
        loops = {lp.loop_var for lp in self._loops}
        # Regions that depend on a loop cannot be declared by the block inside.
        fixed = [
            b
            for a, b in zip(node.iter_vars, new.iter_vars, strict=True)
            if a.dom is not None and not uses_var(a.dom, loops.__contains__)
        ]
        return _widen_regions(new, axis_domain(fixed))


def _widen_regions(block: Block, domains: Mapping[Var, Range]) -> Block:
    """Return a block that declares the regions which its axes reach in the buffers they index."""
    declared = {r.buffer.data: r.buffer for r in (*block.reads, *block.writes)}
    reads, writes, opaque = get_block_access_region(block, declared)
    kept = {region.buffer for region in opaque}

    def widened(
        regions: Sequence[BufferRegion], found: Sequence[BufferRegion]
    ) -> Iterator[BufferRegion]:
        touched = {region.buffer: region for region in found if region.buffer not in kept}
        for region in regions:
            dims = touched.get(region.buffer, region).region
            axes = [dim.min for dim in dims if is_point(dim)]
            ranges = [domains[axis] for axis in axes if type(axis) is Var and axis in domains]
            yield BufferRegion(region.buffer, ranges) if len(ranges) == len(dims) else region

    return block.with_(
        reads=list(widened(block.reads, reads)), writes=list(widened(block.writes, writes))
    )
