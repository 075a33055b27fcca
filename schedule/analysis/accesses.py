"""The buffers that statements touch, and the memory that buffers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from schedule.sref import StmtSRef
from schedule.stmt_cursor import wrappers
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    Or,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from tensorir.nodes.intrin import Effect, Op
from tensorir.nodes.node import Node
from tensorir.nodes.stmt import BlockRealize, BufferStore, For, LetStmt
from tensorir.rewriting.visit import children

_ARITHMETIC: Final = frozenset(
    {Add, Sub, Mul, FloorDiv, FloorMod, Min, Max, EQ, NE, LT, LE, GT, GE, And, Or}
)
_SCALARS: Final = frozenset({IntImm, FloatImm, StringImm, Var, SizeVar})


def accessing(*roots: Node, inside_blocks: bool = True) -> Iterator[Node]:
    """Yield the nodes of programs that may touch memory, or are a pointer, among others.

    Left out is most of what programs consist of: loops, bindings, arithmetic on variables and
    constants. What is inside of blocks is left out on demand.
    """
    pending = list(roots)
    while pending:
        node = pending.pop()
        kind = type(node)
        parts: Sequence[Node]
        if kind in _ARITHMETIC:
            parts = (node.a, node.b)  # type: ignore[attr-defined]
        elif kind is For:
            pending.append(node.body)  # type: ignore[attr-defined]
            parts = (node.min, node.extent)  # type: ignore[attr-defined]
        elif kind is Range:
            parts = (node.min, node.extent)  # type: ignore[attr-defined]
        elif kind is BlockRealize:
            if inside_blocks:
                pending.append(node.block)  # type: ignore[attr-defined]
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
    """The buffers that some statements touch. Through a pointer, anything may happen."""

    read: dict[Buffer, None] = field(default_factory=dict)
    written: dict[Buffer, None] = field(default_factory=dict)
    pointers: dict[Var, None] = field(default_factory=dict)
    has_effect: bool = False
    """Something else than memory may be changed, by a call."""

    @staticmethod
    def of(*roots: Node) -> Accesses:
        """Return the accesses of programs outside of the blocks in them."""
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
                elif not isinstance(node.op, Op) or node.op.effect in (Effect.OPAQUE, Effect.JUMP):
                    found.has_effect = True
        return found


NO_ACCESSES: Final = Accesses()


class Memory:
    """The memory that buffers share, as far as the statements around a scope tell."""

    def __init__(self, scope: StmtSRef) -> None:
        self._origin: dict[Var, Var] = {}
        current: StmtSRef | None = scope
        while current is not None:
            if current.is_block:
                for view in current.block.match_buffers:
                    self._origin[view.buffer.data] = view.source.buffer.data
            for outer, _ in wrappers(current):
                if isinstance(outer, LetStmt) and outer.var.dtype.is_handle:
                    pointers = Accesses.of(outer.value).pointers
                    self._origin.update((outer.var, data) for data in pointers)
            current = current.parent

    def of(self, buffer: Buffer) -> Var:
        """Return the pointer that stands for the memory of a buffer, the same for all its names."""
        return self.behind(buffer.data) if self._origin else buffer.data

    def behind(self, pointer: Var) -> Var:
        """Return the pointer that stands for what a pointer points to."""
        while pointer in self._origin:
            pointer = self._origin[pointer]
        return pointer
