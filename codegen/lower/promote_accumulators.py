"""Keeping the accumulators of a loop in registers while the loop runs.

Scalar replacement (Callahan, Carr and Kennedy, "Improving Register Allocation for Subscripted
Variables", 1990): the elements that every iteration of a loop updates at the same places are loaded
before the loop and stored after it. In between they live in a small allocation with constant
indices, which LLVM turns into one value (a phi node) for each element or vector.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from codegen.lower.aliasing import Aliasing
from codegen.lower.purity import is_exit
from codegen.lower.ramps import run_of, split_constant
from codegen.lower.remarks import done, missed
from codegen.lower.stack_memory import STACK_TOTAL, stack_bytes
from codegen.lower.unswitch import unconditional
from tensorir import stmt as s
from tensorir.arith.opaque import expr_key
from tensorir.buffer import Buffer, decl_buffer
from tensorir.dtype import INT32, DataType
from tensorir.expr import BufferLoad, Call, IntImm, PrimExpr, Ramp, Var
from tensorir.function import PrimFunc
from tensorir.node import Node
from tensorir.ops import TRUE, all_of, const
from tensorir.stmt import ForKind
from tensorir.visit import Rewriter, children, walk_once

MAX_SLOTS: Final = 64
"""The most accumulators that a loop keeps; more would go through memory in any case."""


def promote_accumulators(func: PrimFunc) -> PrimFunc:
    """Load the accumulators of a serial loop before the loop and store them after it.

    Before: for k: C[i + Ramp(0, 1, 16)] = C[i + Ramp(0, 1, 16)] + A[k] * B[...]
    After:  R = allocate(16); R[Ramp(0, 1, 16)] = C[i + Ramp(0, 1, 16)]
            for k: R[Ramp(0, 1, 16)] = R[Ramp(0, 1, 16)] + A[k] * B[...]
            C[i + Ramp(0, 1, 16)] = R[Ramp(0, 1, 16)]

    Done for the outermost loop for which it is right: every access to that memory in the loop is to
    one of a few places that do not move and do not overlap; each place is stored to in every
    iteration; nothing else can reach the memory; and the loop runs to its end, for whoever ends the
    function inside it (`T.ret`, an assertion, a call that fails, memory that the heap has not)
    leaves what was stored before. A
    parameter is reached by others of the
    function's buffers unless it is marked `tir.noalias`. Allocations that are accessed by constant
    indices only are left alone, because LLVM keeps them in registers as they are. A tile over which
    a loop runs that nobody asked to unroll moves, and stays in memory.

    A place may be accessed under a condition or with a mask that the loop does not change, as at
    the tail of a tile that does not divide its buffer: the same for all accesses to the place. It
    is loaded and stored under the same. The loop then comes in two versions (loop unswitching):

    Before: for k: if i < n: C[i] = C[i] + A[k]
    After:  if i < n: (as above, for k: C[i] = C[i] + A[k]), else: (as above, with the condition)
    """
    private = _Private(func)
    for pointer in private.in_registers:
        done("promote_accumulators", "all its indices are constant", buffer=pointer)
    return func.with_body(_Promote(private)(func.body))


class _Private:
    """The memory that is in registers already, and the memory that no other pointer leads to."""

    def __init__(self, func: PrimFunc) -> None:
        self.in_registers: set[Var] = set()
        """Allocations that are never accessed by an index that varies."""
        self.on_heap: set[Var] = set()
        """Allocations that may fail."""
        moving: set[Var] = set()
        # Half of the stack is left to the tiles, which come before what they are written around.
        used = STACK_TOTAL // 2
        for node in walk_once(func.body):  # copies of an unrolled body share expressions
            kind = type(node)
            if kind is s.Allocate:
                self.in_registers.add(node.buffer_var)  # type: ignore[attr-defined]
                size = stack_bytes(node, used)  # type: ignore[arg-type]
                if size is None:
                    self.on_heap.add(node.buffer_var)  # type: ignore[attr-defined]
                else:
                    used += size
            elif isinstance(node, (BufferLoad, s.BufferStore)):
                if not _is_constant(node.indices[0]):
                    moving.add(node.buffer.data)
            elif isinstance(node, Var) and node.dtype.is_handle:
                moving.add(node)
        self.in_registers -= moving
        self.aliasing = Aliasing(func)


def _is_constant(index: PrimExpr) -> bool:
    if type(index) is Ramp:
        index = index.base
    return type(index) is IntImm


# ------------------------------------------------------------------------------------------- places


@dataclass(eq=False, frozen=True, slots=True)
class _Guard:
    """Conditions around an access that the loop does not change."""

    conditions: tuple[PrimExpr, ...] = ()
    keys: tuple[Any, ...] = ()
    """Their structural keys."""

    def and_(self, condition: PrimExpr, key: Any) -> _Guard:
        """Return these conditions and another one."""
        if key in self.keys:
            return self
        return _Guard((*self.conditions, condition), (*self.keys, key))

    def around(self, stmt: s.Stmt) -> s.Stmt:
        """Return a statement that runs where the conditions hold."""
        return s.IfThenElse(all_of(self.conditions), stmt) if self.conditions else stmt


_ALWAYS: Final = _Guard()


@dataclass(eq=False, slots=True)
class _Place:
    """Elements `base + first`, ... of a buffer: `lanes` of them, and where they go meanwhile.

    All accesses have the same predicate and stand under the same guard.
    """

    base: Any
    first: int
    lanes: int
    index: PrimExpr
    predicate: PrimExpr | None
    guard: _Guard
    slot: int = 0
    is_always_stored: bool = False


class _Accesses:
    """The accesses to one pointer inside a loop."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.places: dict[PrimExpr, _Place] = {}
        """The places by index expression; equal ones share a place."""
        self.distinct: dict[tuple[Any, int, int], _Place] = {}
        self.is_fixed = True
        self.is_stored = False

    def are_separate(self) -> bool:
        """Say whether no two places overlap; places of different bases may."""
        places = sorted(self.distinct.values(), key=lambda p: p.first)
        if len({place.base for place in places}) > 1:
            return False
        pairs = itertools.pairwise(places)
        return all(a.first + a.lanes <= b.first for a, b in pairs)


