"""Reading the loop nests of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from search.feature_extractor.nests import (
    LIMITS,
    AccessShape,
    BufferShape,
    Drives,
    ProgramShape,
    StoreShape,
    Term,
    Work,
)
from search.space_generator.annotations import (
    AUTO_TENSORIZE,
    PACKED,
    PARALLEL,
    REGISTER_TILE,
    UNROLL_EXPLICIT,
    UNROLL_IMPLICIT,
    VECTORIZE,
)
from search.space_generator.vector_lanes import update_stores
from tensorir.comparison.equal import structural_equal
from tensorir.function import IRModule
from tensorir.indices.accesses import common_prefix, placed_statements
from tensorir.memory.layout_rewrite import layout_free_positions
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, Call, IntImm, IterVar, PrimExpr, Var
from tensorir.nodes.intrin import Op
from tensorir.nodes.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tensorir.rewriting.visit import children, statements, walk


@dataclass(slots=True)
class Index:
    """An index: its steps along loops, its quotients and remainders, and its bounds."""

    steps: dict[int, float] = field(default_factory=dict)
    low: float = 0
    high: float = 0
    parts: tuple[tuple[float, int, bool, dict[int, float]], ...] = ()
    """Quotients and remainders: factor, divisor, True for a quotient, steps of the dividend."""

    def scaled(self, factor: float) -> Index:
        """Return the product with a number."""
        ends = (self.low * factor, self.high * factor)
        steps = {loop: step * factor for loop, step in self.steps.items()}
        parts = tuple((factor * part[0], *part[1:]) for part in self.parts)
        return Index(steps, min(ends), max(ends), parts)

    def plus(self, other: Index) -> Index:
        """Return the sum with another index."""
        steps = _sum(self.steps, other.steps, 1)
        parts = self.parts + other.parts
        return Index(steps, self.low + other.low, self.high + other.high, parts)

    def divided(self, divisor: int, is_quotient: bool) -> Index:
        """Return the quotient by a positive number, or the remainder."""
        low, high = self.low // divisor, self.high // divisor
        if low == high and is_quotient:
            return Index({}, low, high)
        if low == high:
            shift = low * divisor
            return Index(self.steps, self.low - shift, self.high - shift, self.parts)
        inside = self.steps
        for factor, by, quotient, steps in self.parts:
            inside = _sum(inside, steps, factor / by if quotient else factor)
        part = (1, divisor, is_quotient, inside)
        if is_quotient:
            return Index({}, low, high, (part,))
        return Index({}, 0, divisor - 1, (part,))


def _sum(a: Mapping[int, float], b: Mapping[int, float], factor: float) -> dict[int, float]:
    total = dict(a)
    for loop, step in b.items():
        total[loop] = total.get(loop, 0) + factor * step
    return total


@dataclass(slots=True)
class _Access:
    buffer: Buffer
    indices: list[Index]


@dataclass(slots=True)
class _Place:
    """The surroundings of a store in the program."""

    loops: list[int] = field(default_factory=list)
    several: set[int] = field(default_factory=set)
    """Loops with several statements in their bodies."""
    drives: dict[int, Drives] = field(default_factory=dict)
    intrinsic_from: int | None = None
    is_init: bool = False


@dataclass(slots=True)
class _Store:
    place: _Place
    target: _Access
    loads: list[_Access]
    work: list[int]
    updates: bool
    is_reordered: bool
    results: int


def read_nests(mod: IRModule) -> tuple[ProgramShape, NDArray[np.float64]]:
    """Return the structure and the numbers of a scheduled program."""
    return _read(mod).result()


def accessed_buffers(mod: IRModule) -> list[Buffer]:
    """Return the buffers that the numbers of buffers in `read_nests(mod)` refer to."""
    return list(_read(mod).accessed())


def _read(mod: IRModule) -> _Reader:
    reader = _Reader()
    for func in mod.prim_funcs().values():
        weights = layout_free_positions(func)
        reader.free.update(func.buffer_map[func.params[k]] for k in weights)
        reader.read(func.body)
    return reader


class _Reader:
    """Collects the stores of a program."""

    def __init__(self) -> None:
        self.loops: dict[Stmt, int] = {}
        """The number of each loop."""
        self.kinds: list[ForKind] = []
        self.extents: list[int] = []
        self.stores: list[_Store] = []
        self.allocated: set[Buffer] = set()
        self.packed: set[Buffer] = set()
        self.free: set[Buffer] = set()
        self.limits = dict.fromkeys(LIMITS, -1)
        self._values: dict[Var, Index] = {}
        self._views: dict[Buffer, _Access] = {}
        self._driven: dict[Stmt, list[tuple[int, Drives]]] = {}
        """The loops that each axis of a block is bound to, with its kind."""

    # ----------------------------------------------------------------------------------- statements

    def read(self, body: Stmt) -> None:
        """Read the body of a function."""
        grouped: set[Stmt] = set()
        """Statements inside a tuple of stores that was read as a whole."""
        for node, around in placed_statements(body):
            if node in grouped:
                continue
            if isinstance(node, For):
                self._loop(node)
            elif isinstance(node, BlockRealize):
                self._bind_axes(node)
            elif isinstance(node, Block):
                self._block(node)
            elif isinstance(node, BufferStore):
                self._stores((node,), self._place(node, around))
            elif isinstance(node, LetStmt) or _is_init(node, around):
                if stores := update_stores(node):
                    self._stores(stores, self._place(node, around))
                    grouped.update(statements(node))
                elif isinstance(node, LetStmt):
                    self._values[node.var] = self._index(node.value)

    def _place(self, node: Stmt, around: tuple[Stmt, ...]) -> _Place:
        place = _Place()
        for outer, inner in pairwise((*around, node)):
            if isinstance(outer, For):
                place.loops.append(self.loops[outer])
            elif isinstance(outer, SeqStmt):
                place.several.update(place.loops[-1:])
            elif isinstance(outer, BlockRealize):
                for loop, kind in self._driven[outer]:
                    same = place.drives.get(loop, kind) == kind
                    place.drives[loop] = kind if same else Drives.OTHER
                if place.intrinsic_from is None and outer.block.annotations.get(AUTO_TENSORIZE):
                    place.intrinsic_from = len(place.loops)
            elif isinstance(outer, Block):
                place.is_init |= inner is outer.init
        return place

    def _loop(self, node: For) -> None:
        number = self.loops[node] = len(self.loops)
        extent = max(1, int(self._index(node.extent).high))
        self.kinds.append(node.kind)
        self.extents.append(extent)
        self._values[node.loop_var] = Index({number: 1}, 0, extent - 1)

    def _bind_axes(self, realize: BlockRealize) -> None:
        driven = self._driven[realize] = []
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            index = self._values[axis.var] = self._index(value)
            kind = _DRIVES.get(axis.iter_type, Drives.OTHER)
            loops = {*index.steps, *(k for part in index.parts for k in part[3])}
            driven += [(loop, kind) for loop in loops]

    def _block(self, block: Block) -> None:
        self._limits(block)
        for view in block.match_buffers:
            starts = [r.min for r in view.source.region]
            self._views[view.buffer] = self._access(view.source.buffer, starts)
        self.allocated.update(block.alloc_buffers)
        if PACKED in block.annotations:
            self.packed.update(region.buffer for region in block.writes)

    def _limits(self, block: Block) -> None:
        for key, name in _LIMIT_OF.items():
            value = block.annotations.get(key)
            if isinstance(value, (int, IntImm)):
                self.limits[name] = max(self.limits[name], int(value))

    def _stores(self, nodes: Sequence[BufferStore], place: _Place) -> None:
        """Add stores whose values are all computed before the first store."""
        for node in nodes:
            target = self._access(node.buffer, node.indices)
            loads: list[_Access] = []
            work = [0] * len(Work)
            updates = self._value(node.value, nodes, loads, work)
            value = node.value
            is_reordered = not value.dtype.is_float or isinstance(value, (e.Min, e.Max))
            is_reordered &= len(nodes) == 1
            self.stores.append(
                _Store(place, target, loads, work, updates, is_reordered, len(nodes))
            )

    # ---------------------------------------------------------------------------------- expressions

    def _value(
        self,
        node: PrimExpr,
        stores: Sequence[BufferStore],
        loads: list[_Access],
        work: list[int],
    ) -> bool:
        """Collect loads and operations; return True if a stored element is loaded."""
        if isinstance(node, BufferLoad):
            for store in stores:
                if node.buffer is store.buffer and all(
                    structural_equal(a, b) for a, b in zip(node.indices, store.indices, strict=True)
                ):
                    return True
            loads.append(self._access(node.buffer, node.indices))
            return False
        sort = _SORTS.get(type(node))
        parts = children(node)
        if sort is not None:
            work[sort] += 1
        elif isinstance(node, Call):
            is_choice = isinstance(node.op, Op) and node.op.name.endswith(
                ("if_then_else", "likely")
            )
            work[Work.CHOICE if is_choice else Work.FUNCTION] += 1
        if sort is Work.CHOICE or (isinstance(node, Call) and is_choice):
            parts = [p for p in parts if any(isinstance(q, BufferLoad) for q in walk(p))]
        found = False
        for child in parts:
            if isinstance(child, PrimExpr) and type(child) not in (Var, IntImm):
                found |= self._value(child, stores, loads, work)
        return found

    def _access(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> _Access:
        """Return an access; an access of a view becomes one of the viewed buffer."""
        own = [self._index(i) for i in indices]
        view = self._views.get(buffer)
        if view is None:
            return _Access(buffer, own)
        starts = list(view.indices)
        for dim in range(1, min(len(starts), len(own)) + 1):
            starts[-dim] = starts[-dim].plus(own[-dim])
        return _Access(view.buffer, starts)

    def _index(self, node: PrimExpr) -> Index:
        if isinstance(node, Var):
            return self._values.get(node, Index())
        if isinstance(node, IntImm):
            return Index({}, node.value, node.value)
        if isinstance(node, e.Add):
            return self._index(node.a).plus(self._index(node.b))
        if isinstance(node, e.Sub):
            return self._index(node.a).plus(self._index(node.b).scaled(-1))
        if isinstance(node, e.Mul):
            a, b = self._index(node.a), self._index(node.b)
            return b.scaled(a.high) if b.steps else a.scaled(b.high)
        if isinstance(node, (e.FloorDiv, e.FloorMod)):
            divisor = node.b.value if isinstance(node.b, IntImm) else 0
            if divisor > 0:
                return self._index(node.a).divided(divisor, isinstance(node, e.FloorDiv))
        parts = [self._index(child) for child in children(node) if isinstance(child, PrimExpr)]
        total = Index()
        for part in parts:
            total = total.plus(part)
        if isinstance(node, (e.Min, e.Max)):
            pick = min if isinstance(node, e.Min) else max
            total.low, total.high = pick(p.low for p in parts), pick(p.high for p in parts)
        return total

    # --------------------------------------------------------------------------------------- result

    def result(self) -> tuple[ProgramShape, NDArray[np.float64]]:
        """Return the structure and the numbers of the program."""
        buffers = self.accessed()
        # A store without loops gets a loop of one iteration.
        once = len(self.loops)
        numbers: list[float] = [*self.limits.values(), *self.extents, 1]
        shapes = []
        for buffer in buffers:
            is_argument, is_packed = buffer not in self.allocated, buffer in self.packed
            item_bytes, dims = buffer.dtype.nbytes, len(buffer.shape)
            shapes.append(
                BufferShape(item_bytes, dims, is_argument, is_packed, buffer in self.free)
            )
            numbers += [n.value if isinstance(n, IntImm) else 1 for n in buffer.shape]
        hidden = self._hidden()
        drives = self._drives()
        stores = []
        for store in self.stores:
            place = store.place
            kept = list(range(len(place.loops)))
            if place.is_init:  # an init runs before the reduction loops
                own = [place.drives.get(loop, drives[loop]) for loop in place.loops]
                kept = [k for k in kept if own[k] is Drives.SPATIAL]
            loops = tuple(place.loops[k] for k in kept) or (once,)
            accesses = []
            for access in (store.target, *store.loads):
                rows = [index.steps for index in access.indices]
                terms = []
                for dim, index in enumerate(access.indices):
                    for factor, divisor, is_quotient, steps in index.parts:
                        terms.append(Term(dim, factor, divisor, is_quotient))
                        rows.append(steps)
                accesses.append(AccessShape(buffers[access.buffer], tuple(terms), len(numbers)))
                skipped = hidden.get(access.buffer, frozenset())
                for steps in rows:
                    numbers += [0 if loop in skipped else steps.get(loop, 0) for loop in loops]
            intrinsic = place.intrinsic_from
            stores.append(
                StoreShape(
                    loops,
                    tuple(loop not in place.several for loop in loops),
                    tuple(accesses),
                    tuple(store.work),
                    store.updates,
                    store.updates and store.is_reordered,
                    place.is_init,
                    store.results,
                    len(loops) if intrinsic is None else sum(1 for k in kept if k < intrinsic),
                )
            )
        kinds = (*self.kinds, ForKind.SERIAL)
        shape = ProgramShape(kinds, drives, tuple(shapes), tuple(stores), len(numbers))
        return shape, np.array(numbers, np.float64)

    def accessed(self) -> dict[Buffer, int]:
        """Return the number of each buffer, in the order of the first accesses."""
        buffers: dict[Buffer, int] = {}
        for store in self.stores:
            for access in (store.target, *store.loads):
                buffers.setdefault(access.buffer, len(buffers))
        return buffers

    def _drives(self) -> tuple[Drives, ...]:
        found: list[set[Drives]] = [set() for _ in (*self.loops, "once")]
        for store in self.stores:
            for loop in store.place.drives.keys() & store.place.loops:
                found[loop].add(store.place.drives[loop])
        return tuple(
            Drives.OTHER if len(kinds) > 1 else next(iter(kinds), Drives.SPATIAL) for kinds in found
        )

    def _hidden(self) -> Mapping[Buffer, frozenset[int]]:
        """Return the loops around all uses of each allocated buffer.

        Memory is allocated inside these loops, for the live region only.
        """
        nests: dict[Buffer, list[list[int]]] = {}
        for store in self.stores:
            for access in (store.target, *store.loads):
                if access.buffer in self.allocated:
                    nests.setdefault(access.buffer, []).append(store.place.loops)
        return {buffer: frozenset(common_prefix(loops)) for buffer, loops in nests.items()}


def _is_init(node: Stmt, around: tuple[Stmt, ...]) -> bool:
    block = around[-1] if around else None
    return isinstance(block, Block) and block.init is node


_LIMIT_OF: Final = {
    PARALLEL: "parallel",
    VECTORIZE: "vectorize",
    UNROLL_EXPLICIT: "unroll",
    UNROLL_IMPLICIT: "unroll",
    REGISTER_TILE: "registers",
}
_DRIVES: Final = {IterVar.DATA_PAR: Drives.SPATIAL, IterVar.COMM_REDUCE: Drives.REDUCTION}
_SORTS: Final[dict[type[PrimExpr], Work]] = {
    **dict.fromkeys((e.Add, e.Sub, e.Mul, e.Min, e.Max), Work.ARITHMETIC),
    **dict.fromkeys((e.Div, e.Mod, e.FloorDiv, e.FloorMod), Work.DIVISION),
    **dict.fromkeys(e.COMPARISONS, Work.CHOICE),
    **dict.fromkeys((e.And, e.Or, e.Not, e.Select), Work.CHOICE),
}
