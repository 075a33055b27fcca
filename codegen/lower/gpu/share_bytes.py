"""Allocations of shared memory that may have the same bytes, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from codegen.lower.hoist_allocations import constant_bytes
from codegen.lower.rewriters import controls
from codegen.lower.thread_axes import TILE_ALIGNMENT, kind_of
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, IntImm, Var
from tensorir.nodes.ops import add, const
from tensorir.rewriting.visit import children, rewrite, walk
from tensorir.transform.pack_intervals import pack

_ALWAYS: Final = 1 << 62
_LEAST_BYTES: Final = 1024
"""The unit in which blocks get shared memory: a smaller buffer is not worth a barrier."""


def share_bytes(kernel: s.Stmt) -> s.Stmt:
    """Let allocations that live one after the other have the same bytes.

    Before: alloc S[512]; S = A; B = S; alloc R[256]; R = B; C = R         (both shared)
    After:  alloc S[512]; S = A; B = S; alloc S[512]; S_1 = B; C = S_1     (a barrier comes later)

    They have 1024 bytes or more each; a large one has the bytes of several others. One allocation
    replaces all that have common bytes, with elements of the smallest dtype among them, and each
    buffer begins at an offset. An allocation lives from its first access to its last one, and as
    long as a loop around the access that runs again with the same contents. Threads may run both
    cases of a branch at the same time, and other iterations of a loop whose bounds are not
    constant, so what lives in either lives during all of it. `hoist_shared` makes one allocation of
    those with one pointer.
    """
    lifetimes = _Lifetimes()
    lifetimes.visit(kernel)
    arenas: dict[Var, s.Allocate] = {}
    starts: dict[Var, int] = {}
    for part in parts_of(lifetimes.found()):
        if len(part.starts) > 1:
            smallest = min((x.node for x in part.starts), key=lambda node: node.dtype.nbytes)
            count = -(-part.nbytes // smallest.dtype.nbytes)
            arena = smallest.with_(extents=(IntImm(smallest.extents[0].dtype, count),))
            for lifetime, start in part.starts.items():
                arenas[lifetime.node.buffer_var] = arena
                starts[lifetime.node.buffer_var] = start
    if not arenas:
        return kernel
    made: dict[Buffer, Buffer] = {}

    def moved(buffer: Buffer) -> Buffer:
        arena = arenas.get(buffer.data)
        if arena is None:
            return buffer
        if buffer not in made:
            start = const(starts[buffer.data] // buffer.dtype.nbytes, buffer.elem_offset.dtype)
            offset = add(buffer.elem_offset, start)
            made[buffer] = buffer.with_(data=arena.buffer_var, elem_offset=offset)
        return made[buffer]

    def allocated(node: s.Allocate) -> s.Stmt | None:
        arena = arenas.get(node.buffer_var)
        return None if arena is None else arena.with_(body=node.body)

    return rewrite(kernel, {s.Allocate: allocated}, buffer=moved)


@dataclass(frozen=True, eq=False, slots=True)
class Lifetime:
    """The time in which the contents of an allocation are needed."""

    dtype: DataType
    nbytes: int
    first: int
    """The position of the first statement that accesses it."""
    last: int
    """The position of the last statement that needs the contents."""


L = TypeVar("L", bound=Lifetime)


@dataclass(slots=True)
class Part(Generic[L]):
    """A part of shared memory."""

    starts: dict[L, int]
    """The allocations that have bytes in it, and where they begin."""
    nbytes: int


def parts_of(lifetimes: Iterable[L]) -> list[Part[L]]:
    """Return the parts of shared memory; allocations of one part have common bytes."""
    parts: list[Part[L]] = []
    large: list[L] = []
    for x in lifetimes:
        if x.nbytes < _LEAST_BYTES or TILE_ALIGNMENT % x.dtype.nbytes:
            parts.append(Part({x: 0}, x.nbytes))
        else:
            large.append(x)
    sizes = {x: x.nbytes for x in large}
    spans = {x: [(x.first, x.last)] for x in large}
    offsets = pack(sizes, spans, TILE_ALIGNMENT).offsets
    begin = end = 0
    for x in sorted(large, key=lambda x: (offsets[x], x.first)):
        start = offsets[x]
        if start < end:
            parts[-1].starts[x] = start - begin
        else:
            begin = start
            parts.append(Part({x: 0}, 0))
        end = max(end, start + x.nbytes)
        parts[-1].nbytes = end - begin
    return parts


@dataclass(frozen=True, eq=False, slots=True)
class _OfNode(Lifetime):
    node: s.Allocate


class _Lifetimes:
    """Numbers statements, and finds the first and the last one of each shared allocation."""

    def __init__(self) -> None:
        self._allocations: list[s.Allocate] = []
        self._spans: dict[Var, tuple[int, int]] = {}
        self._declared: list[Var] = []
        self._position = 0

    def visit(self, node: s.Stmt) -> None:
        """Add the accesses of a statement and of those inside of it."""
        self._position += 1
        first, outer = self._position, len(self._declared)
        inside = [part for part in children(node) if isinstance(part, s.Stmt)]
        for part in controls(node) if inside else [node]:
            for access in walk(part):
                if isinstance(access, (BufferLoad, s.BufferStore)):
                    self._extend(access.buffer.data, first, first)
                elif isinstance(access, Var) and memory_of(access) == "shared":
                    self._extend(access, 0, _ALWAYS)
        if isinstance(node, s.Allocate):
            self._declared.append(node.buffer_var)
        for part in inside:
            self.visit(part)
        if isinstance(node, (s.For, s.While, s.IfThenElse)) and not kind_of(node):
            fresh = self._declared[outer:] if _runs_alike(node) else ()
            for pointer, (_, last) in list(self._spans.items()):
                if last >= first and pointer not in fresh:
                    self._extend(pointer, first, self._position)
        elif isinstance(node, s.Allocate) and self._is_known(node):
            self._allocations.append(node)

    def _is_known(self, node: s.Allocate) -> bool:
        """Return True for shared memory of constant size that is accessed."""
        is_shared = memory_of(node.buffer_var) == "shared"
        return is_shared and constant_bytes(node) is not None and node.buffer_var in self._spans

    def found(self) -> list[_OfNode]:
        """Return the allocations of constant size with their lifetimes."""
        return [
            _OfNode(x.dtype, constant_bytes(x) or 0, *self._spans[x.buffer_var], x)
            for x in self._allocations
        ]

    def _extend(self, pointer: Var, first: int, last: int) -> None:
        known = self._spans.get(pointer, (first, last))
        self._spans[pointer] = min(first, known[0]), max(last, known[1])


def _runs_alike(node: s.Stmt) -> bool:
    """Return True for a loop that surely has the same iterations in all threads."""
    return isinstance(node, s.For) and all(isinstance(x, IntImm) for x in (node.min, node.extent))
