"""Formulas whose elements depend only on the input elements at the same indices."""

from __future__ import annotations

from collections.abc import Sequence

from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr
from tensorir.rewriting.visit import walk
from tensorir.te.tensor import ComputeOp, PlaceholderOp, Tensor


def maps_elements(outputs: Sequence[Tensor]) -> bool:
    """Return True if each element depends only on the inputs' elements at the same indices.

    An input may broadcast: it may lack leading dimensions, and index 0 reads a dimension of extent
    1.
    """
    return all(map(_maps, outputs))


def _maps(tensor: Tensor) -> bool:
    op = tensor.op
    if isinstance(op, PlaceholderOp):
        return True
    if not isinstance(op, ComputeOp) or op.reduces:
        return False
    axes = [axis.var for axis in op.axis]
    loads = [node for part in op.body for node in walk(part) if isinstance(node, BufferLoad)]
    if not all(isinstance(load.buffer, Tensor) and _is_own_place(load, axes) for load in loads):
        return False
    # An axis used other than as an index makes an element depend on its position.
    indices = sum(index is axis for load in loads for index in load.indices for axis in axes)
    uses = sum(node is axis for part in op.body for node in walk(part) for axis in axes)
    return indices == uses and all(map(_maps, op.inputs))


def _is_own_place(load: BufferLoad, axes: Sequence[PrimExpr]) -> bool:
    own = axes[len(axes) - len(load.indices) :]
    if len(load.indices) > len(axes):
        return False
    return all(
        index is axis or (isinstance(index, IntImm) and index.value == 0)
        for index, axis in zip(load.indices, own, strict=True)
    )
