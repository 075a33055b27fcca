"""Rounding the extents of an Einstein summation up, with zeros in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedule.analysis.accesses import check_no_effect
from schedule.analysis.bindings import axis_domain
from schedule.analysis.block_kind import check_fixed_domains, require_pipeline
from schedule.analysis.buffer_definition import stage_buffer
from schedule.analysis.loops import dtype_holding
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, primitive
from schedule.primitives.padded_nest import Enlarge, PaddedNest, touching_blocks
from schedule.primitives.padded_steps import AddedSteps, keep_identity, keep_neutral
from schedule.sref import StmtSRef, loops_above
from schedule.staging.nests import Staged, Sweep
from schedule.staging.old_values import values_taken
from schedule.staging.plan import StagingPlan, add_stages
from schedule.state import ScheduleState
from schedule.stmt_cursor import StmtCursor
from tensorir.arith import Analyzer
from tensorir.comparison.equal import expr_deep_equal
from tensorir.indices.accesses import only_stores
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.ops import add, all_of, const, floordiv, floormod, if_then_else, is_const_int
from tensorir.nodes.stmt import Block, BufferStore, SeqStmt
from tensorir.reducers import bound_values
from tensorir.rewriting.visit import uses_var, walk

BAD_PADDING = Problem(
    "InvalidPaddingError",
    "the padding is {padding}, but {0} has {count} axes",
    "give one positive number for each axis; the extent of the axis becomes a multiple of it",
)
NO_EINSUM = Problem(
    "NonEinsumError",
    "{0} is not an Einstein summation that can be padded: {reason}",
    "every index must be an axis or a constant, and zeros in the inputs must add nothing",
)


@primitive("PadEinsum")
def pad_einsum(state: ScheduleState, block: BlockArg, padding: Sequence[int]) -> None:
    """Round the extents of a block's axes up to multiples, working on buffers padded with zeros.

    Before: for i, k: C[i] += A[i, k] * B[k]                                 # padding [4, 8]
    After:  A_pad = A, else 0;  B_pad = B, else 0
            for i, k (more of them): C_pad[i] += A_pad[i, k] * B_pad[k];  C = C_pad

    Only buffers that an enlarged axis indexes are replaced. The blocks `<buffer>_pad` that fill or
    write back are inserted right before and after the block's loops. Other blocks in these loops do
    not run in the added iterations. They use the padded buffers through which they and the block
    exchange values.

    The steps that are added to a reduction combine it with its neutral element. If zeros in the
    padding do not ensure that for all other values (including infinities), the padding holds the
    neutral element itself, as for `max(C[i], A[i, k])`. If that is impossible, too, the combined
    value gets a condition: `C[i] + if_then_else(k < n, A_pad[i, k] * B[i], 0)`; the values of a
    tuple always get a condition. As with every other order of its steps, a maximum or minimum may
    come out differently where it meets a NaN.

    If a block relies on earlier contents of its output, or computes only a part of it, the padded
    buffer is filled with these contents first. TVM omits that, and so does a schedule made with
    `enable_check=False`.

    Raises ScheduleError: RootBlockError, NotStagePipelineError, AliasedBufferError,
    BareAccessError, InvalidPaddingError, NonEinsumError, NotOnlyChildError, UnsafeStageError,
    DependentLoopError, OpaqueCallError, and for tuples RFactorNotApplicableError,
    NoMatchedReducerError.
    """
    # Preconditions.
    scope, _ = require_pipeline(state, block, stays=True)
    axes = block.block.iter_vars
    fits = len(padding) == len(axes) and all(p > 0 for p in padding)
    check(fits, BAD_PADDING, block, padding=list(padding), count=len(axes))
    check_fixed_domains(block, {axis.var for axis in axes})
    extents = _extents(block)
    padded = _padded_extents(extents, padding)
    accesses = _accesses(block)
    steps = _added_steps(block, extents, padded)
    if not padded:
        return
    if state.enable_check:
        check_no_effect(block)
    loads = any(isinstance(node, BufferLoad) for node in walk(block.block_realize.predicate))
    check(not loads, NO_EINSUM, block, reason="its predicate reads memory")
    loops = _driving_loops(block, extents, padded)
    nest = PaddedNest(state, scope, block, loops)
    written = {region.buffer for region in block.block.writes}
    domains, cursor = axis_domain(axes), StmtCursor.below(scope).around(block)
    before: list[Staged] = []
    after: list[Staged] = []
    unused: list[Buffer] = []
    shared: list[Buffer] = []
    copies: dict[Buffer, Buffer] = {}
    for buffer in sorted(accesses, key=lambda b: b in written):
        stored_at = [index for index in accesses[buffer] if isinstance(index, Var)]
        if not any(axis in padded for axis in stored_at):
            continue
        pad = steps.fills.get(buffer, const(0, buffer.dtype))
        copy = _Padded(buffer, accesses[buffer], extents, padded, pad)
        copies[buffer] = copy.padded
        stored, allocated = buffer in written, buffer in scope.block.alloc_buffers
        exchanged = nest.exchanges(buffer, stored, copy.is_whole)
        if exchanged:
            shared.append(buffer)
        fills = not stored or bool(touching_blocks(nest.others, buffer, write=True))
        if stored:
            plan = StagingPlan(state, scope, scope, cursor, block, buffer, [block])
            whole = values_taken(block, stored_at) == [domains[axis] for axis in stored_at]
            fills = plan.must_be_filled(whole and plan.surely_runs(block)) or fills
        if fills:
            supplied = touching_blocks(nest.outside, buffer, write=True) or not allocated
            before.append(copy.fill_nest() if supplied or not exchanged else copy.clear_nest())
        if exchanged and allocated and not touching_blocks(nest.outside, buffer):
            unused.append(buffer)
        elif exchanged or stored:
            after.append(copy.written_back())

    # Rewrite.
    enlarge = Enlarge(block.block, steps.store, nest, padded, copies, shared)
    add_stages(state, scope, cursor, before, after, list(copies.values()), enlarge, unused)


def _extents(block: StmtSRef) -> dict[Var, PrimExpr]:
    """Return the extents of a block's axes, which must start at 0."""
    extents: dict[Var, PrimExpr] = {}
    for axis in block.block.iter_vars:
        starts = axis.dom is not None and is_const_int(axis.dom.min, 0)
        check(starts, NO_EINSUM, block, reason=f"axis {axis.var.name} does not start at 0")
        assert axis.dom is not None
        extents[axis.var] = axis.dom.extent
    return extents


