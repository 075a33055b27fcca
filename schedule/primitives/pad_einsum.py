"""Rounding the extents of an Einstein summation up, with zeros in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from schedule.analysis.block_kind import require_pipeline
from schedule.analysis.loop_dtype import dtype_holding
from schedule.analysis.redirect import RedirectBuffers
from schedule.analysis.staging_copy import Staged, Sweep, add_stages, stage_buffer
from schedule.analysis.staging_safety import relies_on_old_values, runs_everywhere
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, primitive
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from schedule.stmt_cursor import lone_nest
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer, BufferRegion, Range
from tensorir.expr import (
    Add,
    BufferLoad,
    Call,
    Cast,
    FloatImm,
    IntImm,
    IterVar,
    Max,
    Min,
    Mul,
    PrimExpr,
    Select,
    Sub,
    Var,
)
from tensorir.ops import (
    add,
    all_of,
    cast,
    const,
    floordiv,
    floormod,
    if_then_else,
    is_const_int,
    logical_not,
    max_value,
    min_value,
)
from tensorir.stmt import Block, BufferStore, For, Stmt
from tensorir.visit import uses_var, walk

BAD_PADDING = Problem(
    "InvalidPaddingError",
    "the padding {padding} does not fit {0}, which has {count} axes",
    "give one positive number for each axis: its extent becomes a multiple of that",
)
NO_EINSUM = Problem(
    "NonEinsumError",
    "{0} is no Einstein summation that can be padded: {reason}",
    "every index must be an axis or a constant, and zeros in the inputs must add nothing",
)
NOT_ALONE = Problem(
    "NotOnlyChildError",
    "{0} is not alone in its loop nest, the iterations added would run {1} as well",
    "pad before other blocks are computed in the nest",
)


@primitive("PadEinsum")
def pad_einsum(state: ScheduleState, block: BlockArg, padding: Sequence[int]) -> None:
    """Round the extents of a block's axes up to multiples, working on buffers padded with zeros.

    Before: for i, k: C[i] += A[i, k] * B[k]                                 # padding [4, 8]
    After:  A_pad = A, else 0;  B_pad = B, else 0
            for i, k (more of them): C_pad[i] += A_pad[i, k] * B_pad[k];  C = C_pad

    Only buffers that an enlarged axis indexes are replaced. The blocks `<buffer>_pad` that fill or
    write back stand right before and after the block's loops.

    A block that relies on what its output held before, or computes only a part of it, finds that in
    the padded buffer. TVM leaves that out, and so does a schedule made with `enable_check=False`.
    TVM also pads reductions to which zeros are not neutral (a maximum, a sum of exponentials), and
    loops that run other blocks as well; these are refused.

    Raises ScheduleError: RootBlockError, NotStagePipelineError, InvalidPaddingError,
    NonEinsumError, NotOnlyChildError, UnsafeStageError.
    """
    # Preconditions.
    scope, _ = require_pipeline(state, block, stays=True)
    axes = block.block.iter_vars
    fits = len(padding) == len(axes) and all(p > 0 for p in padding)
    check(fits, BAD_PADDING, block, padding=list(padding), count=len(axes))
    extents = _extents(block)
    padded = _padded(extents, padding)
    accesses = _accesses(block)
    _check_added_steps(block, extents, padded)
    if not padded:
        return
    for loop in loops_above(block)[:1]:
        for other in state.child_blocks(loop):
            check(other is block, NOT_ALONE, block, other)
    nest = lone_nest(block, scope)
    if nest is None:
        fail(NO_EINSUM, block, reason="there is a condition or a binding in its loop nest")
    loads = any(isinstance(node, BufferLoad) for node in walk(block.block_realize.predicate))
    check(not loads, NO_EINSUM, block, reason="its predicate reads memory")
    loops = _driving_loops(block, extents, padded)
    written = {region.buffer for region in block.block.writes}
    stages: dict[Buffer, _Stage] = {}
    for buffer, indices in accesses.items():
        if any(index in padded for index in indices):
            stages[buffer] = _Stage(buffer, indices, extents, padded)
    inputs = [buffer for buffer in stages if buffer not in written]
    outputs = [buffer for buffer in stages if buffer in written]
    needed = list(inputs)
    for buffer in outputs:
        stored_at = [index for index in accesses[buffer] if isinstance(index, Var)]
        relies = state.enable_check and relies_on_old_values(block, buffer)
        complete = not relies and runs_everywhere(block, stored_at)
        if state.enable_check and not complete:
            needed.append(buffer)

    # Rewrite.
    buffers = {buffer: stages[buffer].padded for buffer in (*inputs, *outputs)}
    add_stages(
        state,
        scope,
        nest,
        [stages[buffer].filled() for buffer in needed],
        [stages[buffer].written_back() for buffer in outputs],
        list(buffers.values()),
        _Enlarge(block.block, buffers, padded, loops),
    )


def _extents(block: StmtSRef) -> dict[Var, PrimExpr]:
    """Return the extents of a block's axes, which must start at 0."""
    extents: dict[Var, PrimExpr] = {}
    for axis in block.block.iter_vars:
        starts = axis.dom is not None and is_const_int(axis.dom.min, 0)
        check(starts, NO_EINSUM, block, reason=f"axis {axis.var.name} does not start at 0")
        assert axis.dom is not None
        extents[axis.var] = axis.dom.extent
    return extents


