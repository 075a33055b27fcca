"""Rounding the extents of an Einstein summation up, with zeros in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedule.analysis.block_kind import require_scope
from schedule.analysis.loop_nest import nest_of_loops
from schedule.analysis.rebuild import RedirectBuffers
from schedule.analysis.staging_safety import check_runs_everywhere, check_starts_anew
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, primitive
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.buffer import Buffer, BufferRegion, Range, decl_buffer
from tensorir.expr import (
    Add,
    BufferLoad,
    Cast,
    FloatImm,
    IntImm,
    IterVar,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from tensorir.ops import TRUE, const, if_then_else, is_const_int, logical_and
from tensorir.stmt import Block, BlockRealize, BufferStore, For, SeqStmt, Stmt, sequence
from tensorir.visit import Rewriter, walk

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

    TVM also pads reductions to which zeros are not neutral (a maximum, a sum of exponentials),
    loops that run other blocks as well, and blocks that compute only a part of what is written
    back; these are refused.

    Raises ScheduleError: RootBlockError, NotStagePipelineError, InvalidPaddingError,
    NonEinsumError, NotOnlyChildError, UnsafeStageError.
    """
    # Preconditions.
    scope = require_scope(state, block, pipeline=True)
    axes = block.block.iter_vars
    fits = len(padding) == len(axes) and all(p > 0 for p in padding)
    check(fits, BAD_PADDING, block, padding=list(padding), count=len(axes))
    extents = _extents(block)
    padded = {
        axis.var: -(-extent // unit) * unit
        for axis, extent, unit in zip(axes, extents.values(), padding, strict=True)
        if extent % unit
    }
    accesses = _accesses(block)
    _check_added_steps(block, padded)
    if not padded:
        return
    nest = _Nest(state, block, padded)
    written = {region.buffer for region in block.block.writes}
    inputs: list[Buffer] = []
    outputs: list[Buffer] = []
    for buffer, indices in accesses.items():
        if any(index in padded for index in indices):
            (outputs if buffer in written else inputs).append(buffer)
    for buffer in outputs:
        check_starts_anew(state, block, buffer)
        written_by = [index for index in accesses[buffer] if isinstance(index, Var)]
        check_runs_everywhere(state, block, written_by, buffer)

    # Rewrite.
    stages = {b: _Stage(b, accesses[b], extents, padded) for b in (*inputs, *outputs)}
    redirect = RedirectBuffers({b: stage.padded for b, stage in stages.items()}, None)
    new_block = redirect(block.block)
    new_block = new_block.with_(
        iter_vars=[
            IterVar(Range(const(padded[a.var], a.var.dtype)), a.var, a.iter_type, a.thread_tag)
            if a.var in padded
            else a
            for a in axes
        ]
    )
    realize = block.block_realize
    body = nest.around(BlockRealize(realize.iter_values, realize.predicate, new_block))
    outer = scope.block
    parts = list(outer.body.seq) if isinstance(outer.body, SeqStmt) else [outer.body]
    position = parts.index(nest.stmt)
    parts[position : position + 1] = [
        *(stages[b].fill() for b in inputs),
        body,
        *(stages[b].write_back() for b in outputs),
    ]
    allocated = (*outer.alloc_buffers, *(stage.padded for stage in stages.values()))
    state.replace(
        scope,
        outer.with_(body=sequence(parts), alloc_buffers=allocated),
        {**redirect.reuse, block.block: new_block},
    )


def _extents(block: StmtSRef) -> dict[Var, int]:
    """Return the extents of a block's axes, which must be constant and start at 0."""
    extents: dict[Var, int] = {}
    for axis in block.block.iter_vars:
        dom = axis.dom
        if dom is None or not isinstance(dom.min, IntImm) or not isinstance(dom.extent, IntImm):
            fail(NO_EINSUM, block, reason=f"the domain of axis {axis.var.name} is not constant")
        starts = dom.min.value == 0
        check(starts, NO_EINSUM, block, reason=f"axis {axis.var.name} does not start at 0")
        extents[axis.var] = dom.extent.value
    return extents


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


def _check_added_steps(block: StmtSRef, padded: Mapping[Var, int]) -> None:
    """Raise unless the steps that are added leave what is computed without them as it is.

    Those of a reduction must add zeros, the others must store elsewhere.
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
        value = store.value
        neutral = False
        if isinstance(value, (Add, Sub)):
            kept, added = value.a, value.b
            if isinstance(value, Add) and not _is_accumulator(kept, store):
                kept, added = added, kept
            neutral = _is_accumulator(kept, store) and _is_zero(added, axis.var)
        if not neutral:
            reason = f"`{value}` changes where what axis {axis.var.name} indexes is 0"
            fail(NO_EINSUM, block, reason=reason)


def _is_accumulator(value: PrimExpr, store: BufferStore) -> bool:
    return isinstance(value, BufferLoad) and value.buffer is store.buffer


def _is_zero(value: PrimExpr, axis: Var) -> bool:
    """Say whether an expression is 0 where every element that `axis` indexes is."""
    if isinstance(value, BufferLoad):
        return axis in value.indices
    if isinstance(value, (IntImm, FloatImm)):
        return value.value == 0
    if isinstance(value, Cast):
        return _is_zero(value.value, axis)
    if isinstance(value, Mul):
        return _is_zero(value.a, axis) or _is_zero(value.b, axis)
    if isinstance(value, (Add, Sub)):
        return _is_zero(value.a, axis) and _is_zero(value.b, axis)
    return False


class _Nest:
    """The statement of the scope that a block is in, which is to run over larger extents."""

    def __init__(self, state: ScheduleState, block: StmtSRef, padded: Mapping[Var, int]) -> None:
        self._realize = block.block_realize
        loops = loops_above(block)
        outermost = loops[0] if loops else block
        for loop in loops[:1]:
            for other in state.child_blocks(loop):
                check(other is block, NOT_ALONE, block, other)
        stmt = outermost.block_realize if outermost.is_block else outermost.stmt
        assert stmt is not None
        self.stmt: Stmt = stmt
        self._extents: dict[Var, int] = {}
        by_var = {sref.loop.loop_var: sref.loop for sref in loops}
        for axis, value in zip(
            self._realize.block.iter_vars, self._realize.iter_values, strict=True
        ):
            if axis.var not in padded:
                continue
            driver = by_var.get(value) if isinstance(value, Var) else None
            assert axis.dom is not None
            drives = (
                driver is not None
                and is_const_int(driver.min, 0)
                and _same_range(Range(driver.extent), axis.dom)
            )
            if not drives:
                bound = f"axis {axis.var.name} is bound to `{value}`"
                reason = f"{bound}, no loop over all of its domain"
                fail(NO_EINSUM, block, reason=reason)
            assert isinstance(value, Var)
            once = value not in self._extents
            reason = f"loop {value.name} drives several axes"
            check(once, NO_EINSUM, block, reason=reason)
            self._extents[value] = padded[axis.var]

    def around(self, realize: BlockRealize) -> Stmt:
        """Return the statement with longer loops around another block."""
        new: Stmt = _Enlarge(self._extents, self._realize, realize)(self.stmt)
        return new


def _same_range(a: Range, b: Range) -> bool:
    return all(
        isinstance(x, IntImm) and isinstance(y, IntImm) and x.value == y.value
        for x, y in ((a.min, b.min), (a.extent, b.extent))
    )


class _Enlarge(Rewriter):
    def __init__(self, extents: Mapping[Var, int], old: BlockRealize, new: BlockRealize) -> None:
        self._extents = extents
        self._old = old
        self._new = new

    def rewrite_For(self, node: For) -> Stmt:  # noqa: N802
        extent = self._extents.get(node.loop_var)
        body = self(node.body)
        if extent is None:
            return node.with_(body=body)
        return node.with_(extent=const(extent, node.loop_var.dtype), body=body)

    def rewrite_BlockRealize(self, node: BlockRealize) -> Stmt:  # noqa: N802
        return self._new if node is self._old else node


@dataclass(frozen=True, slots=True)
class _Dim:
    """One dimension of a padded buffer: the part that is copied, and the size with padding."""

    first: int
    used: int
    size: PrimExpr
    enlarged: bool


class _Stage:
    """A padded buffer, and the blocks that fill it and write it back."""

    def __init__(
        self,
        buffer: Buffer,
        indices: Sequence[PrimExpr],
        extents: Mapping[Var, int],
        padded: Mapping[Var, int],
    ) -> None:
        self._buffer = buffer
        self._dims: list[_Dim] = []
        for index, extent in zip(indices, buffer.shape, strict=True):
            if isinstance(index, IntImm):
                self._dims.append(_Dim(index.value, 1, extent, False))
                continue
            assert isinstance(index, Var)
            used = extents[index]
            size = const(padded[index], extent.dtype) if index in padded else extent
            self._dims.append(_Dim(0, used, size, index in padded))
        shape = [dim.size for dim in self._dims]
        self.padded = decl_buffer(shape, buffer.dtype, f"{buffer.name}_pad", scope=buffer.scope())

    def fill(self) -> Stmt:
        """Return loops that copy the buffer to the padded one, and zeros elsewhere."""
        axes = self._axes()
        inside: PrimExpr = TRUE
        for axis, dim in zip(axes, self._dims, strict=True):
            if dim.enlarged:
                inside = logical_and(inside, axis < dim.used)
        zero = const(0, self._buffer.dtype)
        value = if_then_else(inside, BufferLoad(self._buffer, axes), zero)
        return self._nest(axes, self._buffer, self.padded, value, [d.size for d in self._dims])

    def write_back(self) -> Stmt:
        """Return loops that copy what the block computes to the buffer."""
        axes = self._axes()
        value = BufferLoad(self.padded, axes)
        counts = [const(dim.used, axis.dtype) for dim, axis in zip(self._dims, axes, strict=True)]
        return self._nest(axes, self.padded, self._buffer, value, counts)

    def _axes(self) -> list[Var]:
        return [Var(f"v{k}", dim.size.dtype) for k, dim in enumerate(self._dims)]

    def _nest(
        self,
        axes: Sequence[Var],
        source: Buffer,
        target: Buffer,
        value: PrimExpr,
        counts: Sequence[PrimExpr],
    ) -> Stmt:
        loops = [
            (Var(f"i{k}", axis.dtype), n)
            for k, (axis, n) in enumerate(zip(axes, counts, strict=True))
        ]
        writing_back = target is self._buffer
        bindings: list[PrimExpr] = []
        domains: list[Range] = []
        for (loop_var, count), dim, extent in zip(
            loops, self._dims, self._buffer.shape, strict=True
        ):
            offset = dim.first if writing_back else 0
            bindings.append(loop_var + offset if offset else loop_var)
            domains.append(Range(extent) if offset else Range(count))
        block = Block(
            [IterVar(dom, axis, IterVar.DATA_PAR) for dom, axis in zip(domains, axes, strict=True)],
            [BufferRegion.from_point(source, axes)],
            [BufferRegion.from_point(target, axes)],
            self.padded.name,
            BufferStore(target, value, axes),
        )
        return nest_of_loops(loops, BlockRealize(bindings, TRUE, block))