class _Collector:
    """Collects the accesses in a loop."""

    def __init__(self, loop: s.For, private: _Private) -> None:
        self._on_heap = private.on_heap
        self.accesses: dict[Var, _Accesses] = {}
        self.escaped: set[Var] = set()
        self.may_leave = False
        """True if the function may end inside the loop."""
        self._inside: set[Var] = {loop.loop_var}
        self._keys: dict[PrimExpr, Any] = {}
        self._guard = _ALWAYS
        self._seen: set[PrimExpr] = set()
        """Expressions that were visited under the present guard."""
        self.visit(loop.body, certain=True)

    def visit(self, node: s.Stmt, certain: bool) -> None:
        """Visit a statement; `certain` says that it runs whenever its guard holds."""
        kind = type(node)
        if kind is s.BufferStore:
            self._store(node, certain)  # type: ignore[arg-type]
            return
        if kind is s.IfThenElse:
            self._branch(node, certain)  # type: ignore[arg-type]
            return
        if kind is s.For:
            self._inside.add(node.loop_var)  # type: ignore[attr-defined]
            extent = node.extent  # type: ignore[attr-defined]
            certain = certain and type(extent) is IntImm and extent.value > 0
        elif kind is s.LetStmt:
            self._inside.add(node.var)  # type: ignore[attr-defined]
        elif kind is s.Allocate:
            # Memory of an iteration's own is not there before the loop.
            self.escaped.add(node.buffer_var)  # type: ignore[attr-defined]
            self.may_leave |= node.buffer_var in self._on_heap  # type: ignore[attr-defined]
        elif kind is s.While:
            certain = False
        elif kind is s.AssertStmt:
            self.may_leave = True
        for part in children(node):
            if isinstance(part, s.Stmt):
                self.visit(part, certain)
            else:
                self._expression(part)

    def _branch(self, node: s.IfThenElse, certain: bool) -> None:
        self._expression(node.condition)
        key = self._key(node.condition) if node.else_case is None else _MOVES
        if key is _MOVES:
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
        # Copies of an unrolled body share expressions; what was seen need not be seen again.
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

    def _of(self, buffer: Buffer) -> _Accesses:
        known = self.accesses.get(buffer.data)
        if known is None:
            known = self.accesses[buffer.data] = _Accesses(buffer)
        elif known.buffer.dtype is not buffer.dtype:
            known.is_fixed = False
        return known

    def _access(
        self, accesses: _Accesses, index: PrimExpr, predicate: PrimExpr | None
    ) -> _Place | None:
        if not accesses.is_fixed:
            return None
        place = accesses.places.get(index)
        if place is None:
            place = self._place(index, predicate)
            if place is not None:
                key = (place.base, place.first, place.lanes)
                place = accesses.places[index] = accesses.distinct.setdefault(key, place)
        if place is None or not self._is_alike(place, predicate):
            accesses.is_fixed = False
            return None
        return place

    def _is_alike(self, place: _Place, predicate: PrimExpr | None) -> bool:
        """Say whether an access happens under the conditions of its place, which do not move."""
        if place.guard.keys != self._guard.keys:
            return False
        if predicate is None or place.predicate is None:
            return predicate is place.predicate
        key = self._key(predicate)
        return key is not _MOVES and bool(key == self._key(place.predicate))

    def _place(self, index: PrimExpr, predicate: PrimExpr | None) -> _Place | None:
        run = run_of(index)
        if run is None:
            return None
        start, lanes = run
        base, first = split_constant(start)
        key = None if base is None else self._key(base)
        return None if key is _MOVES else _Place(key, first, lanes, index, predicate, self._guard)

    def _key(self, expr: PrimExpr) -> Any:
        """Return the structural key of an expression, `_MOVES` if the loop may change it."""
        known = self._keys.get(expr)
        if known is None:
            moves = any(
                part in self._inside if isinstance(part, Var) else type(part) in (BufferLoad, Call)
                for part in walk_once(expr)
            )
            known = self._keys[expr] = _MOVES if moves else expr_key(expr)
        return known


