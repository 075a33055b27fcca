"""Choosing the loops to unroll so that accumulators can live in registers.

A register has no address, so a tile of accumulators can be kept in registers through a reduction
loop only if every index into it is constant inside that loop, which means that the loops over the
tile are written out. Schedules ask for that by pragmas, but a schedule without them would lose a
factor of several for want of it; so small tiles are unrolled in any case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from codegen.lower.annotations import PIECES
from codegen.lower.register_file import vector_registers
from codegen.target import as_target
from tensorir import stmt as s
from tensorir.expr import BufferLoad, IntImm, PrimExpr, Ramp, Var
from tensorir.function import PrimFunc
from tensorir.node import Node
from tensorir.stmt import ForKind
from tensorir.visit import Rewriter, children, collect_vars, walk

COPIES_PER_REGISTER: Final = 4
"""How many statements may be written out for each register of the machine."""
STATEMENTS_PER_REGISTER: Final = 32
"""How many there may be with all that stands beside the accumulators in their loops."""


def mark_register_tiles(func: PrimFunc) -> PrimFunc:
    """Mark the loops over small tiles of accumulators as unrolled.

    Before: for k in 128: for i in 8: for j in T.unroll(2): C[i * 32 + Ramp(j * 16, 1, 16)] += ...
    After:  for k in 128: for i in T.unroll(8): for j in T.unroll(2): ...

    First, around each statement that updates an element: for the outermost serial loop that the
    element does not depend on, all loops inside that it does depend on (and what lies between) are
    unrolled, if the tile fits the vector registers of the target and at most four statements for
    each register come out. Second, for each allocation that fits the registers: all loops that
    index it, so that every index is constant and it needs no memory at all.
    """
    registers = vector_registers(as_target(None))
    finder = _Finder(registers, as_target(None).vector_bits // 8)
    finder.visit(func.body, ())
    finder.choose()
    return func.with_body(_Mark(finder.chosen)(func.body)) if finder.chosen else func


@dataclass(slots=True)
class _Access:
    """A load or store of an allocated buffer, with the loops around it."""

    index: PrimExpr
    loops: tuple[s.For, ...]


@dataclass(slots=True)
class _Allocation:
    node: s.Allocate
    depth: int
    accesses: list[_Access]


class _Finder:
    def __init__(self, registers: int, vector_bytes: int) -> None:
        self._registers = registers
        self._vector_bytes = vector_bytes
        self._allocations: dict[Var, _Allocation] = {}
        self._updates: list[_Access] = []
        self._variables: dict[PrimExpr, frozenset[Var]] = {}
        self.chosen: set[Node] = set()

    # ---------------------------------------------------------------------------------- collecting

    def visit(self, node: s.Stmt, loops: tuple[s.For, ...]) -> None:
        """Record the accesses in `node`, which stands inside `loops`."""
        kind = type(node)
        if kind is s.BufferStore:
            self._store(node, loops)  # type: ignore[arg-type]
        elif kind is s.For:
            self.visit(node.body, (*loops, node))  # type: ignore[attr-defined, arg-type]
        else:
            if kind is s.Allocate:
                pointer = node.buffer_var  # type: ignore[attr-defined]
                self._allocations[pointer] = _Allocation(node, len(loops), [])  # type: ignore[arg-type]
            for part in children(node):
                if isinstance(part, s.Stmt):
                    self.visit(part, loops)
                else:
                    self._loads(part, loops)

    def _store(self, node: s.BufferStore, loops: tuple[s.For, ...]) -> None:
        (index,) = node.indices
        self._access(node.buffer.data, index, loops)
        for load in self._loads(node.value, loops):
            same_index = load.indices[0] is index or _equal(load.indices[0], index)
            if load.buffer.data is node.buffer.data and same_index:
                self._updates.append(_Access(index, loops))

    def _loads(self, node: Node, loops: tuple[s.For, ...]) -> list[BufferLoad]:
        loads = [part for part in walk(node) if type(part) is BufferLoad]
        for load in loads:
            self._access(load.buffer.data, load.indices[0], loops)
        return loads

    def _access(self, pointer: Var, index: PrimExpr, loops: tuple[s.For, ...]) -> None:
        allocation = self._allocations.get(pointer)
        if allocation is not None:
            allocation.accesses.append(_Access(index, loops))

    # ------------------------------------------------------------------------------------ choosing

    def choose(self) -> None:
        """Fill `chosen` with the loops to unroll."""
        for update in self._updates:
            self._choose_tile(update)
        for allocation in self._allocations.values():
            if self._fits(allocation.node):
                self._choose_all(allocation)

    def _index_variables(self, index: PrimExpr) -> frozenset[Var]:
        known = self._variables.get(index)
        if known is None:
            known = self._variables[index] = frozenset(collect_vars(index))
        return known

    def _choose_tile(self, update: _Access) -> None:
        variables = self._index_variables(update.index)
        for position, loop in enumerate(update.loops):
            if loop.kind is not ForKind.SERIAL or loop in self.chosen or PIECES in loop.annotations:
                continue
            if loop.loop_var in variables:
                continue
            inner = update.loops[position + 1 :]
            tile = [n for n in inner if n.loop_var in variables]
            region = list(self._from_first_indexing(inner, variables))
            size = _copies(tile)
            copies = _copies(region)
            if size is None or copies is None or size > self._registers:
                continue
            few = copies == size or copies <= self._registers * COPIES_PER_REGISTER
            if few and self._stays_small(region):
                self._take(region)
                return

    def _fits(self, allocation: s.Allocate) -> bool:
        extents = [n.value if type(n) is IntImm else math.inf for n in allocation.extents]
        return math.prod(extents) * allocation.dtype.nbytes <= self._registers * self._vector_bytes

    def _choose_all(self, allocation: _Allocation) -> None:
        regions: list[s.For] = []
        for access in allocation.accesses:
            variables = self._index_variables(access.index)
            inner = access.loops[allocation.depth :]
            if not variables <= {loop.loop_var for loop in inner}:
                return
            region = list(self._from_first_indexing(inner, variables))
            copies = _copies(region)
            if copies is None or copies > self._registers * COPIES_PER_REGISTER:
                return
            if not self._stays_small(region):
                return
            regions.extend(region)
        self._take(regions)

    def _from_first_indexing(
        self, loops: Sequence[s.For], variables: frozenset[Var]
    ) -> Iterator[s.For]:
        """Yield the loops from the first one that the index depends on, inwards."""
        for position, loop in enumerate(loops):
            if loop.loop_var in variables:
                yield from loops[position:]
                return

    def _stays_small(self, region: Sequence[s.For]) -> bool:
        """Say whether little is written out, other loops inside the region counted in full.

        LLVM would write those out as well, each copy of them.
        """
        return not region or _written_out(region[0]) <= self._registers * STATEMENTS_PER_REGISTER

    def _take(self, loops: Sequence[s.For]) -> None:
        self.chosen.update(loop for loop in loops if loop.kind is ForKind.SERIAL)


def _copies(loops: Sequence[s.For]) -> int | None:
    """Return how many iterations the loops have together, None where they cannot be unrolled."""
    total = 1
    for loop in loops:
        if type(loop.extent) is not IntImm or type(loop.min) is not IntImm:
            return None
        if loop.kind is not ForKind.SERIAL and loop.kind is not ForKind.UNROLLED:
            return None
        total *= loop.extent.value
    return total


def _written_out(stmt: s.Stmt) -> int:
    """Return how many statements come out if all loops of constant extent are unrolled."""
    if isinstance(stmt, s.For):
        extent = stmt.extent.value if type(stmt.extent) is IntImm else 1
        return extent * _written_out(stmt.body)
    inner = sum(_written_out(part) for part in children(stmt) if isinstance(part, s.Stmt))
    return inner or 1


def _equal(a: PrimExpr, b: PrimExpr) -> bool:
    """Say whether two indices are the same vector of the same start."""
    return (
        type(a) is Ramp
        and type(b) is Ramp
        and a.lanes == b.lanes
        and a.base is b.base
        and type(a.stride) is IntImm
        and type(b.stride) is IntImm
        and a.stride.value == b.stride.value
    )


class _Mark(Rewriter):
    def __init__(self, chosen: set[Node]) -> None:
        self._chosen = chosen

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        return node

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        body = self(node.body)
        kind = ForKind.UNROLLED if node in self._chosen else node.kind
        if body is node.body and kind is node.kind:
            return node
        return s.For(node.loop_var, node.min, node.extent, kind, body, None, node.annotations)
