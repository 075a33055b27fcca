"""The loops that carry values of a buffer from one iteration to a later one.

A loop carries none if what an iteration reads it has surely written itself before: then every
iteration may have memory of its own. This is array privatisation (Tu and Padua, "Automatic Array
Privatization", 1993), decided read by read from the regions of the stores before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from codegen.lower.purity import is_pure
from codegen.lower.ramps import run_of
from codegen.lower.scoped_facts import analyzer_for, given, inside_let, inside_loop
from tensorir.arith import Analyzer, estimate_region_strict_bound
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, Range
from tensorir.nodes.expr import (
    And,
    BufferLoad,
    Call,
    Not,
    Or,
    PrimExpr,
    Var,
)
from tensorir.nodes.intrin import Op
from tensorir.nodes.node import Node
from tensorir.nodes.ops import add, all_of, conjuncts, const, logical_not, sub
from tensorir.rewriting.visit import children, collect_vars, substitute, uses_var

_IF_THEN_ELSE = Op.get("if_then_else")


def carrying_loops(func: PrimFunc, buffers: Collection[Buffer]) -> dict[Buffer, set[s.For]]:
    """Return the loops over whose iterations values of allocated `buffers` may live.

    Those loops are around uses of the buffer and inside the block that allocates it. Blocks have no
    axes. A read is covered by a store that comes before it in the same iteration of all loops
    around both, or in an earlier one, and whose region over the loops around it alone holds what is
    read. A store under conditions on loops that its indices do not depend on, such as an
    initialisation, counts if it runs in the first iteration of those loops; they carry its values.
    """
    walker = _Walker(func, buffers)
    walker.stmt(func.body, _Step(None, func.body, 0))
    return walker.carrying


@dataclass(eq=False, slots=True)
class _Step:
    """A loop, let, while or condition on the way from the root to an access."""

    parent: _Step | None
    node: s.Stmt
    depth: int
    condition: PrimExpr | None = None

    def enter(self, node: s.Stmt, condition: PrimExpr | None = None) -> _Step:
        return _Step(self, node, self.depth + 1, condition)

    def up_to(self, outer: _Step) -> Iterator[_Step]:
        """Yield the steps from this one outwards to `outer`, which is not one of them."""
        at: _Step | None = self
        while at is not None and at is not outer:
            yield at
            at = at.parent

    def common(self, other: _Step) -> _Step:
        """Return the innermost step around both."""
        a, b = self, other
        while a is not b:
            if a.depth < b.depth:
                a, b = b, a
            assert a.parent is not None
            a = a.parent
        return a


@dataclass(slots=True)
class _Store:
    """A store through which a buffer is surely written where the steps around it lead to it."""

    indices: tuple[PrimExpr, ...]
    at: _Step


@dataclass(slots=True)
class _Life:
    """A buffer while it is allocated."""

    buffer: Buffer
    home: _Step
    stores: list[_Store] = field(default_factory=list)


class _Walker:
    """Walks a program in the order in which it runs."""

    def __init__(self, func: PrimFunc, buffers: Collection[Buffer]) -> None:
        self.carrying: dict[Buffer, set[s.For]] = {buffer: set() for buffer in buffers}
        self._analyzer = analyzer_for(func)
        self._lives: dict[Var, _Life] = {}
        self._views: dict[Buffer, tuple[Buffer, tuple[PrimExpr, ...]]] = {}
        """The buffer that each view is a view of, and the indices at which it begins there."""

    # ---------------------------------------------------------------------------------- statements

    def stmt(self, node: s.Stmt, at: _Step) -> None:
        """Visit a statement that stands inside the step `at`."""
        if isinstance(node, s.SeqStmt):
            for statement in node.seq:
                self.stmt(statement, at)
        elif isinstance(node, s.BufferStore):
            for part in children(node):
                self._expr(part, at)
            self._write(node, at)
        elif isinstance(node, s.For):
            self._expr(node.min, at)
            self._expr(node.extent, at)
            with inside_loop(self._analyzer, node):
                self.stmt(node.body, at.enter(node))
        elif isinstance(node, s.IfThenElse):
            self._branch(node, at)
        elif isinstance(node, s.LetStmt):
            self._expr(node.value, at)
            with inside_let(self._analyzer, node):
                self.stmt(node.body, at.enter(node))
        elif isinstance(node, s.BlockRealize):
            self._block(node, at)
        else:
            inner = at.enter(node) if isinstance(node, s.While) else at
            for part in children(node):
                if isinstance(part, s.Stmt):
                    self.stmt(part, inner)
                else:
                    self._expr(part, inner)

    def _branch(self, node: s.IfThenElse, at: _Step) -> None:
        self._expr(node.condition, at)
        with given(self._analyzer, node.condition):
            self.stmt(node.then_case, at.enter(node, node.condition))
        if node.else_case is not None:
            fails = logical_not(node.condition)
            with given(self._analyzer, fails):
                self.stmt(node.else_case, at.enter(node, fails))

    def _block(self, node: s.BlockRealize, at: _Step) -> None:
        self._expr(node.predicate, at)
        block = node.block
        at = at.enter(node, node.predicate)
        for buffer in block.alloc_buffers:
            if buffer in self.carrying:
                self._lives[buffer.data] = _Life(buffer, at)
        for match in block.match_buffers:
            for dim in match.source.region:
                self._expr(dim.min, at)
            self._views[match.buffer] = (
                match.source.buffer,
                tuple(dim.min for dim in match.source.region),
            )
        with given(self._analyzer, node.predicate):
            self.stmt(block.body, at)

    # -------------------------------------------------------------------------------- expressions

    def _expr(self, node: Node, at: _Step) -> None:
        if isinstance(node, BufferLoad):
            for part in children(node):
                self._expr(part, at)
            self._read(node, at)
        elif isinstance(node, (And, Or)):
            self._expr(node.a, at)
            with given(self._analyzer, node.a if isinstance(node, And) else Not(node.a)):
                self._expr(node.b, at)
        elif isinstance(node, Call) and node.op is _IF_THEN_ELSE:
            condition, yes, no = node.args
            self._expr(condition, at)
            with given(self._analyzer, condition):
                self._expr(yes, at)
            with given(self._analyzer, logical_not(condition)):
                self._expr(no, at)
        else:
            for part in children(node):
                self._expr(part, at)

    # ------------------------------------------------------------------------------------ accesses

    def _resolved(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...]
    ) -> tuple[_Life | None, tuple[PrimExpr, ...]]:
        """Return the tracked buffer behind a buffer or view, and the indices into it."""
        while (view := self._views.get(buffer)) is not None:
            buffer, starts = view
            surplus = len(starts) - len(indices)
            inner = [a + i for a, i in zip(starts[surplus:], indices, strict=True)]
            indices = (*starts[:surplus], *inner)
        return self._lives.get(buffer.data), indices

    def _write(self, node: s.BufferStore, at: _Step) -> None:
        life, indices = self._resolved(node.buffer, node.indices)
        if life is not None and node.predicate is None:
            life.stores.append(_Store(indices, at))

    def _read(self, node: BufferLoad, at: _Step) -> None:
        life, indices = self._resolved(node.buffer, node.indices)
        if life is None:
            return
        found: set[s.For] | None = None
        for store in reversed(life.stores):
            cover = _Cover(store, at, life.home, self._analyzer)
            if cover.holds(indices):
                if not cover.first:
                    return
                found = found or cover.first
        if found is None:
            loops = [step.node for step in at.up_to(life.home) if isinstance(step.node, s.For)]
            found = set(loops)
        self.carrying[life.buffer] |= found


class _Cover:
    """The elements that a store has surely written before a later read."""

    def __init__(self, store: _Store, read: _Step, home: _Step, analyzer: Analyzer) -> None:
        self._indices = store.indices
        self._analyzer = analyzer
        around = list(store.at.up_to(home))
        own = set(map(id, store.at.up_to(store.at.common(read))))
        loops = [step.node for step in around if isinstance(step.node, s.For)]
        self._loops = {loop.loop_var: loop for loop in loops}
        self._own = [step.node for step in around if id(step) in own]
        self._conditions = [
            part
            for step in around
            if step.condition is not None and id(step) in own
            for part in conjuncts(step.condition)
        ]
        self._shared = [
            part
            for step in around
            if step.condition is not None and id(step) not in own
            for part in conjuncts(step.condition)
        ]
        self._others = [step.node for step in around if not isinstance(step.node, s.For)]
        self.first: set[s.For] = set()
        """The loops of which only the first iteration surely writes."""

    def holds(self, indices: tuple[PrimExpr, ...]) -> bool:
        """Say whether the element or vector at `indices` has been written."""
        if any(isinstance(node, s.While) for node in self._own):
            return False
        predicate = self._restrictions()
        if predicate is None or not self._is_done_once():
            return False
        written = self._written(predicate)
        read = _box(indices)
        if written is None or read is None:
            return False
        return all(
            self._at_most(w[0], r[0]) and self._at_most(r[1], w[1])
            for w, r in zip(written, read, strict=True)
        )

    def _at_most(self, a: PrimExpr, b: PrimExpr) -> bool:
        return a is b or self._analyzer.can_prove(a <= b)

    def _restrictions(self) -> list[PrimExpr] | None:
        """Return the conditions that restrict the written region; None if one may fail entirely."""
        indexing = {var for index in self._indices for var in collect_vars(index)}
        own = {node.loop_var for node in self._own if isinstance(node, s.For)}
        predicate = []
        for condition in self._conditions:
            if is_pure(condition) and self._analyzer.can_prove(condition):
                continue
            loops = {var for var in collect_vars(condition) if var in self._loops}
            if not is_pure(condition) or not loops:
                return None
            if loops.isdisjoint(indexing):
                self.first.update(self._loops[var] for var in loops)
            elif loops & own:
                predicate.append(condition)
            else:
                return None
        return predicate

    def _is_done_once(self) -> bool:
        """Say whether the store surely runs in the first iteration of the loops `first`."""
        if not self.first:
            return True
        if any(isinstance(node, (s.While, s.LetStmt)) for node in self._others):
            return False
        variables = {loop.loop_var for loop in self.first}

        def depends(node: Node) -> bool:
            return uses_var(node, lambda var: var in variables)

        for loop in self._loops.values():
            if depends(loop.min) or depends(loop.extent):
                return False
        at_first = {loop.loop_var: loop.min for loop in self.first}
        for condition in (*self._conditions, *self._shared):
            if not is_pure(condition):
                return False
            if depends(condition) and not self._analyzer.can_prove(substitute(condition, at_first)):
                return False
        return not any(depends(index) for index in self._indices)

    def _written(self, predicate: Sequence[PrimExpr]) -> Box | None:
        domain = {}
        for node in self._own:
            if not isinstance(node, s.For):
                continue
            is_used = any(uses_var(index, node.loop_var) for index in self._indices)
            if not is_used and not self._analyzer.can_prove(node.extent >= 1):
                return None
            if is_used:
                domain[node.loop_var] = Range.from_min_extent(node.min, node.extent)
        if not domain:
            return None if predicate else _box(self._indices)
        if any(uses_var(values, lambda var: var in domain) for values in domain.values()):
            return None
        region = _region(self._indices)
        if region is None:
            return None
        sets = estimate_region_strict_bound(region, domain, all_of(predicate), self._analyzer)
        return None if sets is None else [(dim.min_value, dim.max_value) for dim in sets]


Box = list[tuple[PrimExpr, PrimExpr]]
"""First and last index in each dimension."""


def _region(indices: tuple[PrimExpr, ...]) -> list[Range] | None:
    """Return the region of an access; None for lanes that do not lie side by side."""
    region = []
    for index in indices:
        run = run_of(index)
        if run is None:
            return None
        first, lanes = run
        region.append(Range.from_min_extent(first, const(lanes, first.dtype)))
    return region


def _box(indices: tuple[PrimExpr, ...]) -> Box | None:
    region = _region(indices)
    if region is None:
        return None
    return [(dim.min, add(dim.min, sub(dim.extent, const(1, dim.extent.dtype)))) for dim in region]
