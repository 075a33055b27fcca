"""Accesses that do not go through indices, so that they cannot be rewritten."""

from __future__ import annotations

from typing import Final

from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from tensorir.buffer import Buffer, Range
from tensorir.expr import BufferLoad, Call, FloatImm, IntImm, SizeVar, StringImm, Var
from tensorir.node import Node
from tensorir.stmt import AttrStmt, Block, BufferStore, Stmt
from tensorir.visit import children

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
    plain = not _has_opaque(stmt or place.stmt, buffer)
    check(plain, OPAQUE, place, buffer=buffer.name)


_ACCESSING: Final = frozenset({SizeVar, BufferLoad, BufferStore, Call, Block, AttrStmt})
_CONSTANT: Final = frozenset({IntImm, FloatImm, StringImm})


def _has_opaque(root: Node, buffer: Buffer) -> bool:
    """Say whether `is_opaque` holds for any node of a program; most nodes are leaves."""
    data = buffer.data
    stack = [root]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind is Var:
            if node is data:
                return True
        elif kind is Range:
            # Most have constant ends, and there are many.
            if type(node.min) is not IntImm:  # type: ignore[attr-defined]
                stack.append(node.min)  # type: ignore[attr-defined]
            if type(node.extent) is not IntImm:  # type: ignore[attr-defined]
                stack.append(node.extent)  # type: ignore[attr-defined]
        elif kind not in _CONSTANT:
            if kind in _ACCESSING and is_opaque(node, buffer):
                return True
            stack.extend(children(node))
    return False


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
