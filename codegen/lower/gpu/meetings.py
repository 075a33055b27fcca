"""The accesses of a kernel, and whether two threads meet at one element."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from codegen.lower.element_sets import (
    Grid,
    Ints,
    Place,
    Unknown,
    constant_ranges,
    distance,
    grid_over,
    keys,
    place_of,
    restriction,
    rows,
    values,
)
from codegen.lower.rewriters import analyzer_for, controls
from codegen.lower.thread_axes import LANES, axis_of, is_barrier, tensor_core_of
from tensorir.arith import Analyzer
from tensorir.arith.terms import variables_of
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import conjuncts, logical_not
from tensorir.rewriting.visit import children, collect_vars, statements, substitute, walk
from tensorir.semantics.purity import has_effects, is_pure


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """A load or store of memory that threads share."""

    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    is_store: bool
    conditions: tuple[PrimExpr, ...]
    free: frozenset[Var]
    """The variables of loops that are in another iteration by the time of a later access."""
    of_warp: bool = False
    """True if the threads of a warp make it together; it is that of any of them."""


class Meetings:
    """Compares the accesses of the threads of one launch."""

    def __init__(self, func: PrimFunc, threads: Sequence[s.For], body: s.Stmt) -> None:
        self._analyzer: Analyzer = analyzer_for(func)
        self._ranges: dict[Var, range] = {}
        self._threads = {loop.loop_var: loop for loop in threads}
        for loop in (*threads, *(n for n in statements(body) if isinstance(n, s.For))):
            self._bind(loop)
        self._count = math.prod(len(self._ranges[var]) for var in self._threads)
        written = {access.buffer.data for n in statements(body) for access in _stores_of(n)}
        self._watched = {pointer for pointer in written if memory_of(pointer) != "local"}
        self.differing = {var for var in self._threads if len(self._ranges[var]) > 1}
        """Variables with other values in other threads."""
        self._lets: dict[Var, PrimExpr] = {}
        """The values of variables that are bound to integer arithmetic."""
        self._unknown: set[Var] = set()
        """Other variables that may have another value in another thread or at another time."""
        for part in statements(body):
            self.define(part)
        self._known: dict[tuple[Access, Access], bool] = {}
        self._made: dict[tuple[object, ...], Access] = {}
        self.landing: list[Access] = []
        """The stores of asynchronous copies, which land where a thread waits, of any iteration."""
        loops = frozenset(n.loop_var for n in statements(body) if isinstance(n, s.For))
        for part in statements(body):
            if isinstance(part, s.AttrStmt) and part.attr_key == s.ASYNC_COMMIT:
                self.landing += (a for a in self.accesses(part.body, ()) if a.is_store)
        self.landing = self.freed(self.landing, loops)

    def _bind(self, loop: s.For) -> None:
        if not (is_pure(loop.min) and is_pure(loop.extent)):
            return
        self._analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        self._ranges |= constant_ranges([loop])

    def define(self, node: s.Stmt) -> None:
        """Note the variable of a let, or of a loop, that differs between threads."""
        if isinstance(node, s.LetStmt):
            if self.differs(node.value):
                self.differing.add(node.var)
            if is_pure(node.value):
                self._lets[node.var] = substitute(node.value, self._lets)
            else:
                self._unknown.add(node.var)
        elif isinstance(node, s.For) and any(map(self.differs, controls(node))):
            self.differing.add(node.loop_var)
            self._unknown.add(node.loop_var)

    def differs(self, node: PrimExpr) -> bool:
        """Say whether a value may differ between threads."""
        return any(
            part in self.differing
            if isinstance(part, Var)
            else isinstance(part, BufferLoad) and memory_of(part.buffer.data) == "local"
            for part in walk(node)
        )

    def accesses(self, node: s.Stmt, conditions: Sequence[PrimExpr]) -> list[Access]:
        """Return the accesses of a statement before its first barrier, under conditions.

        Its loops may be in any iteration.
        """
        found: list[Access] = []
        self._collect(node, frozenset(), tuple(conditions), found)
        return found

    def own_accesses(self, node: s.Stmt, conditions: Sequence[PrimExpr]) -> list[Access]:
        """Return the accesses of a statement outside of its bodies."""
        found: list[Access] = []
        for part in controls(node):
            self._loads(part, frozenset(), tuple(conditions), found)
        return found

    def _collect(
        self,
        node: s.Stmt,
        free: frozenset[Var],
        conditions: tuple[PrimExpr, ...],
        found: list[Access],
    ) -> bool:
        """Add the accesses before the first barrier; say whether there surely is one."""
        if isinstance(node, (s.BufferStore, s.Evaluate)):
            self._loads(node, free, conditions, found)
            for access in _stores_of(node):
                if access.buffer.data in self._watched:
                    found.append(self._access(access, conditions, free, is_store=True))
            return is_barrier(node)
        if tensor_core_of(node) is not None:
            inside: list[Access] = []
            for part in children(node):
                if isinstance(part, s.Stmt):
                    self._collect(part, free, conditions, inside)
            found += [replace(access, of_warp=True) for access in inside]
            return False
        for part in controls(node):
            self._loads(part, free, conditions, found)
        if isinstance(node, s.IfThenElse):
            self._collect(node.then_case, free, (*conditions, *conjuncts(node.condition)), found)
            if node.else_case is not None:
                otherwise = logical_not(node.condition)
                self._collect(node.else_case, free, (*conditions, otherwise), found)
            return False
        if isinstance(node, s.For):
            free |= {node.loop_var}
        waits = any(
            self._collect(part, free, conditions, found)
            for part in children(node)
            if isinstance(part, s.Stmt)
        )
        return waits and (not isinstance(node, (s.For, s.While)) or surely_runs(node))

    def _loads(
        self,
        node: Node,
        free: frozenset[Var],
        conditions: tuple[PrimExpr, ...],
        found: list[Access],
    ) -> None:
        for part in walk(node):
            if isinstance(part, BufferLoad) and part.buffer.data in self._watched:
                found.append(self._access(part, conditions, free))

    def _access(
        self,
        node: BufferLoad | s.BufferStore,
        conditions: tuple[PrimExpr, ...],
        free: frozenset[Var],
        is_store: bool = False,
    ) -> Access:
        """Return an access, the same object for the same access."""
        key = (node.buffer, *map(id, node.indices), is_store, *map(id, conditions), free, False)
        known = self._made.get(key)
        if known is None:
            known = Access(node.buffer, node.indices, is_store, conditions, free)
            self._made[key] = known
        return known

    def freed(self, accesses: list[Access], variables: frozenset[Var]) -> list[Access]:
        """Return accesses of any iteration of some loops, each once."""
        found: dict[Access, None] = {}
        for x in accesses:
            key = (x.buffer, *map(id, x.indices), x.is_store, *map(id, x.conditions))
            free = x.free | variables
            found[self._made.setdefault((*key, free, x.of_warp), replace(x, free=free))] = None
        return list(found)

    def any_meet(self, before: list[Access], after: list[Access]) -> bool:
        """Say whether two threads meet at an element to which one of them stores."""
        return self._count > 1 and any(
            a.buffer.data is b.buffer.data and (a.is_store or b.is_store) and self._meet(a, b)
            for b in after
            for a in before
        )

    def _meet(self, a: Access, b: Access) -> bool:
        known = self._known.get((a, b))
        if known is None:
            known = self._known[a, b] = self._may_meet(a, b)
        return known

    def _may_meet(self, a: Access, b: Access) -> bool:
        if a.buffer is not b.buffer:
            return _may_overlap(a.buffer, b.buffer)
        try:
            # Most accesses that meet do so in the first iterations.
            return any(_one_element(*self._elements(a, b, most)) for most in (2, None))
        except Unknown:
            return True

    def _elements(self, a: Access, b: Access, most: int | None) -> list[Ints]:
        """Return the elements of two accesses, the last column the thread.

        Of each loop the first iterations only, if `most` is given.
        """
        variables = self._threads.keys() | a.free | b.free | self._unknown
        indices = [[substitute(i, self._lets) for i in x.indices] for x in (a, b)]
        places = self._places(indices, variables)
        # Where the versions of a buffer alternate, loops around have one value at both accesses.
        common = {
            var: None
            for x, y in zip(places[0].rest, places[1].rest, strict=True)
            for term in y.plus(x, -1).terms
            for var in variables_of(term)
        }
        if common:
            variables |= set(common)
            places = self._places(indices, variables)
        steps = distance(*places)
        ranges = {
            var: numbers if var in self._threads else numbers[:most]
            for var, numbers in self._ranges.items()
            if var in variables
        }
        tables = []
        for access, place, offsets in zip((a, b), places, ([0] * len(steps), steps), strict=True):
            conditions = [
                c
                for c in (substitute(c, self._lets) for c in access.conditions)
                if is_pure(c) and all(var in ranges for var in collect_vars(c))
            ]
            grid = grid_over(ranges, [*place.written_out, *conditions, *common, *self._threads])
            columns = [
                values(part, grid) + offset
                for part, offset in zip(place.written_out, offsets, strict=True)
            ]
            columns += [grid[var] for var in common]
            # A warp stores each element of a tile once.
            by_warp = all(x.of_warp and x.is_store for x in (a, b))
            number = self._number(grid, by_warp)
            tables.append(rows([*columns, number], restriction(conditions, grid)))
        return tables

    def _places(
        self, indices: Sequence[Sequence[PrimExpr]], variables: Collection[Var]
    ) -> list[Place]:
        linear = self._analyzer.linearizer
        return [place_of(x, variables, linear) for x in indices]

    def _number(self, grid: Grid, by_warp: bool) -> Ints:
        """Return the number of each thread in its block, or the number of its warp."""
        number: Ints = np.zeros((), np.int64)
        for var, loop in self._threads.items():
            if by_warp and axis_of(loop) == LANES:
                continue
            number = number * len(self._ranges[var]) + grid[var]
        return number


def _stores_of(node: s.Stmt) -> list[BufferLoad | s.BufferStore]:
    """Return what a statement itself stores to; a call with an effect may do so where it loads."""
    if isinstance(node, s.BufferStore):
        return [node]
    if isinstance(node, s.Evaluate) and has_effects(node.value):
        return [part for part in walk(node.value) if isinstance(part, BufferLoad)]
    return []


def _may_overlap(a: Buffer, b: Buffer) -> bool:
    """Return False for buffers behind one pointer that surely have no byte in common."""
    if not (a.has_constant_layout and b.has_constant_layout):
        return True
    first, second = sorted([_bytes_of(a), _bytes_of(b)])
    return first[1] > second[0]


def _bytes_of(buffer: Buffer) -> tuple[int, int]:
    """Return the first byte of a buffer of constant layout, and the one after its last byte."""
    numbers = [n.value for n in buffer.layout if isinstance(n, IntImm)]
    shape, strides = numbers[: len(buffer.shape)], numbers[len(buffer.shape) : -1]
    count = math.prod(shape)
    if strides:
        count = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    start = numbers[-1]
    return start * buffer.dtype.nbytes, (start + count) * buffer.dtype.nbytes


def surely_runs(node: s.For | s.While) -> bool:
    """Say whether the body of a loop runs at least once."""
    return isinstance(node, s.For) and isinstance(node.extent, IntImm) and node.extent.value > 0


def _one_element(a: Ints, b: Ints) -> bool:
    """Say whether two tables have a row for one element with different threads."""
    first, second = keys(a[:, :-1], b[:, :-1])
    common = np.intersect1d(first, second)
    if not len(common):
        return False
    threads = int(max(a[:, -1].max(), b[:, -1].max())) + 1
    pairs = [
        (key * threads + table[:, -1])[np.isin(key, common)]
        for key, table in ((first, a), (second, b))
    ]
    return len(np.unique(np.concatenate(pairs))) > len(common)
