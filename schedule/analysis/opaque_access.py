"""Accesses that do not go through indices, so that they cannot be rewritten."""

from __future__ import annotations

from typing import Final

from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from tensorir.buffer import Buffer
from tensorir.expr import BufferLoad, Call, SizeVar, Var
from tensorir.node import Node
from tensorir.stmt import Block, BufferStore
from tensorir.visit import walk

OPAQUE = Problem(
    "OpaqueAccessError",
    "{buffer} has an opaque access in {0}, through a pointer, a vector index or a match_buffer",
)


def check_no_opaque(place: StmtSRef, buffer: Buffer) -> None:
    """Raise unless a loop or block touches `buffer` by loads and stores of single elements only."""
    assert place.stmt is not None
    plain = not any(
        type(node) in _ACCESSING and is_opaque(node, buffer) for node in walk(place.stmt)
    )
    check(plain, OPAQUE, place, buffer=buffer.name)


_ACCESSING: Final = frozenset({Var, SizeVar, BufferLoad, BufferStore, Call, Block})


def is_opaque(node: Node, buffer: Buffer) -> bool:
    """Say whether a node touches `buffer` otherwise than by loading or storing an element."""
    if isinstance(node, Var):
        return node is buffer.data
    if isinstance(node, (BufferLoad, BufferStore)):
        return node.buffer is buffer and any(i.dtype.lanes > 1 for i in node.indices)
    if isinstance(node, Call):
        # The argument is an address, whatever load stands for it.
        return getattr(node.op, "short_name", "") == "address_of" and any(
            isinstance(arg, BufferLoad) and arg.buffer is buffer for arg in node.args
        )
    if isinstance(node, Block):
        return any(view.source.buffer is buffer for view in node.match_buffers)
    return False
