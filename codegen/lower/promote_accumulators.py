"""Keeping the accumulators of a loop in registers while the loop runs.

Scalar replacement (Callahan, Carr and Kennedy, "Improving Register Allocation for Subscripted
Variables", 1990): elements that every iteration of a loop updates at the same places are loaded
before the loop and stored after it. In the loop they are in a small allocation with constant
indices, which LLVM turns into one value (a phi node) for each element or vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from operator import is_
from typing import Final

from codegen.lower.hoist_allocations import STACK_TOTAL, stack_bytes
from codegen.lower.loop_accesses import Accesses, Aliasing, Collector, Place
from codegen.lower.remarks import done, missed
from codegen.lower.rewriters import SharedRewriter, StatementRewriter
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.dtype import INT32
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Ramp, Var
from tensorir.nodes.ops import TRUE, const
from tensorir.nodes.stmt import ForKind
from tensorir.rewriting.visit import walk_once

_ONCE: Final = const(1, INT32)
MAX_SLOTS: Final = 64
"""The maximum number of accumulators of a loop; more would be spilled to memory in any case."""


def promote_accumulators(func: PrimFunc) -> PrimFunc:
    """Load the accumulators of a serial loop before the loop and store them after it.

    Before: for k: C[i + Ramp(0, 1, 16)] = C[i + Ramp(0, 1, 16)] + A[k] * B[...]
    After:  R = allocate(16); R[Ramp(0, 1, 16)] = C[i + Ramp(0, 1, 16)]
            for k: R[Ramp(0, 1, 16)] = R[Ramp(0, 1, 16)] + A[k] * B[...]
            C[i + Ramp(0, 1, 16)] = R[Ramp(0, 1, 16)]

    The pass chooses the outermost loop that satisfies four conditions. Every access to that memory
    in the loop is to one of a few places that do not move and do not overlap. Each place is stored
    to in every iteration of a loop that is not empty, or surely before the loop. No other pointer
    can access the memory. The function cannot end inside the loop (by `T.ret`, an assertion, a
    failed call, or a failed allocation), because the results stored so far would be lost. Other
    buffers of a function may alias a parameter unless it is marked `tir.noalias`. Allocations that
    are accessed as a whole by constant indices only are left alone, because LLVM keeps them in
    registers already. A tile that is indexed by a loop which is not unrolled moves, and stays in
    memory.

    A place may be accessed under a loop-invariant condition or mask, as in the tail of a tile that
    does not divide its buffer, if it is the same for all accesses to the place. The place is then
    loaded and stored under the same condition. Masked accumulators are also kept across the steps
    of an unrolled loop.
    """
    private = _Private(func)
    for pointer in private.in_registers:
        done("promote_accumulators", "all its indices are constant", buffer=pointer)
    return func.with_body(_Promote(private)(func.body))


class _Private:
    """The memory that is in registers already, and the memory without aliases."""

    def __init__(self, func: PrimFunc) -> None:
        self.in_registers: set[Var] = set()
        """Allocations that are accessed by constant indices only."""
        self.on_heap: set[Var] = set()
        """Allocations that may fail."""
        moving: set[Var] = set()
        # Half of the stack is reserved for the tiles, which are allocated before the statements
        # that use them.
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
                if node.predicate is not None or not _is_constant(node.indices[0]):
                    moving.add(node.buffer.data)
            elif isinstance(node, Var) and node.dtype.is_handle:
                moving.add(node)
        self.in_registers -= moving
        self.aliasing = Aliasing(func)


def _is_constant(index: PrimExpr) -> bool:
    if type(index) is Ramp:
        index = index.base
    return type(index) is IntImm


# ---------------------------------------------------------------------------------------- rewriting


class _Promote(StatementRewriter):
    def __init__(self, private: _Private) -> None:
        self._private = private
        self._before: list[s.Stmt] = []
        """The statements that have run before the current one."""

    def rewrite_SeqStmt(self, node: s.SeqStmt) -> s.Stmt:  # noqa: N802
        unrolled = self._unrolled_accumulators(node)
        if unrolled:
            return self._within_tiles(node, unrolled)
        known = len(self._before)
        parts = []
        for part in node.seq:
            parts.append(self(part))
            self._before.append(part)
        del self._before[known:]
        return node if all(map(is_, parts, node.seq)) else s.sequence(parts)

    def rewrite_For(self, node: s.For) -> s.Stmt:  # noqa: N802
        runs_once = type(node.extent) is IntImm and node.extent.value < 2
        if node.kind is not ForKind.SERIAL or runs_once:
            return self.generic(node)
        promoted = self._promotable(node)
        return self._within_tiles(node, promoted) if promoted else self.generic(node)

    def _within_tiles(self, node: s.Stmt, promoted: list[Accesses]) -> s.Stmt:
        """Return a statement that works on tiles, with loads before and stores after it."""
        tiles = {accesses.buffer.data: _Tile(accesses) for accesses in promoted}
        result: s.Stmt = s.sequence(
            [
                *(load for tile in tiles.values() for load in tile.copies(back=False)),
                self.generic(_Redirect(tiles)(node)),
                *(store for tile in tiles.values() for store in tile.copies(back=True)),
            ]
        )
        for tile in tiles.values():
            size = const(tile.size, INT32)
            local = tile.local
            result = s.Allocate(local.data, local.dtype, (size,), TRUE, result)
        return result

    def _unrolled_accumulators(self, node: s.SeqStmt) -> list[Accesses]:
        """Return the masked accumulators of unrolled steps, which are successive stores.

        LLVM forwards stored values to later loads, but not through masks.
        """
        stores = [_store_in(part) for part in node.seq]
        masked = Counter(
            store.buffer.data for store in stores if store and store.predicate is not None
        )
        if not masked or None in stores:
            return []
        collector = Collector(node, [], self._private.on_heap)
        return [
            accesses
            for pointer, accesses in collector.accesses.items()
            if masked[pointer] > len(accesses.distinct)
            and self._obstacle(_ONCE, pointer, accesses, collector) is None
        ]

    def _promotable(self, loop: s.For) -> list[Accesses]:
        collector = Collector(loop.body, [loop.loop_var], self._private.on_heap)
        found = []
        for pointer, accesses in collector.accesses.items():
            if not accesses.is_stored or pointer in self._private.in_registers:
                continue
            obstacle = self._obstacle(loop.extent, pointer, accesses, collector)
            if obstacle is None:
                found.append(accesses)
                done("promote_accumulators", "kept", loop.loop_var, pointer)
            else:
                # LLVM itself analyses a loop that may not run, and keeps more in registers.
                about = pointer if type(loop.extent) is IntImm else None
                missed("promote_accumulators", obstacle, loop.loop_var, about)
        return found

    def _obstacle(
        self, extent: PrimExpr, pointer: Var, accesses: Accesses, collector: Collector
    ) -> str | None:
        """Return the reason why memory cannot be kept in registers across the loop.

        None if it can.
        """
        if collector.may_leave:
            return "the function may end in the loop"
        if not (accesses.is_fixed and accesses.has_one_mask and accesses.has_one_guard):
            return "an access moves in the loop, or its conditions differ"
        if pointer in collector.escaped:
            return "its address is taken, or it is allocated inside"
        if len(accesses.distinct) > MAX_SLOTS:
            return f"{len(accesses.distinct)} places are more than {MAX_SLOTS}"
        if not all(
            place.is_always_stored or self._is_stored_before(place, pointer)
            for place in accesses.distinct.values()
        ):
            return "it is not stored to in every iteration, nor surely before the loop"
        if type(extent) is not IntImm and not all(
            self._is_stored_before(place, pointer) for place in accesses.distinct.values()
        ):
            return "the loop may not run, and it is not surely stored to before the loop"
        if not accesses.are_separate():
            return "its places may overlap"
        others = collector.accesses.keys() - {pointer}
        if self._private.aliasing.may_overlap({pointer}, others):
            return "another buffer may share its memory; set tir.noalias or use cache_write"
        return None

    def _is_stored_before(self, place: Place, pointer: Var) -> bool:
        return any(place.is_stored_by(stmt, pointer) for stmt in reversed(self._before))


def _store_in(stmt: s.Stmt) -> s.BufferStore | None:
    """Return a store, or the store under a condition; None for another statement."""
    if isinstance(stmt, s.IfThenElse) and stmt.else_case is None:
        stmt = stmt.then_case
    return stmt if isinstance(stmt, s.BufferStore) else None


class _Tile:
    """The local memory that replaces places of a buffer."""

    def __init__(self, accesses: Accesses) -> None:
        self._buffer = accesses.buffer
        self._slots: dict[Place, PrimExpr] = {}
        self.size = 0
        for place in sorted(accesses.distinct.values(), key=lambda p: p.first):
            start = const(self.size, INT32)
            one = place.lanes == 1
            self._slots[place] = start if one else Ramp(start, const(1, INT32), place.lanes)
            self.size += place.lanes
        name, dtype = f"{self._buffer.name}_reg", self._buffer.dtype
        self.local = decl_buffer((self.size,), dtype, name, scope="local")
        self.indices: Mapping[PrimExpr, PrimExpr] = {
            index: self._slots[place] for index, place in accesses.places.items()
        }

    def copies(self, *, back: bool) -> list[s.Stmt]:
        """Return the statements that load the tile, or with `back` the statements that store it."""
        found = []
        for place, slot in self._slots.items():
            if back:
                value = BufferLoad(self.local, (slot,))
                store = s.BufferStore(self._buffer, value, (place.index,), place.predicate)
            else:
                value = BufferLoad(self._buffer, (place.index,), place.predicate)
                store = s.BufferStore(self.local, value, (slot,))
            found.append(place.guard.around(store))
        return found


class _Redirect(SharedRewriter):
    """Redirects the accesses of promoted buffers to their tiles."""

    def __init__(self, tiles: dict[Var, _Tile]) -> None:
        super().__init__()
        self._tiles = tiles

    def load(self, node: BufferLoad) -> PrimExpr:
        tile = self._tiles.get(node.buffer.data)
        if tile is None:
            return self.generic(node)
        return BufferLoad(tile.local, (tile.indices[node.indices[0]],))

    def rewrite_BufferStore(self, node: s.BufferStore) -> s.Stmt:  # noqa: N802
        tile = self._tiles.get(node.buffer.data)
        if tile is None:
            return self.generic(node)
        return s.BufferStore(tile.local, self(node.value), (tile.indices[node.indices[0]],))
