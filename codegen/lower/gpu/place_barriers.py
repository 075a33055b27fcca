"""Barriers between accesses of different threads to one element."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from codegen.errors import LoweringError
from codegen.lower.check_supported import name_of
from codegen.lower.element_sets import (
    Grid,
    Ints,
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
from codegen.lower.rewriters import StatementRewriter, analyzer_for, controls
from codegen.lower.thread_axes import THREAD, barrier, is_barrier, kind_of, memory_of
from tensorir.arith import Analyzer
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import conjuncts, logical_and, logical_not
from tensorir.rewriting.visit import children, collect_vars, statements, substitute, walk
from tensorir.semantics.purity import has_effects, is_pure, may_run_anywhere


def place_barriers(func: PrimFunc) -> PrimFunc:
    """Have the threads of a block wait before an access to what another one has accessed.

    Before: for tx in 64: for k: S[tx] = A[k, tx]; B[k, tx] = S[63 - tx]
    After:  for tx in 64: for k: sync; S[tx] = A[k, tx]; sync; B[k, tx] = S[63 - tx]

    Of two accesses to an element of shared memory, or of global memory that the kernel writes, at
    least one is a store; they come one after the other, in one iteration of the loops around or in
    different ones. None is placed if no two threads reach the same element: indices are compared
    for all values of thread and loop variables (`element_sets`), and where that is impossible they
    are taken to be equal. Conditions that differ between threads move inwards past the barrier.
    Raises LoweringError naming a loop whose extent differs between threads where a barrier is
    needed inside of it.
    """
    return func.with_body(_Launches(func)(func.body))


class _Launches(StatementRewriter):
    def __init__(self, func: PrimFunc) -> None:
        self._func = func

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if kind_of(node) != THREAD:
            return self.generic(node)
        threads = []
        body: s.Stmt = node
        while isinstance(body, s.For) and kind_of(body) == THREAD:
            threads.append(body)
            body = body.body
        result = _Barriers(self._func, threads, body).placed()
        for loop in reversed(threads):
            result = loop.with_body(result)
        return result


@dataclass(frozen=True, eq=False, slots=True)
class _Access:
    buffer: Buffer
    indices: tuple[PrimExpr, ...]
    is_store: bool
    conditions: tuple[PrimExpr, ...]
    free: frozenset[Var]
    """The variables of loops that are in another iteration by the time of a later access."""


class _NeedsBarrier(Exception):  # noqa: N818 - the condition around moves inwards
    """A barrier belongs where not all threads come."""


class _Barriers:
    """Places the barriers of one launch."""

    def __init__(self, func: PrimFunc, threads: Sequence[s.For], body: s.Stmt) -> None:
        self._name = name_of(func)
        self._body = body
        self._analyzer: Analyzer = analyzer_for(func)
        self._ranges: dict[Var, range] = {}
        self._threads = {loop.loop_var: loop for loop in threads}
        for loop in (*threads, *(n for n in statements(body) if isinstance(n, s.For))):
            self._bind(loop)
        self._count = math.prod(len(self._ranges[var]) for var in self._threads)
        written = {access.buffer.data for n in statements(body) for access in _stores_of(n)}
        self._watched = {pointer for pointer in written if memory_of(pointer) != "local"}
        self._differing = {var for var in self._threads if len(self._ranges[var]) > 1}
        """Variables with other values in other threads."""
        self._lets: dict[Var, PrimExpr] = {}
        """The values of variables that are bound to integer arithmetic."""
        self._unknown: set[Var] = set()
        """Other variables that may have another value in another thread or at another time."""
        for part in statements(body):
            self._define(part)
        self._conditions: list[PrimExpr] = []
        self._alone = False
        """True where not all threads of the block come."""
        self._known: dict[tuple[_Access, _Access], bool] = {}
        self._made: dict[tuple[object, ...], _Access] = {}

    def _bind(self, loop: s.For) -> None:
        if not (is_pure(loop.min) and is_pure(loop.extent)):
            return
        self._analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        self._ranges |= constant_ranges([loop])

    def _define(self, node: s.Stmt) -> None:
        if isinstance(node, s.LetStmt):
            if self._differs(node.value):
                self._differing.add(node.var)
            if is_pure(node.value):
                self._lets[node.var] = substitute(node.value, self._lets)
            else:
                self._unknown.add(node.var)
        elif isinstance(node, s.For) and any(map(self._differs, controls(node))):
            self._differing.add(node.loop_var)
            self._unknown.add(node.loop_var)

    def placed(self) -> s.Stmt:
        """Return the body of the launch with its barriers."""
        return self._sequence(self._body, [])[0]

    # ------------------------------------------------------------------------------- the statements

    def _sequence(self, node: s.Stmt, pending: list[_Access]) -> tuple[s.Stmt, list[_Access]]:
        """Return statements with barriers, and the accesses since the last one."""
        found: list[s.Stmt] = []
        for part in node.seq if isinstance(node, s.SeqStmt) else (node,):
            if is_barrier(part):
                self._check_all_come()
                pending = []
            elif self._meets(pending, part):
                self._check_all_come()
                found.append(barrier())
                pending = []
            new, pending = self._statement(part, pending)
            if found and is_barrier(found[-1]) and _begins_with_barrier(new):
                found.pop()
            found.append(new)
        return s.sequence(found), pending

    def _check_all_come(self) -> None:
        if self._alone:
            raise _NeedsBarrier

    def _statement(self, node: s.Stmt, pending: list[_Access]) -> tuple[s.Stmt, list[_Access]]:
        if self._is_free_of_meetings(node):
            return node, pending + self._accesses(node)
        if isinstance(node, s.For):
            return self._loop(node, pending)
        if isinstance(node, s.While):
            if self._differs(node.condition):
                return self._alone_in(node, pending)
            return self._repeated(node, pending, frozenset())
        if isinstance(node, s.IfThenElse):
            return self._branch(node, pending)
        if isinstance(node, (s.LetStmt, s.Allocate, s.AttrStmt, s.AssertStmt, s.DeclBuffer)):
            pending = pending + self._own_accesses(node)
            body, pending = self._sequence(node.body, pending)
            return node.changed(body=body), pending
        return node, pending + self._accesses(node)

    def _loop(self, node: s.For, pending: list[_Access]) -> tuple[s.Stmt, list[_Access]]:
        if node.loop_var in self._differing:
            return self._alone_in(node, pending)
        return self._repeated(node, pending, frozenset({node.loop_var}))

    def _repeated(
        self, node: s.For | s.While, before: list[_Access], variables: frozenset[Var]
    ) -> tuple[s.Stmt, list[_Access]]:
        """Return a loop with barriers between its iterations, too."""
        own = self._own_accesses(node)
        body, after = self._sequence(node.body, before + own)
        if isinstance(node, s.While) and self._any_meet(after, own):
            self._check_all_come()
            body, after = s.sequence([body, barrier()]), []
        body, after = self._sequence(body, self._freed(after, variables))
        after = self._freed(after, variables)
        return node.changed(body=body), after if _surely_runs(node) else [*before, *after]

    def _alone_in(
        self, node: s.For | s.While, pending: list[_Access]
    ) -> tuple[s.Stmt, list[_Access]]:
        """Return a loop that each thread leaves at another time: there is no barrier in it."""
        outer, self._alone = self._alone, True
        try:
            self._repeated(node, pending, frozenset())
        except _NeedsBarrier:
            what = f"loop {node.loop_var.name}" if isinstance(node, s.For) else "a while loop"
            raise LoweringError(
                f"threads have to wait for one another in {what} of {self._name}, but its number "
                f"of iterations differs between threads; give it the same bounds in all threads "
                f"and put a condition inside"
            ) from None
        finally:
            self._alone = outer
        return node, pending + self._accesses(node)

    def _branch(self, node: s.IfThenElse, pending: list[_Access]) -> tuple[s.Stmt, list[_Access]]:
        alone = self._alone
        self._alone = alone or self._differs(node.condition)
        own = self._own_accesses(node)
        try:
            with self._given(node.condition):
                then_case, after = self._sequence(node.then_case, pending + own)
            else_case, other = None, pending + own
            if node.else_case is not None:
                with self._given(logical_not(node.condition)):
                    else_case, other = self._sequence(node.else_case, pending + own)
        except _NeedsBarrier:
            if alone:
                raise
            self._alone = alone
            return self._sequence(self._moved_inwards(node), pending)
        finally:
            self._alone = alone
        merged = [*after, *(access for access in other if access not in after)]
        return node.changed(then_case=then_case, else_case=else_case), merged

    @contextmanager
    def _given(self, condition: PrimExpr) -> Iterator[None]:
        parts = conjuncts(condition)
        self._conditions += parts
        try:
            yield
        finally:
            del self._conditions[-len(parts) :]

    def _differs(self, node: PrimExpr) -> bool:
        """Say whether a value may differ between threads."""
        return any(
            part in self._differing
            if isinstance(part, Var)
            else isinstance(part, BufferLoad) and memory_of(part.buffer.data) == "local"
            for part in walk(node)
        )

    # --------------------------------------------------------------- conditions that differ

    def _moved_inwards(self, node: s.IfThenElse) -> s.Stmt:
        return self._divided(node, node.condition, logical_not)

    def _divided(
        self,
        node: s.IfThenElse,
        condition: PrimExpr,
        otherwise: Callable[[PrimExpr], PrimExpr],
    ) -> s.Stmt:
        """Return both cases under conditions of their own; one that is loaded is loaded once."""
        held = Var("holds", condition.dtype)
        test = condition if is_pure(condition) else held
        parts = [self._under(test, node.then_case)]
        if node.else_case is not None:
            parts.append(self._under(otherwise(test), node.else_case))
        if test is condition:
            return s.sequence(parts)
        new = s.LetStmt(held, condition, s.sequence(parts))
        self._define(new)
        return new

    def _under(self, condition: PrimExpr, node: s.Stmt) -> s.Stmt:
        """Return a statement of which all threads run the control and some the effects."""
        if is_barrier(node) or s.is_no_op(node):
            return node
        if isinstance(node, (s.BufferStore, s.Evaluate)):
            return s.IfThenElse(condition, node)
        if isinstance(node, s.SeqStmt):
            return s.sequence([self._under(condition, part) for part in node.seq])
        if isinstance(node, s.Allocate) or (
            isinstance(node, (s.For, s.LetStmt)) and all(map(may_run_anywhere, controls(node)))
        ):
            return node.with_(body=self._under(condition, node.body))
        if isinstance(node, s.IfThenElse):
            both = logical_and(condition, node.condition)
            return self._divided(node, both, lambda x: logical_and(condition, logical_not(x)))
        what = f"loop {node.loop_var.name}" if isinstance(node, s.For) else type(node).__name__
        raise LoweringError(
            f"threads have to wait for one another in {what} of {self._name}, which only those "
            f"with {condition} run, and the condition cannot move inwards; compute its bounds or "
            f"values in all threads"
        )

    # ------------------------------------------------------------------------------------- accesses

    def _accesses(self, node: s.Stmt) -> list[_Access]:
        """Return the accesses of a statement before its first barrier.

        Its loops may be in any iteration.
        """
        found: list[_Access] = []
        self._collect(node, frozenset(), tuple(self._conditions), found)
        return found

    def _own_accesses(self, node: s.Stmt) -> list[_Access]:
        """Return the accesses of a statement outside of its bodies."""
        found: list[_Access] = []
        for part in controls(node):
            self._loads(part, frozenset(), tuple(self._conditions), found)
        return found

    def _collect(
        self,
        node: s.Stmt,
        free: frozenset[Var],
        conditions: tuple[PrimExpr, ...],
        found: list[_Access],
    ) -> bool:
        """Add the accesses before the first barrier; say whether there surely is one."""
        if isinstance(node, (s.BufferStore, s.Evaluate)):
            self._loads(node, free, conditions, found)
            for access in _stores_of(node):
                if access.buffer.data in self._watched:
                    found.append(self._access(access, conditions, free, is_store=True))
            return is_barrier(node)
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
        return waits and (not isinstance(node, (s.For, s.While)) or _surely_runs(node))

    def _loads(
        self,
        node: Node,
        free: frozenset[Var],
        conditions: tuple[PrimExpr, ...],
        found: list[_Access],
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
    ) -> _Access:
        """Return an access, the same object for the same access."""
        key = (node.buffer, *map(id, node.indices), is_store, *map(id, conditions), free)
        known = self._made.get(key)
        if known is None:
            known = _Access(node.buffer, node.indices, is_store, conditions, free)
            self._made[key] = known
        return known

    def _freed(self, accesses: list[_Access], variables: frozenset[Var]) -> list[_Access]:
        """Return accesses of any iteration of some loops, each once."""
        found: dict[_Access, None] = {}
        for x in accesses:
            key = (x.buffer, *map(id, x.indices), x.is_store, *map(id, x.conditions))
            free = x.free | variables
            found[self._made.setdefault((*key, free), replace(x, free=free))] = None
        return list(found)

    def _is_free_of_meetings(self, node: s.Stmt) -> bool:
        """Say whether a statement has no barrier, and needs none inside."""
        if isinstance(node, (s.BufferStore, s.Evaluate)):
            return True
        if any(map(is_barrier, statements(node))):
            return False
        accesses = self._accesses(node)
        return not self._any_meet(accesses, accesses)

    def _meets(self, pending: list[_Access], node: s.Stmt) -> bool:
        """Say whether a statement accesses an element that another thread accessed before."""
        return bool(pending) and self._any_meet(pending, self._accesses(node))

    def _any_meet(self, before: list[_Access], after: list[_Access]) -> bool:
        return self._count > 1 and any(
            a.buffer.data is b.buffer.data and (a.is_store or b.is_store) and self._meet(a, b)
            for b in after
            for a in before
        )

    def _meet(self, a: _Access, b: _Access) -> bool:
        known = self._known.get((a, b))
        if known is None:
            known = self._known[a, b] = self._may_meet(a, b)
        return known

    def _may_meet(self, a: _Access, b: _Access) -> bool:
        if a.buffer is not b.buffer:
            return True
        try:
            # Most accesses that meet do so in the first iterations.
            return any(_one_element(*self._elements(a, b, most)) for most in (2, None))
        except Unknown:
            return True

    def _elements(self, a: _Access, b: _Access, most: int | None) -> list[Ints]:
        """Return the elements of two accesses, the last column the thread.

        Of each loop the first iterations only, if `most` is given.
        """
        variables = self._threads.keys() | a.free | b.free | self._unknown
        linear = self._analyzer.linearizer
        places = [
            place_of([substitute(i, self._lets) for i in x.indices], variables, linear)
            for x in (a, b)
        ]
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
            grid = grid_over(ranges, [*place.written_out, *conditions, *self._threads])
            columns = [
                values(part, grid) + offset
                for part, offset in zip(place.written_out, offsets, strict=True)
            ]
            tables.append(rows([*columns, self._number(grid)], restriction(conditions, grid)))
        return tables

    def _number(self, grid: Grid) -> Ints:
        """Return the number of each thread in its block."""
        number: Ints = np.zeros((), np.int64)
        for var in self._threads:
            number = number * len(self._ranges[var]) + grid[var]
        return number


def _begins_with_barrier(node: s.Stmt) -> bool:
    if isinstance(node, s.SeqStmt):
        return _begins_with_barrier(node.seq[0])
    if isinstance(node, s.Allocate) or (
        isinstance(node, s.For) and _surely_runs(node) and isinstance(node.min, IntImm)
    ):
        return _begins_with_barrier(node.body)
    return is_barrier(node)


def _stores_of(node: s.Stmt) -> list[BufferLoad | s.BufferStore]:
    """Return what a statement itself stores to; a call with an effect may do so where it loads."""
    if isinstance(node, s.BufferStore):
        return [node]
    if isinstance(node, s.Evaluate) and has_effects(node.value):
        return [part for part in walk(node.value) if isinstance(part, BufferLoad)]
    return []


def _surely_runs(node: s.For | s.While) -> bool:
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
