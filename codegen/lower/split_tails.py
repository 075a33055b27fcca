"""Splitting the tails off loops whose tiles do not divide the extent.

Index set splitting (Banerjee, "Dependence Analysis for Supercomputing", 1988) and loop unswitching
(Allen and Cocke, "A Catalogue of Optimizing Transformations", 1971). A tile that does not divide
its buffer has conditions and masks on every statement, which only the last tile needs; this pass
removes them from all other tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Final

from codegen.lower.hoist_allocations import MAX_REGISTER_BYTES, constant_bytes
from codegen.lower.integer_conditions import (
    ComparisonDecider,
    Inequality,
    Reader,
    Terms,
    inequality,
)
from codegen.lower.remarks import RemarkedCopy, done, missed
from codegen.lower.rewriters import NOTHING, branch, decided
from codegen.lower.unroll import statement_count
from tensorir.arith.const_interval import Interval, exact_interval
from tensorir.function import PrimFunc
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.nodes.ops import conjuncts, const
from tensorir.nodes.stmt import ForKind
from tensorir.rewriting.visit import children, statements, walk
from tensorir.semantics.purity import is_pure

MAX_ADDED: Final = 512
"""The maximum number of statements (after unrolling) that versions for tails add to a function:
LLVM needs 0.1 to 0.2 ms for each.
"""
_TOO_MUCH: Final = "whole tiles keep their conditions: versions would need too much code"


def split_tails(func: PrimFunc) -> PrimFunc:
    """Divide loops into whole tiles without conditions, and tails with constant conditions.

    Before: for i in 8: for k in 64: for r in T.unroll(4): if i * 4 + r < 30: S
    After:  for i in 7: for k in 64: for r in T.unroll(4): S
            for i in range(7, 8): for k in 64: for r in T.unroll(2): S

    The pass handles comparisons of sums, in branches and as masks of lanes. A tile consists of
    unrolled loops and lanes, or of the innermost of two loops. The loop around the tile is divided
    at the iteration from which its conditions hold for some elements only, and at the iteration
    from which they hold for none. If these iterations depend on outer loops, or the loop is
    parallel, whole and last tiles are two branches instead:

    Before: for i in T.parallel(8): S_1; for k in 64: for r in T.unroll(4): if i * 4 + r < 30: S_2
    After:  for i in T.parallel(8): S_1; if i < 7: for k ...: S_2, else: for k ...: S_2

    A condition that no loop changes is tested once. The order of execution stays. The code grows by
    at most `MAX_ADDED` statements, outer loops and whole tiles first; loops that are not split keep
    their conditions.
    """
    splitter = _SplitTails(Reader(value_variables(func)))
    if not any(splitter.conditions(func.body)):
        return func
    return func.with_body(splitter.versions(func.body, None))


@dataclass(eq=False, slots=True)
class _FoundCondition:
    """A condition, and the loops around it inside the searched statement."""

    condition: Inequality
    inner: tuple[s.For, ...]


@dataclass(eq=False, slots=True)
class _Group:
    """Conditions that compare the same sum of variables outside of a tile with constants."""

    outer: Terms
    """The sum, divided by the common divisor of its terms."""
    members: set[Inequality]
    like: Inequality
    """One of the conditions, as a model for writing the sum."""
    holds_from: int
    """The minimum sum for which all conditions hold everywhere in the tile."""
    fails_below: int
    """The minimum sum for which some condition holds somewhere in the tile."""
    has_tile: bool
    repeats: bool
    """True if a condition without a tile is in an innermost loop, and so is tested repeatedly."""

    @property
    def variables(self) -> set[Var]:
        """The variables of the sum."""
        return set(self.like.variables(self.outer))

    def add(self, other: _Group) -> None:
        """Add conditions on the same sum."""
        self.members |= other.members
        self.holds_from = max(self.holds_from, other.holds_from)
        self.fails_below = min(self.fails_below, other.fails_below)
        self.has_tile |= other.has_tile
        self.repeats |= other.repeats


class _SplitTails(ComparisonDecider):
    def __init__(self, reader: Reader) -> None:
        super().__init__(reader)
        self._loops: list[s.For] = []
        self._room = MAX_ADDED

    # ---------------------------------------------------------------------------------- conditions

    def conditions(self, node: s.Stmt, inner: tuple[s.For, ...] = ()) -> Iterator[_FoundCondition]:
        """Yield the conditions of branches, and the masks of stores and of the loads in them."""
        kind = type(node)
        if kind is s.BufferStore:
            if node.predicate is not None:  # type: ignore[attr-defined]
                yield from self._parts(node.predicate, inner)  # type: ignore[attr-defined]
            for part in walk(node.value):  # type: ignore[attr-defined]
                if type(part) is e.Select and part.condition.dtype.lanes > 1:
                    yield from self._parts(part.condition, inner)
            return
        if kind is s.IfThenElse:
            yield from self._parts(node.condition, inner)  # type: ignore[attr-defined]
        elif kind is s.For:
            inner = (*inner, node)  # type: ignore[arg-type]
        for part in children(node):
            if isinstance(part, s.Stmt):
                yield from self.conditions(part, inner)

    def _parts(self, condition: PrimExpr, inner: tuple[s.For, ...]) -> Iterator[_FoundCondition]:
        for part in conjuncts(condition):
            read = self._read(part)
            if read is not None:
                yield _FoundCondition(read, inner)

    def _groups(self, body: s.Stmt, loop: s.For | None) -> list[_Group]:
        """Return the groups of conditions that split a loop, or the function."""
        groups: dict[frozenset[tuple[object, int]], _Group] = {}
        for found in self.conditions(body):
            group = self._group(found, loop)
            if group is None:
                continue
            known = groups.setdefault(frozenset(group.outer.items()), group)
            if known is not group:
                known.add(group)
        return list(groups.values())

    def _group(self, found: _FoundCondition, loop: s.For | None) -> _Group | None:
        """Return a condition as a group of one, None if this loop cannot be split by it."""
        condition = found.condition
        if loop is not None and loop.loop_var not in condition.used:
            return None
        outer = self.facts.free(condition)
        variables = set(condition.variables(outer))
        around = [n for n in (*self._loops, *found.inner) if n.loop_var in variables]
        if _loop_to_split(around, condition.step != 0) is not loop:
            return None
        low, high = self.facts.rest(condition, outer)
        tile = around if loop is None else around[around.index(loop) + 1 :]
        for node in tile:
            factor, values = outer.pop(node.loop_var, None), self._interval(node)
            if factor is None or values is None:
                return None
            ends = (factor * values[0], factor * values[1])
            low, high = low + min(ends), high + max(ends)
        inside = {node.loop_var for node in tile}
        if not outer or not inside.isdisjoint(condition.variables(outer)):
            return None
        scale = 1 if condition.wrapping in outer else gcd(*outer.values())
        has_tile = bool(tile) or condition.step != 0
        return _Group(
            {term: factor // scale for term, factor in outer.items()},
            {condition},
            condition,
            -(low // scale),
            -(high // scale),
            has_tile,
            not has_tile and _is_in_innermost_loop(found),
        )

    # ------------------------------------------------------------------------------------ versions

    def versions(self, stmt: s.Stmt, loop: s.For | None) -> s.Stmt:
        """Return the body of a loop, or of the function, split by the deciding conditions."""
        if loop is None or loop.kind is not ForKind.UNROLLED:
            for group in self._groups(stmt, loop):
                if self._is_worth_a_test(group) and _is_below_lets(stmt, group.variables):
                    return self._narrow_test(stmt, group, loop)
        return self(stmt)

    def _is_worth_a_test(self, group: _Group) -> bool:
        low, high = self.facts.interval(group.outer, group.like.parts)
        return low < group.holds_from <= high and (group.has_tile or group.repeats)

    def _narrow_test(self, stmt: s.Stmt, group: _Group, loop: s.For | None) -> s.Stmt:
        """Put the test around the smallest part of a statement that contains all the conditions."""
        if isinstance(stmt, (s.Allocate, s.LetStmt, s.AttrStmt)) and (
            not _may_be_registers(stmt) or _binds(stmt, group.variables)
        ):
            return stmt.with_(body=self._narrow_test(stmt.body, group, loop))
        if isinstance(stmt, s.SeqStmt):
            has = [
                any(found.condition in group.members for found in self.conditions(part))
                for part in stmt.seq
            ]
            first, last = has.index(True), len(has) - has[::-1].index(True)
            if last - first < len(stmt.seq):
                return s.sequence(
                    [
                        self.versions(s.sequence(stmt.seq[:first]), loop),
                        self._narrow_test(s.sequence(stmt.seq[first:last]), group, loop),
                        self.versions(s.sequence(stmt.seq[last:]), loop),
                    ]
                )
        return self._branch_on_conditions(stmt, group, loop)

    def _branch_on_conditions(self, stmt: s.Stmt, group: _Group, loop: s.For | None) -> s.Stmt:
        size = statement_count(stmt, _is_written_out)
        if size > self._room:
            missed("split_tails", _TOO_MUCH, None if loop is None else loop.loop_var)
            return self(stmt)
        self._room -= size
        if loop is not None:
            done("split_tails", "a version without conditions for whole tiles", loop.loop_var)
        outer, like = group.outer, group.like
        low, high = self.facts.interval(outer, like.parts)

        def version(copy: s.Stmt, least: int, most: int) -> s.Stmt:
            with self.facts.within(outer, least, most):
                return self.versions(copy, loop)

        whole = version(stmt, group.holds_from, high)
        tail = none = NOTHING
        if low < group.fails_below:
            none = version(RemarkedCopy()(stmt), low, group.fails_below - 1)
        if max(low, group.fails_below) < group.holds_from:
            tail = version(RemarkedCopy()(stmt), max(low, group.fails_below), group.holds_from - 1)
            if low < group.fails_below:
                some = inequality(outer, -group.fails_below, like, in_all_lanes=True)
                tail = branch(some, tail, none)
        else:
            tail = none
        return branch(inequality(outer, -group.holds_from, like, in_all_lanes=True), whole, tail)

    # --------------------------------------------------------------------------------------- loops

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        self._enter(node)
        groups = self._groups(node.body, node)
        self._leave(node)
        for group in groups:
            split = self._divide_loop(node, group)
            if split is not None:
                return split
        self._enter(node)
        body = self.versions(node.body, node) if groups else self(node.body)
        self._leave(node)
        if s.is_no_op(body) and is_pure(node.min) and is_pure(node.extent):
            return NOTHING
        return node.changed(body=body)

    def _enter(self, loop: s.For) -> None:
        self._loops.append(loop)
        values = self._interval(loop)
        if values is not None:
            self.facts.ranges[loop.loop_var] = values

    def _leave(self, loop: s.For) -> None:
        self._loops.pop()
        self.facts.ranges.pop(loop.loop_var, None)

    def _interval(self, loop: s.For) -> Interval | None:
        low = exact_interval(loop.min, self.facts.ranges)
        extent = exact_interval(loop.extent, self.facts.ranges)
        if low is None or extent is None:
            return None
        return low[0], low[1] + max(extent[1], 1) - 1

    def _divide_loop(self, loop: s.For, group: _Group) -> s.Stmt | None:
        """Return a loop as successive loops; in each the conditions are decided or undecided."""
        if type(loop.min) is not IntImm or type(loop.extent) is not IntImm:
            return None
        sign = group.outer.get(loop.loop_var)
        if len(group.outer) > 1 or sign is None:
            return None
        first, end = loop.min.value, loop.min.value + loop.extent.value
        if sign < 0:
            cuts = (1 - group.holds_from, 1 - group.fails_below)
        else:
            cuts = (group.fails_below, group.holds_from)
        edges = sorted({first, end, *(min(max(cut, first), end) for cut in cuts)})
        if len(edges) < 3:
            return None
        room = self._room
        is_copied = loop.kind is not ForKind.UNROLLED
        size = statement_count(loop.body, _is_written_out) if is_copied else 0
        pieces: list[s.Stmt] = []
        for low, high in pairwise(edges):
            if pieces and size > self._room:
                missed("split_tails", _TOO_MUCH, loop.loop_var)
                break
            piece = loop if not pieces else RemarkedCopy()(loop)
            bounds = const(low, loop.loop_var.dtype), const(high - low, loop.loop_var.dtype)
            piece = self(piece.with_(min=bounds[0], extent=bounds[1]))
            if not s.is_no_op(piece):
                self._room -= size if pieces else 0
                pieces.append(piece)
        else:
            if len(pieces) < 2 or (group.has_tile and loop.kind is not ForKind.PARALLEL):
                if len(pieces) > 1:
                    done("split_tails", "whole tiles first, without conditions", loop.loop_var)
                return s.sequence(pieces)
        self._room = room
        return None

    # ------------------------------------------------------------------------------ what is decided

    def rewrite_And(self, node: e.And) -> PrimExpr:  # noqa: N802
        a = self(node.a)
        known = decided(a)
        if known is not None:
            return self(node.b) if known else a
        b = self(node.b)
        known = decided(b)
        if known is not None:
            return a if known else b
        return node.changed(a=a, b=b)

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        predicate = self.maybe(node.predicate)
        known = None if predicate is None else decided(predicate)
        if known is False:
            return NOTHING
        if known:
            predicate = None
        return node.changed(value=self(node.value), predicate=predicate)

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        if node.predicate is None:
            return node
        predicate = self(node.predicate)
        if predicate is node.predicate:
            return node
        return BufferLoad(node.buffer, node.indices, None if decided(predicate) else predicate)


def _binds(stmt: s.Stmt, variables: set[Var]) -> bool:
    """Return True if a let in a statement binds one of the variables."""
    return any(isinstance(n, s.LetStmt) and n.var in variables for n in statements(stmt))


def _is_below_lets(stmt: s.Stmt, variables: set[Var]) -> bool:
    """Return True if a test inside a statement is below all lets of its variables.

    A let in a loop may have a different value in each iteration.
    """
    if isinstance(stmt, (s.Allocate, s.LetStmt, s.AttrStmt)):
        return _is_below_lets(stmt.body, variables)
    if isinstance(stmt, s.SeqStmt):
        return all(_is_below_lets(part, variables) for part in stmt.seq)
    return not _binds(stmt, variables)


def _loop_to_split(around: Sequence[s.For], has_lanes: bool) -> s.For | None:
    """Return, of the loops that a condition depends on, the loop around its tile."""
    serial = [loop for loop in around if loop.kind is not ForKind.UNROLLED]
    if not serial:
        return around[0] if around else None
    has_tile = has_lanes or len(serial) < len(around)
    return serial[-1] if has_tile or len(serial) == 1 else serial[-2]


def _is_written_out(loop: s.For) -> bool:
    return loop.kind is ForKind.UNROLLED and type(loop.extent) is IntImm


def _is_in_innermost_loop(found: _FoundCondition) -> bool:
    """Return True if the loop around a condition contains only unrolled loops."""
    loops = [loop for loop in found.inner if loop.kind is not ForKind.UNROLLED]
    return bool(loops) and not _has_loop(loops[-1].body)


def _has_loop(node: s.Stmt) -> bool:
    return any(
        isinstance(n, s.While) or (isinstance(n, s.For) and n.kind is not ForKind.UNROLLED)
        for n in statements(node)
    )


def _may_be_registers(node: s.Stmt) -> bool:
    """Return True if a statement has a small allocation, which each version should have itself."""
    if not isinstance(node, s.Allocate):
        return False
    size = constant_bytes(node)
    return size is not None and size <= MAX_REGISTER_BYTES
