"""What a scope does and defines outside of its blocks, by loops, conditions and bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from schedule.analysis.stmt_cursor import StmtCursor
from schedule.errors import Problem, check
from schedule.sref import StmtSRef
from tensorir.buffer import Buffer
from tensorir.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.node import Node
from tensorir.stmt import (
    Allocate,
    AllocateConst,
    BlockRealize,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    Stmt,
)
from tensorir.visit import children, walk

BARE = Problem(
    "UnsafeStageError",
    "{0} cannot use a copy of {buffer}: the scope {1} also touches {buffer} outside of its blocks",
)
HIDDEN = Problem(
    "InsertionPointNotFoundError",
    "{0} cannot use a copy: {name}, which the copy needs, is not defined where it goes",
)


def check_touched_in_blocks(
    scope: StmtSRef, block: StmtSRef, buffer: Buffer, *, stores_only: bool = False
) -> None:
    """Raise if statements, conditions, bindings or bounds outside of all blocks touch a buffer."""
    kinds = BufferStore if stores_only else (BufferLoad, BufferStore)
    for stmt, parts in _statements(scope.block.body):
        pending: list[Node] = [stmt] if type(stmt) is BufferStore else []
        for part in parts:
            if type(part) is not IntImm and type(part) is not Var and isinstance(part, PrimExpr):
                pending.extend(walk(part))
        for node in pending:
            touches = isinstance(node, kinds) and node.buffer is buffer
            check(not touches, BARE, block, scope, buffer=buffer.name)


def check_visible(scope: StmtSRef, block: StmtSRef, cursor: StmtCursor, nest: Stmt) -> None:
    """Raise if a copy needs what statements of the scope define, but not around its place."""
    around = {wrapper for wrapper, _ in cursor.wrappers()}
    hidden = {
        name
        for stmt, _ in _statements(scope.block.body)
        if type(stmt) in _DEFINED and stmt not in around
        for name in _DEFINED[type(stmt)](stmt)
    }
    if not hidden:
        return
    for node in walk(nest):
        used = node.buffer if isinstance(node, (BufferLoad, BufferStore)) else node
        for name in (used, used.data) if isinstance(used, Buffer) else (used,):
            check(name not in hidden, HIDDEN, block, name=name)


_DEFINED: Final[dict[type[Stmt], Callable[[Any], tuple[Node, ...]]]] = {
    Allocate: lambda stmt: (stmt.buffer_var,),
    AllocateConst: lambda stmt: (stmt.buffer_var,),
    DeclBuffer: lambda stmt: (stmt.buffer,),
    LetStmt: lambda stmt: (stmt.var,),
}


def _statements(body: Stmt) -> Iterator[tuple[Stmt, tuple[Node, ...]]]:
    """Yield the statements in a body that are not in a block, with their parts."""
    pending = [body]
    while pending:
        stmt = pending.pop()
        parts: tuple[Node, ...]
        if type(stmt) is For:
            parts = (stmt.min, stmt.extent)
            pending.append(stmt.body)
        elif type(stmt) is BlockRealize:
            parts = (*stmt.iter_values, stmt.predicate)
        else:
            parts = tuple(children(stmt))
            pending.extend(part for part in parts if isinstance(part, Stmt))
        yield stmt, parts