def _padded_extents(extents: Mapping[Var, PrimExpr], padding: Sequence[int]) -> dict[Var, PrimExpr]:
    """Return the new extents of the axes that become longer."""
    analyzer = Analyzer()
    padded: dict[Var, PrimExpr] = {}
    for (axis, extent), unit in zip(extents.items(), padding, strict=True):
        if not analyzer.can_prove_equal(floormod(extent, unit), 0):
            extent = extent.astype(dtype_holding(None, extent.dtype))
            padded[axis] = analyzer.simplify(floordiv(extent + (unit - 1), unit) * unit)
    return padded


def _accesses(block: StmtSRef) -> dict[Buffer, tuple[PrimExpr, ...]]:
    """Return the indices of each buffer in the block, reads first; raise unless it is an einsum."""
    node = block.block
    stores = _stores(node)
    plain = bool(stores) and all(store.predicate is None for store in stores)
    check(plain, NO_EINSUM, block, reason="its body is not a single store or the stores of a tuple")
    check(not node.match_buffers, NO_EINSUM, block, reason="it has a match_buffer")
    axes = {axis.var for axis in node.iter_vars}
    found: dict[Buffer, tuple[PrimExpr, ...]] = {}
    for region in (*node.reads, *node.writes):
        single = all(isinstance(d.extent, IntImm) and d.extent.value == 1 for d in region.region)
        reason = f"it declares to touch more than one element of {region.buffer.name}"
        check(single, NO_EINSUM, block, reason=reason)
        found.setdefault(region.buffer, tuple(dim.min for dim in region.region))
    for part in (node.body, node.init):
        for access in walk(part) if part is not None else ():
            if not isinstance(access, (BufferLoad, BufferStore)):
                continue
            buffer, indices = access.buffer, access.indices
            expected = found.setdefault(buffer, indices)
            same = len(expected) == len(indices) and all(
                a is b or expr_deep_equal(a, b) for a, b in zip(expected, indices, strict=True)
            )
            check(same, NO_EINSUM, block, reason=f"it indexes {buffer.name} in several ways")
    for buffer, indices in found.items():
        for index in indices:
            simple = isinstance(index, IntImm) or index in axes
            if not simple:
                reason = f"the index `{index}` of {buffer.name} is not an axis"
                fail(NO_EINSUM, block, reason=reason)
        used = [index for index in indices if isinstance(index, Var)]
        once = len(used) == len(set(used))
        check(once, NO_EINSUM, block, reason=f"an axis occurs twice in {buffer.name}")
    return found


def _stores(node: Block) -> tuple[BufferStore, ...]:
    """Return the store of a block, or the stores of a tuple whose values lets bind; else none."""
    lets, body = bound_values(node.body)
    return only_stores(body) if bool(lets) == isinstance(body, SeqStmt) else ()


def _added_steps(
    block: StmtSRef, extents: Mapping[Var, PrimExpr], padded: Mapping[Var, PrimExpr]
) -> AddedSteps:
    """Return an update that keeps the result unchanged in the added steps.

    Added steps of a reduction combine it with the neutral element; other added instances store to
    padding.
    """
    store, *others = _stores(block.block)
    reducing: list[Var] = []
    for axis in block.block.iter_vars:
        if axis.var not in padded:
            continue
        if axis.iter_type != IterVar.DATA_PAR:
            reducing.append(axis.var)
            continue
        reason = f"axis {axis.var.name} does not index the stored element"
        check(axis.var in store.indices, NO_EINSUM, block, reason=reason)
    if not reducing:
        return AddedSteps(block.block.body)
    if others:
        return keep_identity(block, extents, reducing)
    steps = keep_neutral(block, extents, reducing)
    if steps is None:
        reason = (
            f"`{store.value}` is not a sum, product, maximum or minimum of the stored element and "
            f"a term for which added steps of axis {reducing[0].name} are neutral"
        )
        fail(NO_EINSUM, block, reason=reason)
    return steps


