"""Which parameters of a function are values: numbers to compute with, not sizes."""

from __future__ import annotations

from collections.abc import Iterator

from tensorir import stmt as s
from tensorir.buffer import Buffer
from tensorir.expr import PrimExpr, Var
from tensorir.function import PrimFunc
from tensorir.visit import pre_order_visit, walk


def value_parameters(func: PrimFunc) -> frozenset[Var]:
    """Return the integer parameters that occur in no shape, stride or offset of a buffer.

    Arithmetic on them wraps around, while that on sizes is index arithmetic.
    """
    scalars = {p for p in func.params if p.dtype.is_integral and p.dtype.lanes == 1}
    if not scalars:
        return frozenset()
    for expr in _layout(func):
        scalars.difference_update(part for part in walk(expr) if isinstance(part, Var))
    return frozenset(scalars)


def _layout(func: PrimFunc) -> Iterator[PrimExpr]:
    """Yield the expressions that say how the buffers of a function lie in memory."""
    buffers: list[Buffer] = list(func.buffer_map.values())
    found: list[PrimExpr] = []

    def visit(node: object) -> bool:
        if isinstance(node, s.Block):
            buffers.extend(node.alloc_buffers)
            buffers.extend(match.buffer for match in node.match_buffers)
        elif isinstance(node, s.DeclBuffer):
            buffers.append(node.buffer)
        elif isinstance(node, s.Allocate):
            found.extend(node.extents)
        return not isinstance(node, PrimExpr)

    pre_order_visit(func.body, visit)
    yield from found
    for buffer in buffers:
        yield from (*buffer.shape, *buffer.strides, buffer.elem_offset)