def _padded(extents: Mapping[Var, PrimExpr], padding: Sequence[int]) -> dict[Var, PrimExpr]:
    """Return the new extents of the axes that become longer."""
    analyzer = Analyzer()
    padded: dict[Var, PrimExpr] = {}
    for (axis, extent), unit in zip(extents.items(), padding, strict=True):
        if not analyzer.can_prove_equal(floormod(extent, unit), 0):
            extent = extent.astype(dtype_holding(None, extent.dtype))
            padded[axis] = analyzer.simplify(floordiv(extent + (unit - 1), unit) * unit)
    return padded


def _accesses(block: StmtSRef) -> dict[Buffer, tuple[PrimExpr, ...]]:
    """Return how the block indexes each buffer, reads first; raise unless it is an einsum."""
    node = block.block
    plain = isinstance(node.body, BufferStore) and node.body.predicate is None
    check(plain, NO_EINSUM, block, reason="its body is not a single store")
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
                _same_index(a, b) for a, b in zip(expected, indices, strict=True)
            )
            check(same, NO_EINSUM, block, reason=f"it indexes {buffer.name} in several ways")
    for buffer, indices in found.items():
        for index in indices:
            simple = isinstance(index, IntImm) or index in axes
            if not simple:
                reason = f"the index `{index}` of {buffer.name} is no axis"
                fail(NO_EINSUM, block, reason=reason)
        used = [index for index in indices if isinstance(index, Var)]
        once = len(used) == len(set(used))
        check(once, NO_EINSUM, block, reason=f"an axis occurs twice in {buffer.name}")
    return found


def _same_index(a: PrimExpr, b: PrimExpr) -> bool:
    return a is b or (isinstance(a, IntImm) and isinstance(b, IntImm) and a.value == b.value)


def _check_added_steps(
    block: StmtSRef, extents: Mapping[Var, PrimExpr], padded: Mapping[Var, PrimExpr]
) -> None:
    """Raise unless the steps that are added leave what is computed without them as it is.

    Those of a reduction must combine it with the neutral element, the others store elsewhere.
    """
    store = block.block.body
    assert isinstance(store, BufferStore)
    for axis in block.block.iter_vars:
        if axis.var not in padded:
            continue
        if axis.iter_type == IterVar.DATA_PAR:
            reason = f"axis {axis.var.name} does not index what it stores"
            check(axis.var in store.indices, NO_EINSUM, block, reason=reason)
            continue
        reason = f"`{store.value}` changes where what axis {axis.var.name} indexes is 0"
        outside = _Outside(axis.var, extents[axis.var])
        check(outside.leaves_as_is(store), NO_EINSUM, block, reason=reason)


class _Outside:
    """What expressions are where an axis is beyond its extent, and what it indexes is 0."""

    def __init__(self, axis: Var, extent: PrimExpr) -> None:
        self._axis = axis
        self._beyond = axis >= extent

    def leaves_as_is(self, store: BufferStore) -> bool:
        """Say whether a step of a reduction keeps what is stored."""
        step = store.value
        if type(step) not in _NEUTRAL:
            return False
        kept, other = step.a, step.b  # type: ignore[attr-defined]
        if type(step) is not Sub and not _is_accumulator(kept, store):
            kept, other = other, kept
        neutral = _NEUTRAL[type(step)](step.dtype)
        return _is_accumulator(kept, store) and _is_constant(self.value(other), neutral)

    def value(self, expr: PrimExpr) -> PrimExpr | None:
        """Return the constant that an expression is there, None if it may be anything."""
        zero = const(0, expr.dtype)
        if isinstance(expr, (IntImm, FloatImm)):
            return expr
        if isinstance(expr, BufferLoad):
            return zero if self._axis in expr.indices else None
        if isinstance(expr, Cast):
            inner = self.value(expr.value)
            return None if inner is None else cast(expr.dtype, inner)
        if isinstance(expr, Select):
            return self._chosen(expr.condition, expr.true_value, expr.false_value)
        if isinstance(expr, Call) and getattr(expr.op, "short_name", "") == "if_then_else":
            return self._chosen(*expr.args)
        if isinstance(expr, (Add, Sub, Mul)):
            a, b = self.value(expr.a), self.value(expr.b)
            zeros = _is_constant(a, zero), _is_constant(b, zero)
            if any(zeros) if isinstance(expr, Mul) else all(zeros):
                return zero
        return None

    def _chosen(
        self, condition: PrimExpr, true_value: PrimExpr, false_value: PrimExpr
    ) -> PrimExpr | None:
        analyzer = Analyzer()
        with analyzer.constraint_scope(self._beyond):
            if analyzer.can_prove(condition):
                return self.value(true_value)
            if analyzer.can_prove(logical_not(condition)):
                return self.value(false_value)
        a, b = self.value(true_value), self.value(false_value)
        return a if b is not None and _is_constant(a, b) else None


