"""Copying a buffer into the index space of a block that uses it."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.accesses import is_opaque
from schedule.analysis.bindings import axis_domain
from schedule.analysis.block_kind import require_pipeline
from schedule.analysis.buffer_definition import accessed_buffer
from schedule.analysis.layout_map import check_injective
from schedule.analysis.redirect import RedirectToPoint
from schedule.analysis.staging_copy import Staged, Sweep, add_stages, stage_buffer
from schedule.analysis.staging_safety import (
    UNSAFE,
    check_inside,
    check_place_is_fixed,
    check_sequential,
    relies_on_old_values,
    stores_surely,
    values_taken,
)
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, BufferArg, NewBlock, primitive
from schedule.sref import StmtSRef
from schedule.state import ScheduleState
from schedule.stmt_cursor import lone_nest
from tensorir.arith import Analyzer
from tensorir.comparison.equal import expr_deep_equal
from tensorir.errors import IRValueError
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, IterVar, PrimExpr
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import BufferStore
from tensorir.rewriting.visit import collect_vars, substitute, walk

NOT_LEAF = Problem("NotLeafBlockError", "{0} is not a leaf block: it has blocks in it")
BAD_ACCESS = Problem(
    "InvalidBufferAccessError",
    "{0} does not load or store exactly one element of {buffer} in each instance: {reason}",
)
NOT_A_CHAIN = Problem(
    "NotSingleChildChainError",
    "{0} is not alone in its loops, down from the scope {1}",
    "the copy stands beside the whole loop nest, which may hold nothing but the block",
)


@primitive("ReIndex")
def reindex(state: ScheduleState, block: BlockArg, buffer: BufferArg) -> NewBlock:
    """Copy a buffer to one that is indexed by the axes of a block, and let the block use that.

    Before: for i, j: C[i] = f(A[i + j])                    # reindex(C, ("read", 0))
    After:  for i, j: A_reindex[i, j] = A[i + j];  for i, j: C[i] = f(A_reindex[i, j])

    The new buffer has a dimension for each axis that the block's indices use, in the order of the
    axes. A buffer that is read is copied before the block's loops, one that is written after them.

    What is written is copied back for the values that the loops give the axes. If the block may
    leave out some of it, or relies on what the buffer held before, the copy is filled first.

    TVM does not check that the copy touches only what the block itself does; what cannot be shown
    to be harmless is refused here, unless the schedule was made with `enable_check=False`.

    Raises ScheduleError: BufferIndexOutOfRangeError, NotStagePipelineError, NotLeafBlockError,
    InvalidBufferAccessError, NotSingleChildChainError, UnsafeStageError.
    """
    # Preconditions.
    old = accessed_buffer(block, *buffer)
    reading = buffer[0] == "read"
    scope, _ = require_pipeline(state, block, stays=True)
    check(not state.child_blocks(block), NOT_LEAF, block)
    indices = _common_indices(block, old)
    nest = lone_nest(block, scope)
    if nest is None:
        fail(NOT_A_CHAIN, block, scope)
    node = block.block
    analyzer = Analyzer()
    for axis, values in axis_domain(node.iter_vars).items():
        # An axis of one value keeps its dimension.
        if not is_const_int(values.extent, 1):
            analyzer.bind(axis, values)
    indices = [analyzer.simplify(index) for index in indices]
    used = {v for index in indices for v in collect_vars(index)}
    axes = [axis for axis in node.iter_vars if axis.var in used]
    domains = [axis.dom for axis in axes if axis.dom is not None]
    runs, filled_first = domains, False
    if state.enable_check:
        _check_copy(state, block, old, indices, axes, reading=reading)
        if not reading:
            taken = values_taken(block, [axis.var for axis in axes])
            whole = taken is not None and stores_surely(node.init or node.body, old)
            if not whole:
                check_sequential(block, old, scope)
            filled_first = relies_on_old_values(block, old) or not whole
            runs = taken or domains

    # Rewrite.
    shape = [analyzer.simplify(dom.min + dom.extent) for dom in domains]
    new = stage_buffer(old, f"{old.name}_reindex", old.scope(), shape)
    redirect = RedirectToPoint(old, new, {node}, [axis.var for axis in axes])
    before, after = [], []
    if reading or filled_first:
        before.append(_copied(old, new, indices, axes, runs, back=False))
    if not reading:
        after.append(_copied(old, new, indices, axes, runs, back=True))
    add_stages(state, scope, nest, before, after, [new], redirect)

    # Result.
    (copy,) = after or before
    return state.get_sref(copy.block)


def _common_indices(block: StmtSRef, buffer: Buffer) -> Sequence[PrimExpr]:
    """Return the indices at which a block accesses a buffer, which must be the same everywhere."""
    found: Sequence[PrimExpr] | None = None
    for node in walk(block.block):
        opaque = is_opaque(node, buffer)
        check(not opaque, BAD_ACCESS, block, buffer=buffer.name, reason="an access is opaque")
        if isinstance(node, (BufferLoad, BufferStore)) and node.buffer is buffer:
            same = found is None or all(
                expr_deep_equal(a, b) for a, b in zip(found, node.indices, strict=True)
            )
            check(same, BAD_ACCESS, block, buffer=buffer.name, reason="the indices differ")
            found = node.indices
    if found is None:
        fail(BAD_ACCESS, block, buffer=buffer.name, reason="there is no access")
    axes = {axis.var for axis in block.block.iter_vars}
    own = all(v in axes for index in found for v in collect_vars(index))
    check(own, BAD_ACCESS, block, buffer=buffer.name, reason="the indices use more than its axes")
    return found


def _copied(
    old: Buffer,
    new: Buffer,
    indices: Sequence[PrimExpr],
    axes: Sequence[IterVar],
    runs: Sequence[Range],
    *,
    back: bool,
) -> Staged:
    """Return a nest that copies between the buffers for some values of the axes."""
    sweep = Sweep.over(runs, [axis.dom for axis in axes if axis.dom is not None])
    fresh = {axis.var: var for axis, var in zip(axes, sweep.places, strict=True)}
    there = (old, [substitute(index, fresh) for index in indices])
    here = (new, sweep.places)
    source, target = (here, there) if back else (there, here)
    return sweep.copying(source, target, f"{target[0].name}_reindex")


def _check_copy(
    state: ScheduleState,
    block: StmtSRef,
    buffer: Buffer,
    indices: Sequence[PrimExpr],
    axes: Sequence[IterVar],
    *,
    reading: bool,
) -> None:
    """Raise if copying for all values of the axes may show."""
    node = block.block
    domains = axis_domain(node.iter_vars)
    analyzer = Analyzer()
    for axis, values in domains.items():
        analyzer.bind(axis, values)
    touched = [Range.point(index) for index in indices]
    check_place_is_fixed(state, block, buffer, touched)
    check_inside(state, block, buffer, touched, analyzer)
    if reading:
        writes = any(region.buffer is buffer for region in node.writes)
        check(not writes, UNSAFE, block, buffer=buffer.name, reason="it writes the buffer as well")
        return
    used = [axis.var for axis in axes]
    try:
        check_injective(IndexMap(used, indices), [domains[axis] for axis in used])
    except IRValueError as error:
        fail(UNSAFE, block, buffer=buffer.name, reason=error)
