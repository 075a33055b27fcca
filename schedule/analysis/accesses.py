"""The buffers and the memory that statements access, and their calls with side effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from schedule.errors import Problem, check, fail
from schedule.sref import StmtSRef, path_up
from schedule.stmt_cursor import wrappers
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import (
    BINARY_OPS,
    BufferLoad,
    Call,
    FloatImm,
    IntImm,
    SizeVar,
    StringImm,
    Var,
)
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import AttrStmt, Block, BlockRealize, BufferStore, For, LetStmt, Stmt
from tensorir.rewriting.visit import children, walk

OPAQUE = Problem(
    "OpaqueAccessError",
    "{buffer} has an opaque access in {0}, through a pointer, a vector index, a match_buffer or "
    "another buffer that shares its memory",
    "let all blocks load and store its elements by its name; cache_read or cache_write of the "
    "other block gives the pointer or view its own buffer",
)
EFFECT = Problem(
    "OpaqueCallError",
    "{0} calls `{call}`, which may have a side effect or return a different value each time; it "
    "would run a different number of times or in another order",
    "if the call is pure, write it as T.call_pure_extern or T.call_llvm_pure_intrin",
)

_OPERATIONS: Final = frozenset(BINARY_OPS)
_SCALARS: Final = frozenset({IntImm, FloatImm, StringImm, Var, SizeVar})


def accessing(*roots: Node, inside_blocks: bool = True) -> Iterator[Node]:
    """Yield a superset of the nodes that access memory or are pointers.

    Loops, bindings, and arithmetic on variables and constants are skipped. Without `inside_blocks`,
    the walk yields the realizes of blocks and does not enter the blocks.
    """
    pending = list(roots)
    while pending:
        node = pending.pop()
        kind = type(node)
        parts: Sequence[Node]
        if kind in _OPERATIONS:
            parts = (node.a, node.b)  # type: ignore[attr-defined]
        elif kind is For:
            pending.append(node.body)  # type: ignore[attr-defined]
            parts = (node.min, node.extent)  # type: ignore[attr-defined]
        elif kind is Range:
            parts = (node.min, node.extent)  # type: ignore[attr-defined]
        elif kind is BlockRealize:
            if inside_blocks:
                pending.append(node.block)  # type: ignore[attr-defined]
            else:
                yield node
            parts = (*node.iter_values, node.predicate)  # type: ignore[attr-defined]
        else:
            yield node
            if kind is not BufferLoad:
                pending.extend(children(node))
                continue
            parts = children(node)
        for part in parts:
            if type(part) not in _SCALARS:
                pending.append(part)


@dataclass
class Accesses:
    """The buffers that some statements access. A pointer may be used for any access."""

    read: dict[Buffer, None] = field(default_factory=dict)
    written: dict[Buffer, None] = field(default_factory=dict)
    pointers: dict[Var, None] = field(default_factory=dict)
    has_effect: bool = False
    """True if a call may have a side effect other than on memory."""

    @staticmethod
    def of(*roots: Node) -> Accesses:
        """Return the accesses of statements outside of their blocks."""
        found = Accesses()
        for node in accessing(*roots, inside_blocks=False):
            if isinstance(node, BufferLoad):
                found.read[node.buffer] = None
            elif isinstance(node, BufferStore):
                found.written[node.buffer] = None
            elif isinstance(node, Var):
                if node.dtype.is_handle:
                    found.pointers[node] = None
            elif isinstance(node, Call):
                if getattr(node.op, "short_name", "") == "address_of":
                    loads = [a for a in node.args if isinstance(a, BufferLoad)]
                    found.pointers.update((load.buffer.data, None) for load in loads)
                elif has_effect(node):
                    found.has_effect = True
        return found

    @staticmethod
    def union(parts: Sequence[Accesses]) -> Accesses:
        """Return the accesses of several statements."""
        found = Accesses(has_effect=any(part.has_effect for part in parts))
        for part in parts:
            found.read.update(part.read)
            found.written.update(part.written)
            found.pointers.update(part.pointers)
        return found


NO_ACCESSES: Final = Accesses()


class Memory:
    """The buffers that share memory, according to the statements around a scope."""

    def __init__(self, scope: StmtSRef) -> None:
        self._origin: dict[Var, Var] = {}
        for current in path_up(scope):
            if current.is_block:
                for view in current.block.match_buffers:
                    self._origin[view.buffer.data] = view.source.buffer.data
            for outer, _ in wrappers(current):
                if isinstance(outer, LetStmt) and outer.var.dtype.is_handle:
                    pointers = Accesses.of(outer.value).pointers
                    self._origin.update((outer.var, data) for data in pointers)

    def of(self, buffer: Buffer) -> Var:
        """Return the pointer that identifies the memory of a buffer.

        One for all buffers that share it.
        """
        return self.behind(buffer.data) if self._origin else buffer.data

    def behind(self, pointer: Var) -> Var:
        """Return the pointer that a pointer was derived from, at the end of the chain."""
        while pointer in self._origin:
            pointer = self._origin[pointer]
        return pointer


# ---------------------------------------------------------------------------------- opaque access


def check_no_opaque(place: StmtSRef, buffer: Buffer, stmt: Stmt | None = None) -> None:
    """Raise unless a loop or block touches `buffer` by loads and stores of single elements only.

    `stmt` is the statement that will replace it.
    """
    assert place.stmt is not None
    check(not _is_opaque_in(stmt or place.stmt, buffer), OPAQUE, place, buffer=buffer.name)


def _is_opaque_in(root: Node, buffer: Buffer) -> bool:
    return any(
        _is_opaque_in_block(node.block, buffer)
        if isinstance(node, BlockRealize)
        else is_opaque(node, buffer)
        for node in accessing(root, inside_blocks=False)
    )


@lru_cache(maxsize=1024)
def _is_opaque_in_block(block: Block, buffer: Buffer) -> bool:
    return _is_opaque_in(block, buffer)


def is_opaque(node: Node, buffer: Buffer) -> bool:
    """Return True if a node accesses `buffer` other than by loading or storing an element."""
    if isinstance(node, Var):
        return node is buffer.data
    if isinstance(node, (BufferLoad, BufferStore)):
        if node.buffer is buffer:
            return any(i.dtype.lanes > 1 for i in node.indices)
        return node.buffer.data is buffer.data
    if isinstance(node, Call):
        # The argument is written as a load, but only its address is used.
        return getattr(node.op, "short_name", "") == "address_of" and any(
            isinstance(arg, BufferLoad) and arg.buffer is buffer for arg in node.args
        )
    if isinstance(node, AttrStmt):
        return node.node is buffer or node.node is buffer.data
    if isinstance(node, Block):
        return any(view.source.buffer is buffer for view in node.match_buffers)
    return False


# ----------------------------------------------------------------------------------------- effects


def has_effect(call: Call) -> bool:
    """Return True if a call may have a side effect, so that it must not be moved or repeated."""
    return not isinstance(call.op, Op) or call.op.effect in (Effect.OPAQUE, Effect.JUMP)


def check_no_effect(block: StmtSRef) -> None:
    """Raise if a block has a call with a side effect."""
    call = effect_in(block.block)
    if call is not None:
        fail(EFFECT, block, call=call)


@lru_cache(maxsize=512)
def effect_in(block: Block) -> Call | None:
    """Return a call in a block that has a side effect, None if there is none."""
    for node in walk(block.body):
        if isinstance(node, Call) and has_effect(node):
            return node
    return None