_NEUTRAL: Final[dict[type[PrimExpr], Callable[[str], PrimExpr]]] = {
    Add: lambda dtype: const(0, dtype),
    Sub: lambda dtype: const(0, dtype),
    Mul: lambda dtype: const(1, dtype),
    Max: min_value,
    Min: max_value,
}
"""What leaves the other operand as it is."""


def _is_accumulator(value: PrimExpr, store: BufferStore) -> bool:
    return isinstance(value, BufferLoad) and value.buffer is store.buffer


def _is_constant(value: PrimExpr | None, expected: PrimExpr) -> bool:
    numbers = isinstance(value, (IntImm, FloatImm)) and isinstance(expected, (IntImm, FloatImm))
    return numbers and value.value == expected.value  # type: ignore[union-attr, attr-defined]


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
            reason = f"axis {axis.var.name} is bound to `{value}`, no loop over all of its domain"
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
    return longer


class _Enlarge(RedirectBuffers):
    """Lets a block use padded buffers, and run over more steps."""

    def __init__(
        self,
        block: Block,
        buffers: Mapping[Buffer, Buffer],
        axes: Mapping[Var, PrimExpr],
        loops: Mapping[Var, PrimExpr],
    ) -> None:
        super().__init__(buffers, {block})
        self._axes = axes
        self._loops = loops

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        """Rewrite a loop; those that drive the axes become longer."""
        new: For = super().rewrite_For(node)  # type: ignore[assignment]
        extent = self._loops.get(node.loop_var)
        return new if extent is None else new.with_(extent=extent)

    def rewrite_IterVar(self, node: IterVar) -> IterVar:  # noqa: N802
        """Rewrite an axis; those that are padded become longer."""
        extent = self._axes.get(node.var)
        if extent is None:
            return super().rewrite_IterVar(node)
        return IterVar(Range(extent), node.var, node.iter_type, node.thread_tag)


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension of a padded buffer: the part that is copied, and the size with padding."""

    copied: Range
    size: PrimExpr
    enlarged: bool


class _Stage:
    """A padded buffer, and the nests that fill it and write it back."""

    def __init__(
        self,
        buffer: Buffer,
        indices: Sequence[PrimExpr],
        extents: Mapping[Var, PrimExpr],
        padded: Mapping[Var, PrimExpr],
    ) -> None:
        self._buffer = buffer
        self._dims: list[_Dim] = []
        for index, extent in zip(indices, buffer.shape, strict=True):
            if isinstance(index, Var):
                size = padded[index].astype(extent.dtype) if index in padded else extent
                used = Range(extents[index].astype(extent.dtype))
                self._dims.append(_Dim(used, size, index in padded))
            else:
                self._dims.append(_Dim(Range.point(index), extent, False))
        shape = [dim.size for dim in self._dims]
        self.padded = stage_buffer(buffer, f"{buffer.name}_pad", buffer.scope(), shape)

    def filled(self) -> Staged:
        """Return a nest that copies the buffer to the padded one, and zeros elsewhere."""
        sweep = Sweep.over([Range(dim.size) for dim in self._dims], loop="i")
        inside = all_of(
            [
                axis < dim.copied.extent
                for axis, dim in zip(sweep.places, self._dims, strict=True)
                if dim.enlarged
            ]
        )
        element = BufferLoad(self._buffer, sweep.places)
        value = if_then_else(inside, element, const(0, self._buffer.dtype))
        reads = [BufferRegion.from_point(self._buffer, sweep.places)]
        return sweep.storing(self.padded, sweep.places, value, self.padded.name, reads)

    def written_back(self) -> Staged:
        """Return a nest that copies what the block computes to the buffer."""
        domains = [
            dim.copied if is_const_int(dim.copied.min, 0) else Range(extent)
            for dim, extent in zip(self._dims, self._buffer.shape, strict=True)
        ]
        sweep = Sweep.over([dim.copied for dim in self._dims], domains, loop="i")
        pairs = zip(sweep.loops, self._dims, strict=True)
        sweep = replace(sweep, bindings=[add(var, dim.copied.min) for (var, _), dim in pairs])
        here, there = (self.padded, sweep.places), (self._buffer, sweep.places)
        return sweep.copying(here, there, self.padded.name)
