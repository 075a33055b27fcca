"""Analysis of memory accesses in flat programs: places in a loop, aliasing, and reordering."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from codegen.lower.indices import as_ramp, leading_lanes, run_of, split_constant
from tensorir.arith.terms import expr_key
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, IntImm, PrimExpr, Ramp, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import all_of
from tensorir.rewriting.visit import children, defined, statements, walk_once
from tensorir.semantics.purity import has_effects, is_exit


@dataclass(eq=False, frozen=True, slots=True)
class Guard:
    """Loop-invariant conditions around an access."""

    conditions: tuple[PrimExpr, ...] = ()
    keys: tuple[Any, ...] = ()
    """Their structural keys."""

    def and_(self, condition: PrimExpr, key: Any) -> Guard:
        """Return these conditions and another one."""
        if key in self.keys:
            return self
        return Guard((*self.conditions, condition), (*self.keys, key))

    def around(self, stmt: s.Stmt) -> s.Stmt:
        """Return a statement guarded by the conditions."""
        return s.IfThenElse(all_of(self.conditions), stmt) if self.conditions else stmt


ALWAYS: Final = Guard()


@dataclass(eq=False, slots=True)
class Place:
    """The elements `base + first`, ... of a buffer, `lanes` in number.

    All accesses to a place have the same predicate and the same guard.
    """

    base: Any
    first: int
    lanes: int
    index: PrimExpr
    predicate: PrimExpr | None
    guard: Guard
    is_always_stored: bool = False
    """True if each iteration stores to it."""

    @property
    def end(self) -> int:
        """The end of the accessed elements, excluding lanes that a constant mask disables."""
        return self.first + leading_lanes(self.predicate, self.lanes)

    def is_stored_by(self, stmt: s.Stmt, pointer: Var) -> bool:
        """Return True if a statement before the loop surely stores to the place."""
        if isinstance(stmt, s.BufferStore):
            return stmt.buffer.data is pointer and self._is_covered_by(stmt)
        if isinstance(stmt, s.IfThenElse):
            if stmt.else_case is not None or expr_key(stmt.condition) not in self.guard.keys:
                return False
            return self.is_stored_by(stmt.then_case, pointer)
        if isinstance(stmt, s.SeqStmt):
            return any(self.is_stored_by(part, pointer) for part in stmt.seq)
        if isinstance(stmt, (s.Allocate, s.LetStmt, s.AttrStmt)):
            return self.is_stored_by(stmt.body, pointer)
        return False

    def _is_covered_by(self, store: s.BufferStore) -> bool:
        run = run_of(store.indices[0])
        if run is None:
            return False
        base, first = split_constant(run[0])
        if first > self.first or first + run[1] < self.first + self.lanes:
            return False
        if (None if base is None else expr_key(base)) != self.base:
            return False
        if store.predicate is None:
            return True
        if self.predicate is None or first != self.first:
            return False
        return bool(expr_key(store.predicate) == expr_key(self.predicate))


class FixedKeys:
    """Computes structural keys of expressions that a loop does not change."""

    def __init__(self, inside: Container[Var]) -> None:
        self._inside = inside
        """The variables that are defined inside the loop."""
        self._known: dict[PrimExpr, Any] = {}

    def __call__(self, expr: PrimExpr) -> Any:
        """Return the key of an expression, None if the loop may change it."""
        if expr not in self._known:
            moves = any(
                part in self._inside if isinstance(part, Var) else type(part) in (BufferLoad, Call)
                for part in walk_once(expr)
            )
            self._known[expr] = None if moves else expr_key(expr)
        return self._known[expr]


class Accesses:
    """The accesses to one pointer inside a loop."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.places: dict[PrimExpr, Place] = {}
        """The places by index expression; equal expressions share a place."""
        self.distinct: dict[tuple[Any, int, int], Place] = {}
        self.is_fixed = True
        """False if an index changes in the loop."""
        self.has_one_mask = True
        """False if accesses to one place have different masks, or a mask that the loop changes."""
        self.has_one_guard = True
        """False if accesses to one place have different conditions."""
        self.is_stored = False

    def are_separate(self) -> bool:
        """Return True if the places are provably disjoint; places of different bases are not."""
        places = sorted(self.distinct.values(), key=lambda p: p.first)
        if len({place.base for place in places}) > 1:
            return False
        pairs = itertools.pairwise(places)
        return all(a.end <= b.first for a, b in pairs)


