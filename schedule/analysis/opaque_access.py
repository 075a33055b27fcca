"""Accesses that do not go through indices, so that they cannot be rewritten."""

from __future__ import annotations

from schedule.analysis.accesses import accessing
from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, Var
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import AttrStmt, Block, BufferStore, Stmt

OPAQUE = Problem(
    "OpaqueAccessError",
    "{buffer} has an opaque access in {0}, through a pointer, a vector index, a match_buffer or "
    "another buffer that shares its memory",
)


def check_no_opaque(place: StmtSRef, buffer: Buffer, stmt: Stmt | None = None) -> None:
    """Raise unless a loop or block touches `buffer` by loads and stores of single elements only.

    `stmt` is what it is about to become.
    """
    assert place.stmt is not None
    plain = not any(is_opaque(node, buffer) for node in accessing(stmt or place.stmt))
    check(plain, OPAQUE, place, buffer=buffer.name)


def is_opaque(node: Node, buffer: Buffer) -> bool:
    """Say whether a node touches `buffer` otherwise than by loading or storing an element."""
    if isinstance(node, Var):
        return node is buffer.data
    if isinstance(node, (BufferLoad, BufferStore)):
        if node.buffer is buffer:
            return any(i.dtype.lanes > 1 for i in node.indices)
        return node.buffer.data is buffer.data
    if isinstance(node, Call):
        # The argument is an address, whatever load stands for it.
        return getattr(node.op, "short_name", "") == "address_of" and any(
            isinstance(arg, BufferLoad) and arg.buffer is buffer for arg in node.args
        )
    if isinstance(node, AttrStmt):
        return node.node is buffer or node.node is buffer.data
    if isinstance(node, Block):
        return any(view.source.buffer is buffer for view in node.match_buffers)
    return False
