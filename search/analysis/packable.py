"""The operands of a reduction that are worth a copy in the order in which a tile reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from schedule.sref import StmtSRef
from tensorir.arith.coefficients import coefficients
from tensorir.indices.index_map import IndexMap
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, Var
from tensorir.nodes.stmt import Block, BufferStore
from tensorir.rewriting.visit import collect_vars, walk

_READ_AGAIN: Final = 8
"""How often elements must be read for a copy, which reads and writes each once, to pay."""


@dataclass(frozen=True, slots=True)
class Packable:
    """An operand of a reduction."""

    read: int
    """Its index among the regions that the block reads."""
    axes: IndexMap | None
    """The map from the block's axes to the indices of a copy of what is read only; None where the
    copy has the indices of the operand."""
    apart: tuple[int, int] | None
    """A dimension, and by how many elements of it lanes are apart, if that is more than one."""
    nbytes: int
    """The size of the copy of all that is read."""


def packable_operands(block: StmtSRef, least_bytes: int) -> list[Packable]:
    """Return the operands of a sum of products that vectors are loaded of, and are read again.

    Vectors lie along the last index of the result. An operand that does not move along it is one
    element for all lanes, which any layout serves. One that takes fewer than `least_bytes` stays in
    the first cache as it is. All axes and shapes must be constant.
    """
    node = block.block
    store = node.body
    if node.init is None or not isinstance(store, BufferStore) or not store.indices:
        return []
    extents = _axis_extents(node)
    lane = store.indices[-1]
    if extents is None or not isinstance(lane, Var) or extents.get(lane, 1) == 1:
        return []
    loads = [part for part in walk(store.value) if isinstance(part, BufferLoad)]
    operands = {load.buffer: load for load in loads if load.buffer is not store.buffer}
    if len(operands) < 2 or len(operands) < len(loads) - 1:
        return []
    found = []
    for k, region in enumerate(node.reads):
        load = operands.get(region.buffer)
        if load is None or region.buffer.strides:
            continue
        used = set().union(*map(collect_vars, load.indices))
        again = math.prod(
            extents[axis.var]
            for axis in node.iter_vars
            if axis.var not in used and axis.iter_type == IterVar.DATA_PAR
        )
        if lane not in used or not used <= extents.keys() or again < _READ_AGAIN:
            continue
        operand = _operand(k, node, load, lane, extents)
        if operand is not None and operand.nbytes >= least_bytes:
            found.append(operand)
    return found


def _axis_extents(block: Block) -> dict[Var, int] | None:
    extents = {}
    for axis in block.iter_vars:
        if axis.dom is None or not isinstance(axis.dom.extent, IntImm):
            return None
        extents[axis.var] = axis.dom.extent.value
    return extents


def _operand(
    read: int, block: Block, load: BufferLoad, lane: Var, extents: dict[Var, int]
) -> Packable | None:
    """Return a load as an operand to pack; None where a copy is no better.

    Where each index depends on an axis of its own, the copy has what is read and nothing between
    it, with the axis of the vectors last. Where windows overlap, elements that several of them
    share are copied once, and what is gained is that lanes lie together that were apart.
    """
    used = [collect_vars(index) for index in load.indices]
    axes = [axis for of_index in used for axis in of_index]
    size = load.buffer.dtype.nbytes
    if len(set(axes)) == len(axes) == len(load.indices):
        nbytes = math.prod(extents[axis] for axis in axes) * size
        if axes[-1] is lane and load.indices[-1] is lane:
            return Packable(read, None, None, nbytes)
        order = [axis for axis in axes if axis is not lane] + [lane]
        return Packable(read, IndexMap([axis.var for axis in block.iter_vars], order), None, nbytes)
    dims = [dim for dim, of_index in enumerate(used) if lane in of_index]
    steps = [coefficients(load.indices[dim]).step(lane) for dim in dims]
    shape = [n.value for n in load.buffer.shape if isinstance(n, IntImm)]
    if len(dims) > 1 or steps[0] is None or steps[0] < 2 or len(shape) < len(load.indices):
        return None
    return Packable(read, None, (dims[0], steps[0]), math.prod(shape) * size)