def _driving_loops(
    block: StmtSRef, extents: Mapping[Var, PrimExpr], padded: Mapping[Var, PrimExpr]
) -> dict[Var, PrimExpr]:
    """Return the new extents of the loops that drive the axes to be padded."""
    loops = {sref.loop.loop_var: sref.loop for sref in loops_above(block)}
    analyzer = Analyzer()
    longer: dict[Var, PrimExpr] = {}
    realize = block.block_realize
    for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if axis.var not in padded:
            continue
        loop = loops.get(value) if isinstance(value, Var) else None
        drives = (
            loop is not None
            and is_const_int(loop.min, 0)
            and analyzer.can_prove_equal(loop.extent, extents[axis.var])
        )
        if not drives:
            reason = f"axis {axis.var.name} is bound to `{value}`, not to a loop over its domain"
            fail(NO_EINSUM, block, reason=reason)
        assert isinstance(value, Var)
        reason = f"loop {value.name} drives several axes"
        driven = sum(uses_var(other, value) for other in realize.iter_values)
        check(driven == 1, NO_EINSUM, block, reason=reason)
        extent = padded[axis.var]
        largest = extent.value if isinstance(extent, IntImm) else None
        counts = dtype_holding(largest, value.dtype) is value.dtype
        reason = f"loop {value.name} counts in {value.dtype}, which does not hold {extent}"
        check(counts, NO_EINSUM, block, reason=reason)
        longer[value] = extent
    for loop in loops.values():
        for part in (loop.min, loop.extent):
            reason = f"loop {loop.loop_var.name} runs for {part}, which depends on an enlarged loop"
            check(not uses_var(part, longer.__contains__), NO_EINSUM, block, reason=reason)
    return longer


class _Padded:
    """A padded buffer, and the nests that fill it and write it back."""

    def __init__(
        self,
        buffer: Buffer,
        indices: Sequence[PrimExpr],
        extents: Mapping[Var, PrimExpr],
        longer: Mapping[Var, PrimExpr],
        pad: PrimExpr,
    ) -> None:
        self._buffer = buffer
        self._pad = pad
        self._copied: list[Range] = []
        """The part of each dimension that is copied."""
        self._enlarged = [index in longer for index in indices]
        sizes: list[PrimExpr] = []
        for index, size in zip(indices, buffer.shape, strict=True):
            if isinstance(index, Var):
                self._copied.append(Range(extents[index].astype(size.dtype)))
                sizes.append(longer.get(index, size).astype(size.dtype))
            else:
                self._copied.append(Range.point(index))
                sizes.append(size)
        padded = stage_buffer(buffer, f"{buffer.name}_pad", buffer.scope(), sizes)
        self.padded = padded.with_(axis_separators=buffer.axis_separators)

    def is_whole(self) -> bool:
        """Return whether the padded buffer has a place for every element of the buffer."""
        equal = Analyzer().can_prove_equal
        pairs = zip(self._copied, self._buffer.shape, strict=True)
        return all(equal(copied.extent, size) for copied, size in pairs)

    def clear_nest(self) -> Staged:
        """Return a nest that stores the padding everywhere."""
        sweep = Sweep.over([Range(size) for size in self.padded.shape], loop="i")
        return sweep.storing_nest(self.padded, sweep.places, self._pad, self.padded.name)

    def fill_nest(self) -> Staged:
        """Return a nest that copies the buffer to the padded one, and the padding elsewhere."""
        sweep = Sweep.over([Range(size) for size in self.padded.shape], loop="i")
        dims = zip(sweep.places, self._copied, self._enlarged, strict=True)
        inside = all_of([axis < copied.extent for axis, copied, enlarged in dims if enlarged])
        value = if_then_else(inside, BufferLoad(self._buffer, sweep.places), self._pad)
        reads = [BufferRegion.from_point(self._buffer, sweep.places)]
        return sweep.storing_nest(self.padded, sweep.places, value, self.padded.name, reads)

    def written_back(self) -> Staged:
        """Return a nest that copies the block's results to the buffer."""
        domains = [
            copied if is_const_int(copied.min, 0) else Range(size)
            for copied, size in zip(self._copied, self._buffer.shape, strict=True)
        ]
        sweep = Sweep.over(self._copied, domains, loop="i")
        pairs = zip(sweep.loops, self._copied, strict=True)
        sweep = replace(sweep, bindings=[add(var, copied.min) for (var, _), copied in pairs])
        here, there = (self.padded, sweep.places), (self._buffer, sweep.places)
        return sweep.copying_nest(here, there, self.padded.name)
