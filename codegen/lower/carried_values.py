"""Analysis of the loops that carry values of a buffer from one iteration to a later one.

A loop carries no value if each iteration has written all elements that it reads: then every
iteration may have private memory. This is array privatisation (Tu and Padua, "Automatic Array
Privatization", 1993), decided read by read from the regions of the stores before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from codegen.lower.element_sets import (
    Unknown,
    constant_ranges,
    distance,
    grid_over,
    place_of,
    rows,
    values,
)
from codegen.lower.indices import run_of
from codegen.lower.rewriters import IF_THEN_ELSE, ScopedRewriter, condition_of, given
from codegen.lower.thread_axes import tensor_core_of
from tensorir.arith import Analyzer, estimate_region_strict_bound
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer, BufferRegion, Range
from tensorir.nodes.expr import (
    And,
    BufferLoad,
    Call,
    LogicalOp,
    Not,
    PrimExpr,
    Var,
)
from tensorir.nodes.node import Node
from tensorir.nodes.ops import add, all_of, conjuncts, const, logical_not, sub
from tensorir.rewriting.element_rewriter import indices_in_source
from tensorir.rewriting.visit import collect_vars, substitute, uses_var
from tensorir.semantics.purity import is_pure


def carrying_loops(func: PrimFunc, buffers: Collection[Buffer]) -> dict[Buffer, set[s.For]]:
    """Return the loops that may carry values of allocated `buffers` between iterations.

    Those loops are around uses of the buffer and inside the block that allocates it. Blocks have no
    axes. A store covers a read if it runs before the read, in the same or an earlier iteration of
    all loops around both, and if its region over its own loops contains the read element; for
    memory that threads share, element by element where the region cannot say. A store under
    conditions on loops that its indices do not use, such as an initialisation, counts if it runs
    in the first iteration of those loops; they carry its values.
    """
    walker = _Walker(func, buffers)
    walker(func.body)
    return walker.carrying


@dataclass(slots=True)
class _Store:
    """A store to a buffer, and the nest of statements around it."""

    indices: tuple[PrimExpr, ...]
    at: Nest


@dataclass(slots=True)
class _Lifetime:
    """A buffer while it is allocated."""

    buffer: Buffer
    home: Nest
    stores: list[_Store] = field(default_factory=list)


class _Walker(ScopedRewriter):
    """Walks a program in the order in which it runs."""

    def __init__(self, func: PrimFunc, buffers: Collection[Buffer]) -> None:
        super().__init__(func)
        self.carrying: dict[Buffer, set[s.For]] = {buffer: set() for buffer in buffers}
        self._at = Nest(func.body)
        self._lives: dict[Var, _Lifetime] = {}
        self._views: dict[Buffer, BufferRegion] = {}
        """The source region of each view."""

    @contextmanager
    def within(self, node: Node, field: str) -> Iterator[None]:
        outer = self._at
        if isinstance(node, (s.For, s.LetStmt, s.While, s.IfThenElse, s.BlockRealize)):
            self._at = outer.enter(node, condition_of(node, field))
        with super().within(node, field):
            yield
        self._at = outer

    def rewrite_AttrStmt(self, node: s.AttrStmt) -> s.Stmt:  # noqa: N802
        if tensor_core_of(node) is None:
            return self.generic(node)
        self(node.body)  # the operands of the instruction are no loads of their first elements
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        self.generic(node)
        life, indices = self._resolve_views(node.buffer, node.indices)
        if life is not None and node.predicate is None:
            life.stores.append(_Store(indices, self._at))
        return node

    def rewrite_Block(self, node: s.Block) -> s.Block:  # noqa: N802
        for buffer in node.alloc_buffers:
            if buffer in self.carrying:
                self._lives[buffer.data] = _Lifetime(buffer, self._at)
        for match in node.match_buffers:
            self.each(tuple(dim.min for dim in match.source.region))
            self._views[match.buffer] = match.source
        self(node.body)
        return node

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        self.generic(node)
        self._read(node)
        return node

    def rewrite_LogicalOp(self, node: LogicalOp) -> PrimExpr:  # noqa: N802
        self(node.a)
        with given(self.analyzer, node.a if isinstance(node, And) else Not(node.a)):
            self(node.b)
        return node

    def rewrite_Call(self, node: Call) -> PrimExpr:  # noqa: N802
        if node.op is not IF_THEN_ELSE:
            return self.generic(node)
        condition, yes, no = node.args
        self(condition)
        for holds, part in ((condition, yes), (logical_not(condition), no)):
            with given(self.analyzer, holds):
                self(part)
        return node

    # ------------------------------------------------------------------------------------ accesses

    def _resolve_views(
        self, buffer: Buffer, indices: tuple[PrimExpr, ...]
    ) -> tuple[_Lifetime | None, tuple[PrimExpr, ...]]:
        """Return the tracked buffer behind a buffer or view, and the indices into it."""
        while (source := self._views.get(buffer)) is not None:
            buffer, indices = source.buffer, tuple(indices_in_source(source, indices))
        return self._lives.get(buffer.data), indices

    def _read(self, node: BufferLoad) -> None:
        life, indices = self._resolve_views(node.buffer, node.indices)
        if life is None:
            return
        found: set[s.For] | None = None
        for store in reversed(life.stores):
            is_shared = memory_of(life.buffer.data) == "shared"
            cover = _Cover(store, self._at, life.home, self.analyzer, is_shared)
            if cover.holds(indices):
                if not cover.first:
                    return
                found = found or cover.first
        if found is None:
            around = self._at.up_to(life.home)
            found = {step.node for step in around if isinstance(step.node, s.For)}
        self.carrying[life.buffer] |= found


class _Cover:
    """The elements that a store has written before a later read."""

    def __init__(
        self, store: _Store, read: Nest, home: Nest, analyzer: Analyzer, by_elements: bool
    ) -> None:
        self._indices = store.indices
        self._analyzer = analyzer
        self._by_elements = by_elements
        self._of_read = [step.node for step in read.up_to(home) if isinstance(step.node, s.For)]
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
        """The loops in which only the first iteration surely writes."""

    def holds(self, indices: tuple[PrimExpr, ...]) -> bool:
        """Return True if the element or vector at `indices` has been written."""
        if any(isinstance(node, s.While) for node in self._own):
            return False
        predicate = self._restrictions()
        if predicate is None or not self._is_done_once():
            return False
        if self._by_elements and self._holds_all(indices, predicate):
            return True
        written = self._written_box(predicate)
        read = _box(indices)
        if written is None or read is None:
            return False
        return all(
            self._at_most(w[0], r[0]) and self._at_most(r[1], w[1])
            for w, r in zip(written, read, strict=True)
        )

    def _holds_all(self, indices: tuple[PrimExpr, ...], predicate: Sequence[PrimExpr]) -> bool:
        """Say whether the store fills a box that has every element which is read."""
        stored = {var for index in self._indices for var in collect_vars(index)}
        loops = [node for node in self._own if isinstance(node, s.For)]
        own = constant_ranges(loops)
        if len(own) < len(loops) or not all(own.values()):
            return False
        read = constant_ranges(loop for loop in self._of_read if loop.loop_var not in stored)
        try:
            to, at = (
                place_of(x, own.keys() | read.keys(), self._analyzer.linearizer)
                for x in (self._indices, indices)
            )
            steps = distance(to, at)
            grid = grid_over(own, [*to.written_out, *predicate])
            columns = [values(part, grid) for part in to.written_out]
            taken = values(all_of(predicate), grid)
            written = np.unique(rows(columns, taken), axis=0)
            if not len(written):
                return False
            low, high = written.min(axis=0), written.max(axis=0)
            if len(written) < np.prod(high - low + 1):
                return False
            for part, step, least, most in zip(at.written_out, steps, low, high, strict=True):
                reached = np.asarray(values(part, grid_over(read, [part]))) + step
                if reached.min() < least or reached.max() > most:
                    return False
        except Unknown:
            return False
        return True

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
        """Return True if the store runs in the first iteration of the loops `first`."""
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

    def _written_box(self, predicate: Sequence[PrimExpr]) -> Box | None:
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
    """Return the region of an access; None for lanes that are not contiguous."""
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


# ------------------------------------------------------------------------------------------ nesting


@dataclass(eq=False, slots=True)
class Nest:
    """A node on the path from the root of a program to a place, linked to the nodes around it."""

    node: Node
    parent: Nest | None = None
    depth: int = 0
    condition: PrimExpr | None = None
    """The condition under which the node runs its part with the place, if there is one."""

    def enter(self, node: Node, condition: PrimExpr | None = None) -> Nest:
        """Return the nest of a statement directly inside `node`."""
        return Nest(node, self, self.depth + 1, condition)

    def up_to(self, outer: Nest) -> Iterator[Nest]:
        """Yield the nests from this one outwards up to `outer`, which is excluded."""
        at: Nest | None = self
        while at is not None and at is not outer:
            yield at
            at = at.parent

    def common(self, other: Nest) -> Nest:
        """Return the innermost nest around both, which may be one of them."""
        a, b = self, other
        while a is not b:
            if a.depth < b.depth:
                a, b = b, a
            assert a.parent is not None
            a = a.parent
        return a