_MOVES: Final = object()


# ---------------------------------------------------------------------------------------- rewriting


class _Promote(Rewriter):
    def __init__(self, private: _Private) -> None:
        self._private = private

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        return node

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        return node

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        if node.kind is not ForKind.SERIAL:
            return self.generic(node)
        if not _runs(node):
            missed("promote_accumulators", "the loop may run less than twice", node.loop_var)
            return self.generic(node)
        promoted = self._promotable(node)
        if not promoted:
            return self.generic(node)
        general = self._promoted(node, promoted)
        places = [place for accesses in promoted for place in accesses.distinct.values()]
        fast = unconditional(
            node,
            [condition for place in places for condition in place.guard.conditions],
            [place.predicate for place in places if place.predicate is not None],
        )
        if fast is None:
            return general
        done("promote_accumulators", "a version without conditions for full tiles", node.loop_var)
        return s.IfThenElse(
            fast.condition, self._promoted(fast.loop, self._promotable(fast.loop)), general
        )

    def _promoted(self, node: s.For, promoted: list[_Accesses]) -> s.Stmt:
        tiles = {accesses.buffer.data: _Tile(accesses) for accesses in promoted}
        body = self(_Redirect(tiles)(node.body))
        result: s.Stmt = s.sequence(
            [
                *(load for tile in tiles.values() for load in tile.loads()),
                node.with_(body=body),
                *(store for tile in tiles.values() for store in tile.stores()),
            ]
        )
        for tile in tiles.values():
            size = const(tile.size, INT32)
            local = tile.local
            result = s.Allocate(local.data, local.dtype, (size,), TRUE, result)
        return result

    def _promotable(self, loop: s.For) -> list[_Accesses]:
        collector = _Collector(loop, self._private)
        found = []
        for pointer, accesses in collector.accesses.items():
            if not accesses.is_stored or pointer in self._private.in_registers:
                continue
            obstacle = self._obstacle(pointer, accesses, collector)
            if obstacle is None:
                found.append(accesses)
                done("promote_accumulators", "kept", loop.loop_var, pointer)
            else:
                missed("promote_accumulators", obstacle, loop.loop_var, pointer)
        return found

    def _obstacle(self, pointer: Var, accesses: _Accesses, collector: _Collector) -> str | None:
        """Return why the memory cannot be kept in registers across the loop; None if it can."""
        if collector.may_leave:
            return "the function may end in the loop"
        if not accesses.is_fixed:
            return "an access moves in the loop, or its conditions differ"
        if pointer in collector.escaped:
            return "its address is taken, or it is allocated inside"
        if len(accesses.distinct) > MAX_SLOTS:
            return f"{len(accesses.distinct)} places are more than {MAX_SLOTS}"
        if not all(place.is_always_stored for place in accesses.distinct.values()):
            return "it is not stored to in every iteration"
        if not accesses.are_separate():
            return "its places may overlap"
        others = collector.accesses.keys() - {pointer}
        if self._private.aliasing.may_overlap({pointer}, others):
            return "another buffer may share its memory (tir.noalias is not set)"
        return None


