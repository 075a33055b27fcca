"""Allocations of shared memory that may have the same bytes, one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from codegen.lower.hoist_allocations import constant_bytes
from codegen.lower.rewriters import controls
from codegen.lower.thread_axes import kind_of
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import BufferLoad, IntImm, Var
from tensorir.rewriting.visit import children, rewrite, walk

_ALWAYS: Final = 1 << 62
_LEAST_BYTES: Final = 1024
"""The unit in which blocks get shared memory: a smaller buffer is not worth a barrier."""


def share_bytes(kernel: s.Stmt) -> s.Stmt:
    """Let allocations that live one after the other have the same pointer.

    Before: alloc S[512]; S = A; B = S; alloc R[256]; R = B; C = R         (both shared)
    After:  alloc S[512]; S = A; B = S; alloc S[512]; S_1 = B; C = S_1     (a barrier comes later)

    They have one dtype, and 1024 bytes or more. An allocation lives from its first access
    to its last one, and as long as a loop around the access that runs again with the same contents.
    Threads may run both cases of a branch at the same time, and other iterations of a loop whose
    bounds are not constant, so what lives in either lives during all of it. `hoist_shared` makes
    one allocation of those with one pointer.
    """
    lifetimes = _Lifetimes()
    lifetimes.visit(kernel)
    chosen = {
        lifetime.node.buffer_var: pool for pool in pools_of(lifetimes.found()) for lifetime in pool
    }
    if all(len(pool) == 1 for pool in chosen.values()):
        return kernel
    made: dict[Buffer, Buffer] = {}

    def moved(buffer: Buffer) -> Buffer:
        pool = chosen.get(buffer.data)
        if pool is None or pool[0].node.buffer_var is buffer.data:
            return buffer
        if buffer not in made:
            made[buffer] = buffer.with_(data=pool[0].node.buffer_var)
        return made[buffer]

    def allocated(node: s.Allocate) -> s.Stmt | None:
        pool = chosen.get(node.buffer_var)
        if pool is None:
            return None
        extent = IntImm(node.extents[0].dtype, count_of(pool))
        return node.with_(buffer_var=pool[0].node.buffer_var, extents=(extent,))

    return rewrite(kernel, {s.Allocate: allocated}, buffer=moved)


@dataclass(frozen=True, eq=False, slots=True)
class Lifetime:
    """The time in which the contents of an allocation are needed."""

    dtype: DataType
    count: int
    """The number of elements."""
    first: int
    """The position of the first statement that accesses it."""
    last: int
    """The position of the last statement that needs the contents."""


L = TypeVar("L", bound=Lifetime)


def pools_of(lifetimes: Iterable[L]) -> list[list[L]]:
    """Return the allocations that have the same bytes, in their order, for each part of memory."""
    pools: list[list[L]] = []
    for new in sorted(lifetimes, key=lambda x: x.first):
        free = [x for x in pools if x[-1].last < new.first and _may_share(x[0], new)]
        if free:
            min(free, key=lambda pool: abs(count_of(pool) - new.count)).append(new)
        else:
            pools.append([new])
    return pools


def _may_share(a: Lifetime, b: Lifetime) -> bool:
    return a.dtype == b.dtype and all(x.count * x.dtype.nbytes >= _LEAST_BYTES for x in (a, b))


def count_of(pool: Sequence[Lifetime]) -> int:
    """Return the number of elements of memory that several allocations share."""
    return max(x.count for x in pool)


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
            _OfNode(x.dtype, _count(x), *self._spans[x.buffer_var], x) for x in self._allocations
        ]

    def _extend(self, pointer: Var, first: int, last: int) -> None:
        known = self._spans.get(pointer, (first, last))
        self._spans[pointer] = min(first, known[0]), max(last, known[1])


def _count(node: s.Allocate) -> int:
    return math.prod(n.value for n in node.extents if isinstance(n, IntImm))


def _runs_alike(node: s.Stmt) -> bool:
    """Return True for a loop that surely has the same iterations in all threads."""
    return isinstance(node, s.For) and all(isinstance(x, IntImm) for x in (node.min, node.extent))
