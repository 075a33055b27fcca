"""Blocks that fill a whole buffer, found where that is plain to see: nearly every block does."""

from __future__ import annotations

from schedule.analysis.bindings import plain_digits
from schedule.analysis.surroundings import guards
from schedule.sref import StmtSRef, loops_above, scope_root
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import IntImm, Var
from tensorir.nodes.ops import is_const_int
from tensorir.nodes.stmt import Block, BufferStore


def fills_buffer(block: StmtSRef, buffer: Buffer) -> bool:
    """Say whether the loops around a block in its scope surely make it write all of a buffer.

    False means that it is not plain to see: only a single store at the block's axes is looked at,
    whose axes run through the buffer's dimensions and count through the loops.
    """
    return _stores_everything(block.block, buffer) and plainly_runs_everywhere(block)


def plainly_runs_everywhere(block: StmtSRef) -> bool:
    """Say whether the loops around a block in its scope surely give its axes all their values.

    False means that it is not plain to see: the axes must count through the loops.
    """
    realize = block.block_realize
    if not is_const_int(realize.predicate, 1):
        return False
    scope = scope_root(block)
    if scope is not None and guards(block, scope):
        return False
    loops = tuple(sref.loop for sref in loops_above(block))
    digits = plain_digits(realize.iter_values, loops)
    if digits is None:
        return False
    extents = {lp.loop_var: lp.extent for lp in loops}
    for axis, places in zip(realize.block.iter_vars, digits, strict=True):
        count = 1
        for var, _ in places:
            extent = extents[var]
            assert type(extent) is IntImm
            count *= extent.value
        if not _counts_to(axis.dom, count):
            return False
    return True


def _stores_everything(block: Block, buffer: Buffer) -> bool:
    """Say whether the instances of a block, taken together, store every element of a buffer."""
    store = block.body
    if type(store) is not BufferStore or store.buffer is not buffer or store.predicate is not None:
        return False
    domains = {axis.var: axis.dom for axis in block.iter_vars}
    for index, size in zip(store.indices, buffer.shape, strict=True):
        if type(size) is not IntImm:
            return False
        if size.value == 1 and is_const_int(index, 0):
            continue
        # Taken out of the table, so that a second index at the same axis is not accepted.
        domain = domains.pop(index, None) if type(index) is Var else None
        if not _counts_to(domain, size.value):
            return False
    return True


def _counts_to(domain: Range | None, count: int) -> bool:
    return domain is not None and is_const_int(domain.min, 0) and is_const_int(domain.extent, count)