def _runs(loop: s.For) -> bool:
    """Say whether the loop has at least two iterations, so that accesses before it are safe."""
    return type(loop.extent) is IntImm and loop.extent.value > 1


class _Tile:
    """The local memory that stands in for places of a buffer."""

    def __init__(self, accesses: _Accesses) -> None:
        self.buffer = accesses.buffer
        self.places = sorted(accesses.distinct.values(), key=lambda p: p.first)
        self.size = 0
        for place in self.places:
            place.slot = self.size
            self.size += place.lanes
        dtype: DataType = self.buffer.dtype
        self.local = decl_buffer((self.size,), dtype, self.buffer.name + "_reg", scope="local")
        own: dict[int, PrimExpr] = {id(place): _slot_index(place) for place in self.places}
        self.indices: Mapping[PrimExpr, PrimExpr] = {
            index: own[id(place)] for index, place in accesses.places.items()
        }
        self._own = own

    def loads(self) -> list[s.Stmt]:
        """Return the statements that fill it."""
        return [
            place.guard.around(
                s.BufferStore(
                    self.local,
                    BufferLoad(self.buffer, (place.index,), place.predicate),
                    (self._own[id(place)],),
                )
            )
            for place in self.places
        ]

    def stores(self) -> list[s.Stmt]:
        """Return the statements that write it back."""
        return [
            place.guard.around(
                s.BufferStore(
                    self.buffer,
                    BufferLoad(self.local, (self._own[id(place)],)),
                    (place.index,),
                    place.predicate,
                )
            )
            for place in self.places
        ]


def _slot_index(place: _Place) -> PrimExpr:
    start = const(place.slot, INT32)
    return start if place.lanes == 1 else Ramp(start, const(1, INT32), place.lanes)


class _Redirect(Rewriter):
    """Sends the accesses of promoted buffers to their tiles."""

    def __init__(self, tiles: dict[Var, _Tile]) -> None:
        self._tiles = tiles
        self._memo: dict[PrimExpr, PrimExpr] = {}

    def rewrite_PrimExpr(self, node: PrimExpr) -> PrimExpr:  # noqa: N802
        known = self._memo.get(node)
        if known is None:
            known = self._memo[node] = self.generic(node)
        return known

    def rewrite_BufferLoad(self, node: BufferLoad) -> PrimExpr:  # noqa: N802
        known = self._memo.get(node)
        if known is None:
            tile = self._tiles.get(node.buffer.data)
            if tile is None:
                known = self.generic(node)
            else:
                known = BufferLoad(tile.local, (tile.indices[node.indices[0]],))
            self._memo[node] = known
        return known

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        value = self(node.value)
        tile = self._tiles.get(node.buffer.data)
        if tile is not None:
            return s.BufferStore(tile.local, value, (tile.indices[node.indices[0]],))
        indices, predicate = self.each(node.indices), self.maybe(node.predicate)
        if value is node.value and indices is node.indices and predicate is node.predicate:
            return node
        return s.BufferStore(node.buffer, value, indices, predicate)
