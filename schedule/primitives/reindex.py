"""Copying a buffer into the index space of a block that uses it."""

from __future__ import annotations

from collections.abc import Sequence

from schedule.analysis.block_kind import require_scope
from schedule.analysis.buffer_definition import accessed_buffer
from schedule.analysis.layout_map import check_injective
from schedule.analysis.loop_nest import nest_of_loops
from schedule.analysis.opaque_access import is_opaque
from schedule.analysis.redirect_point import RedirectPoint
from schedule.analysis.staging_safety import (
    UNSAFE,
    axis_ranges,
    check_fills_before_reading,
    check_inside,
    check_runs_everywhere,
)
from schedule.errors import Problem, check, fail
from schedule.instruction import BlockArg, BufferArg, NewBlock, primitive
from schedule.sref import StmtSRef, loops_above
from schedule.state import ScheduleState
from tensorir.arith import Analyzer
from tensorir.buffer import Buffer, BufferRegion, Range
from tensorir.dtype import INT64
from tensorir.equal import expr_deep_equal
from tensorir.errors import IRValueError
from tensorir.expr import BufferLoad, IterVar, PrimExpr, Var
from tensorir.index_map import IndexMap
from tensorir.ops import TRUE, add, const, is_const_int
from tensorir.stmt import Block, BlockRealize, BufferStore, SeqStmt, Stmt, sequence
from tensorir.visit import collect_vars, substitute, walk

NOT_LEAF = Problem("NotLeafBlockError", "{0} is not a leaf block: it has blocks in it")
BAD_ACCESS = Problem(
    "InvalidBufferAccessError",
    "{0} does not access {buffer} by loads or stores at one place an instance: {reason}",
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

    TVM does not ask whether the copy may touch what the block itself does not; what cannot be shown
    to be harmless is refused here, unless the schedule was made with `enable_check=False`.

    Raises ScheduleError: BufferIndexOutOfRangeError, NotStagePipelineError, NotLeafBlockError,
    InvalidBufferAccessError, NotSingleChildChainError, UnsafeStageError.
    """
    # Preconditions.
    old = accessed_buffer(block, *buffer)
    reading = buffer[0] == "read"
    scope = require_scope(state, block, pipeline=True)
    check(not state.child_blocks(block), NOT_LEAF, block)
    indices = _common_indices(block, old)
    top = _top_of_chain(block, scope)
    node = block.block
    analyzer = Analyzer()
    for axis, values in axis_ranges(node).items():
        # An axis of one value keeps its dimension.
        if not is_const_int(values.extent, 1):
            analyzer.bind(axis, values)
    indices = [analyzer.simplify(index) for index in indices]
    used = {v for index in indices for v in collect_vars(index)}
    axes = [axis for axis in node.iter_vars if axis.var in used]
    _check_copy(state, block, old, indices, [axis.var for axis in axes], reading=reading)

    # Rewrite.
    new = _reindexed_buffer(old, axes, analyzer)
    nest, copy = _copy_nest(old, new, axes, indices, reading=reading)
    redirect = RedirectPoint(node, old, new, [axis.var for axis in axes])
    outer = scope.block
    parts = list(outer.body.seq) if isinstance(outer.body, SeqStmt) else [outer.body]
    position = parts.index(top)
    parts[position] = redirect(top)
    parts.insert(position if reading else position + 1, nest)
    allocated = (*outer.alloc_buffers, new)
    changed = outer.with_(body=sequence(parts), alloc_buffers=allocated)
    state.replace(scope, changed, redirect.reuse)

    # Result.
    return state.get_sref(copy)


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


def _top_of_chain(block: StmtSRef, scope: StmtSRef) -> Stmt:
    """Return the outermost loop of a block that is alone in its loops."""
    top: Stmt = block.block_realize
    for loop in reversed(loops_above(block)):
        check(loop.loop.body is top, NOT_A_CHAIN, block, scope)
        top = loop.loop
    body = scope.block.body
    parts = body.seq if isinstance(body, SeqStmt) else (body,)
    check(top in parts, NOT_A_CHAIN, block, scope)
    return top


def _check_copy(
    state: ScheduleState,
    block: StmtSRef,
    buffer: Buffer,
    indices: Sequence[PrimExpr],
    axes: Sequence[Var],
    *,
    reading: bool,
) -> None:
    """Raise if copying for all values of the axes may show."""
    if not state.enable_check:
        return
    node = block.block
    domains = axis_ranges(node)
    analyzer = Analyzer()
    for axis, values in domains.items():
        analyzer.bind(axis, values)
    check_inside(state, block, buffer, [Range.point(index) for index in indices], analyzer)
    if reading:
        writes = any(region.buffer is buffer for region in node.writes)
        check(not writes, UNSAFE, block, buffer=buffer.name, reason="it writes the buffer as well")
        return
    check_fills_before_reading(state, block, buffer)
    check_runs_everywhere(state, block, axes, buffer)
    try:
        check_injective(IndexMap(axes, indices), [domains[axis] for axis in axes])
    except IRValueError as error:
        fail(UNSAFE, block, buffer=buffer.name, reason=error)


def _reindexed_buffer(old: Buffer, axes: Sequence[IterVar], analyzer: Analyzer) -> Buffer:
    name = f"{old.name}_reindex"
    shape = [
        analyzer.simplify(axis.dom.min + axis.dom.extent) for axis in axes if axis.dom is not None
    ]
    return old.with_(
        name=name,
        data=Var(name, old.data.type_annotation or old.data.dtype),
        shape=shape,
        strides=(),
        elem_offset=const(0, shape[0].dtype if shape else INT64),
        axis_separators=(),
        buffer_type="",
    )


def _copy_nest(
    old: Buffer,
    new: Buffer,
    axes: Sequence[IterVar],
    indices: Sequence[PrimExpr],
    *,
    reading: bool,
) -> tuple[Stmt, Block]:
    """Return loops that copy between the buffers for all values of the axes, and their block."""
    fresh: dict[Var, Var] = {}
    copied: list[IterVar] = []
    loops: list[tuple[Var, PrimExpr]] = []
    bindings: list[PrimExpr] = []
    for k, axis in enumerate(axes):
        assert axis.dom is not None
        var, loop_var = Var(f"v{k}", axis.var.dtype), Var(f"ax{k}", axis.var.dtype)
        fresh[axis.var] = var
        copied.append(IterVar(axis.dom, var, IterVar.DATA_PAR))
        loops.append((loop_var, axis.dom.extent))
        bindings.append(add(axis.dom.min, loop_var))
    there = [substitute(index, fresh) for index in indices]
    here: list[PrimExpr] = list(fresh.values())
    source, target = ((old, there), (new, here)) if reading else ((new, here), (old, there))
    block = Block(
        copied,
        [BufferRegion.from_point(*source)],
        [BufferRegion.from_point(*target)],
        f"{target[0].name}_reindex",
        BufferStore(target[0], BufferLoad(*source), target[1]),
    )
    return nest_of_loops(loops, BlockRealize(bindings, TRUE, block)), block