class Collector:
    """Collects the accesses in the body of a loop or of an allocation.

    `outer` are the variables that the loop changes; allocations in `on_heap` may fail.
    """

    def __init__(
        self, body: s.Stmt, outer: Iterable[Var], on_heap: Container[Var] = frozenset()
    ) -> None:
        self._on_heap = on_heap
        self.accesses: dict[Var, Accesses] = {}
        self.escaped: set[Var] = set()
        self.may_leave = False
        """True if the function may end inside the loop."""
        self._inside: set[Var] = {*outer}
        self._key = FixedKeys(self._inside)
        self._guard = ALWAYS
        self._seen: set[PrimExpr] = set()
        """Expressions that were visited under the present guard."""
        self.visit(body, certain=True)

    def visit(self, node: s.Stmt, certain: bool) -> None:
        """Visit a statement; `certain` is True if it runs whenever its guard holds."""
        if isinstance(node, s.BufferStore):
            self._store(node, certain)
            return
        if isinstance(node, s.IfThenElse):
            self._branch(node, certain)
            return
        self._inside.update(defined(node))
        if isinstance(node, s.For):
            certain = certain and type(node.extent) is IntImm and node.extent.value > 0
        elif isinstance(node, s.Allocate):
            # Memory that an iteration allocates does not exist before the loop.
            self.escaped.add(node.buffer_var)
            self.may_leave |= node.buffer_var in self._on_heap
        elif isinstance(node, s.While):
            certain = False
        elif isinstance(node, s.AssertStmt):
            self.may_leave = True
        for part in children(node):
            if isinstance(part, s.Stmt):
                self.visit(part, certain)
            else:
                self._expression(part)

    def _branch(self, node: s.IfThenElse, certain: bool) -> None:
        self._expression(node.condition)
        key = self._key(node.condition) if node.else_case is None else None
        if key is None:
            self.visit(node.then_case, certain=False)
            if node.else_case is not None:
                self.visit(node.else_case, certain=False)
            return
        outer = self._guard, self._seen
        self._guard, self._seen = self._guard.and_(node.condition, key), set()
        self.visit(node.then_case, certain)
        self._guard, self._seen = outer

    def _store(self, node: s.BufferStore, certain: bool) -> None:
        accesses = self._of(node.buffer)
        accesses.is_stored = True
        place = self._access(accesses, node.indices[0], node.predicate)
        if place is not None and certain:
            place.is_always_stored = True
        for part in children(node):
            self._expression(part)

    def _expression(self, node: Node) -> None:
        # Copies of an unrolled body share expressions, so each expression is visited once.
        seen = self._seen
        stack = [node]
        while stack:
            part = stack.pop()
            if part in seen:
                continue
            seen.add(part)  # type: ignore[arg-type]
            kind = type(part)
            if kind is BufferLoad:
                self._access(self._of(part.buffer), part.indices[0], part.predicate)  # type: ignore[attr-defined]
            elif kind is Call:
                self._call(part)  # type: ignore[arg-type]
            elif isinstance(part, Var) and part.dtype.is_handle:
                self.escaped.add(part)
            stack.extend(children(part))

    def _call(self, node: Call) -> None:
        self.may_leave = self.may_leave or is_exit(node)
        name = getattr(node.op, "short_name", "")
        if name == "address_of" and type(node.args[0]) is BufferLoad:
            self.escaped.add(node.args[0].buffer.data)

    def _of(self, buffer: Buffer) -> Accesses:
        known = self.accesses.get(buffer.data)
        if known is None:
            known = self.accesses[buffer.data] = Accesses(buffer)
        elif known.buffer.dtype is not buffer.dtype:
            known.is_fixed = False
        return known

    def _access(
        self, accesses: Accesses, index: PrimExpr, predicate: PrimExpr | None
    ) -> Place | None:
        if not accesses.is_fixed:
            return None
        place = accesses.places.get(index)
        if place is None:
            place = self._place(index, predicate)
            if place is not None:
                key = (place.base, place.first, place.lanes)
                place = accesses.places[index] = accesses.distinct.setdefault(key, place)
        if place is None:
            accesses.is_fixed = False
            return None
        accesses.has_one_guard &= place.guard.keys == self._guard.keys
        accesses.has_one_mask &= self._has_mask_of(place, predicate)
        return place

    def _has_mask_of(self, place: Place, predicate: PrimExpr | None) -> bool:
        """Return True if an access has the mask of its place, and the loop does not change it."""
        if predicate is None or place.predicate is None:
            return predicate is place.predicate
        key = self._key(predicate)
        return key is not None and bool(key == self._key(place.predicate))

    def _place(self, index: PrimExpr, predicate: PrimExpr | None) -> Place | None:
        run = run_of(index)
        if run is None:
            return None
        start, lanes = run
        base, first = split_constant(start)
        key = None if base is None else self._key(base)
        if key is None and base is not None:
            return None
        return Place(key, first, lanes, index, predicate, self._guard)


