"""Removing the strides of buffers that have fewer strides than dimensions."""

from __future__ import annotations

from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.rewriting.visit import substitute_buffers, walk


def drop_partial_strides(func: PrimFunc) -> PrimFunc:
    """Remove the strides of allocated buffers with fewer strides than dimensions.

    The tables that `cache_index` allocates have a single stride for any rank, as in TVM; they are
    compact.
    """
    compact: dict[Buffer, Buffer] = {
        buffer: buffer.with_(strides=())
        for node in walk(func.body)
        if isinstance(node, s.Block)
        for buffer in node.alloc_buffers
        if 0 < len(buffer.strides) < len(buffer.shape)
    }
    return func.with_body(substitute_buffers(func.body, compact))
