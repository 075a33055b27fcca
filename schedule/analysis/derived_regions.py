"""The regions that blocks declare, derived anew after their bodies have changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from schedule.sref import StmtSRef, path_up
from schedule.state import ScheduleState
from tensorir.memory.access import get_block_read_write_region
from tensorir.nodes.buffer import Buffer, BufferRegion
from tensorir.nodes.expr import BufferLoad, IterVar, Var
from tensorir.nodes.stmt import Block, BlockRealize
from tensorir.rewriting.visit import collect_vars, statements, walk


def with_derived_regions(block: Block, visible: Mapping[Var, Buffer]) -> Block:
    """Return a block that declares what its body touches of the buffers around it, by pointer."""
    own = {
        buffer.data
        for node in statements(block)
        if isinstance(node, Block)
        for buffer in (*node.alloc_buffers, *(view.buffer for view in node.match_buffers))
    }
    outside = {var: buffer for var, buffer in visible.items() if var not in own}
    reads, writes = get_block_read_write_region(block, outside)
    return block.with_(reads=reads, writes=writes)


def visible_buffers(state: ScheduleState, scope: StmtSRef) -> dict[Var, Buffer]:
    """Return the buffers that blocks of a scope may touch, by pointer."""
    visible = {b.data: b for b in state.func_of(scope).buffer_map.values()}
    for current in path_up(scope):
        if current.is_block:
            visible.update({b.data: b for b in current.block.alloc_buffers})
    for child in statements(scope.block):
        if isinstance(child, Block):
            visible.update({r.buffer.data: r.buffer for r in (*child.reads, *child.writes)})
    return visible


def init_reads(block: Block) -> Sequence[BufferRegion]:
    """Return the regions that the init of a block reads, in terms of the block's axes."""
    if block.init is None or not any(isinstance(node, BufferLoad) for node in walk(block.init)):
        return ()
    known = {r.buffer.data: r.buffer for r in (*block.reads, *block.writes)}
    return get_block_read_write_region(block.with_(body=block.init, init=None), known)[0]


def repeated_init(realize: BlockRealize, loops: Collection[Var]) -> tuple[IterVar, Var] | None:
    """Return a reduction axis and its loop if an init below the spatial ones of `loops` is wrong.

    A loop that drives spatial and reduction axes runs the init once for each step of the reduction.
    That changes the result if the init reads a buffer that it writes. None if it is right.
    """
    block = realize.block
    written = {region.buffer for region in block.writes}
    if not any(region.buffer in written for region in init_reads(block)):
        return None
    bound = list(zip(block.iter_vars, realize.iter_values, strict=True))
    spatial = {
        var
        for axis, value in bound
        if axis.iter_type == IterVar.DATA_PAR
        for var in collect_vars(value)
    }
    for axis, value in bound:
        if axis.iter_type == IterVar.COMM_REDUCE:
            for var in collect_vars(value):
                if var in spatial and var in loops:
                    return axis, var
    return None