# ----------------------------------------------------------------------------------------- aliasing


class Aliasing:
    """Alias analysis of the pointers of a function.

    Allocations never alias. Buffer parameters do not alias one another if the function is marked
    `tir.noalias`. Any other pointer may alias.
    """

    def __init__(self, func: PrimFunc) -> None:
        self._func = func
        noalias = func.attrs.get("tir.noalias")
        self._parameters_are_distinct = noalias is not None and bool(int(noalias))
        self._parameters = frozenset(buffer.data for buffer in func.buffer_map.values())

    @cached_property
    def allocated(self) -> frozenset[Var]:
        """The pointers to memory that the function allocates."""
        kinds = (s.Allocate, s.AllocateConst)
        return frozenset(n.buffer_var for n in statements(self._func.body) if isinstance(n, kinds))

    def may_overlap(self, some: Collection[Var], others: Collection[Var]) -> bool:
        """Return True if a pointer in `some` may alias a pointer in `others`."""
        if not set(some).isdisjoint(others):
            return True
        if not others or self.allocated.issuperset(some) or self.allocated.issuperset(others):
            return False
        outside = {*some, *others} - self.allocated
        return not (self._parameters_are_distinct and outside <= self._parameters)


class Reordering:
    """Dependence analysis of successive stores."""

    def __init__(self, stores: list[s.BufferStore], aliasing: Aliasing) -> None:
        self._stores = stores
        self._aliasing = aliasing
        self._all: bool | None = None

    def may_permute(self, first: int, last: int) -> bool:
        """Return True if the stores from `first` to `last` have the same effect in every order.

        They do if no store loads from memory that another one stores to, they have no other side
        effects, and they store to different elements.
        """
        if self._all is None:
            self._all = self._are_independent(self._stores)
        return self._all or self._are_independent(self._stores[first : last + 1])

    def _are_independent(self, stores: list[s.BufferStore]) -> bool:
        written: dict[Var, list[s.BufferStore]] = {}
        loaded: set[Var] = set()
        for store in stores:
            written.setdefault(store.buffer.data, []).append(store)
            for part in (store.value, *store.indices):
                loaded |= {n.buffer.data for n in walk_once(part) if type(n) is BufferLoad}
                if has_effects(part):
                    return False
        if self._aliasing.may_overlap(written.keys(), loaded):
            return False
        pointers = list(written)
        return all(
            not self._aliasing.may_overlap({pointer}, pointers[k + 1 :])
            and _are_apart(written[pointer])
            for k, pointer in enumerate(pointers)
        )


def _are_apart(stores: list[s.BufferStore]) -> bool:
    """Return True if no two stores to the same memory are to the same element."""
    if len(stores) == 1:
        return True
    seen: set[int] = set()
    base = None
    for store in stores:
        found = _elements(store)
        if found is None or not seen.isdisjoint(found[1]):
            return False
        if base is not None and base != found[0]:
            return False
        base = found[0]
        seen.update(found[1])
    return len({store.buffer.dtype for store in stores}) == 1


def _elements(store: s.BufferStore) -> tuple[Any, range] | None:
    """Return the elements that a store writes: a base, and distances from the base."""
    index = as_ramp(store.indices[0])
    stride, lanes = 1, 1
    if isinstance(index, Ramp):
        if type(index.stride) is not IntImm or not index.stride.value:
            return None
        stride, lanes, index = index.stride.value, index.lanes, index.base
    elif index.dtype.lanes > 1:
        return None
    base, first = split_constant(index)
    key = None if base is None else expr_key(base)
    return (key,), range(first, first + stride * lanes, stride)
