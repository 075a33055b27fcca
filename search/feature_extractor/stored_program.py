"""A scheduled program as the stores in it, each with its loops and what it accesses.

That is what the program would look like with the blocks opened, unit loops dropped and allocations
shrunk to the region that is live, but read off the blocks directly: describing a candidate must
not cost more than making it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from search.spaces.annotations import PRAGMA_AUTO_UNROLL_MAX_STEP
from tensorir.arith.coefficients import Coefficients, coefficients
from tensorir.function import PrimFunc
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import (
    Add,
    BufferLoad,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Sub,
    Var,
)
from tensorir.nodes.stmt import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from tensorir.rewriting.visit import collect_vars, walk

Interval = tuple[int, int]
L = TypeVar("L")


@dataclass(eq=False, slots=True)
class Loop:
    """A loop around a store; an extent that is not constant counts as 1."""

    var: Var
    extent: int
    kind: ForKind
    unroll_step: int


@dataclass(eq=False, slots=True)
class Access:
    """The indices of a load or store, as sums over loop variables."""

    buffer: Buffer
    indices: list[Coefficients]
    scope: Bindings
    """The values of the variables in the non-linear parts."""


@dataclass(eq=False, slots=True)
class Store:
    """A store of something other than a constant."""

    access: Access
    loads: list[Access]
    value: PrimExpr
    loops: list[Loop]
    """Outermost first."""


@dataclass(eq=False, slots=True)
class Bindings:
    """Block axes in terms of loop variables, as they are at some place of the program."""

    exprs: dict[Var, PrimExpr] = field(default_factory=dict)
    linear: dict[Var, Coefficients] = field(default_factory=dict)

    def with_block(self, realize: BlockRealize) -> Bindings:
        """Return the bindings inside a block."""
        if not realize.block.iter_vars:
            return self
        inner = Bindings(dict(self.exprs), dict(self.linear))
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            inner.exprs[axis.var] = value
            inner.linear[axis.var] = self.read(value)
        return inner

    def with_value(self, var: Var, value: PrimExpr) -> Bindings:
        """Return the bindings under a `let`."""
        inner = Bindings(dict(self.exprs), dict(self.linear))
        inner.exprs[var] = value
        inner.linear[var] = self.read(value)
        return inner

    def read(self, expr: PrimExpr) -> Coefficients:
        """Return an expression as a sum over loop variables."""
        return coefficients(expr).substituted(self.linear)


@dataclass(eq=False, slots=True)
class StoredProgram:
    """The stores of a function in order, and where and how large its allocations are."""

    stores: list[Store] = field(default_factory=list)
    shapes: dict[Buffer, list[int]] = field(default_factory=dict)
    """The shapes of all buffers: of allocated ones, that of the live region."""
    outer_loops: dict[Buffer, list[Loop]] = field(default_factory=dict)
    """For each allocated buffer, the loops outside of its allocation."""


def stored_program(func: PrimFunc) -> StoredProgram:
    """Read a function."""
    reader = _Stores()
    reader.stmt(func.body, Bindings(), [])
    program = StoredProgram(reader.stores)
    accesses: dict[Buffer, list[tuple[Access, list[Loop]]]] = {}
    for store in reader.all_stores:
        for access in (store.access, *store.loads):
            accesses.setdefault(access.buffer, []).append((access, store.loops))
    for buffer, found in accesses.items():
        shape = [_constant(extent) for extent in buffer.shape]
        if buffer in reader.allocated:
            outer = _common_prefix([loops for _, loops in found])
            shape = _shrink(shape, found, len(outer))
            program.outer_loops[buffer] = outer
        program.shapes[buffer] = shape
    for store in program.stores:
        for access in (store.access, *store.loads):
            hidden = {loop.var for loop in program.outer_loops.get(access.buffer, ())}
            if hidden:
                _drop(access, hidden)
    return program


class ProgramReader(ABC, Generic[L]):
    """Walks over statements with the blocks open, and what stands for the loops around each."""

    def stmt(self, node: Stmt, bindings: Bindings, loops: list[L]) -> None:
        """Read a statement."""
        if isinstance(node, BlockRealize):
            self.block(node.block, bindings.with_block(node), loops)
        elif isinstance(node, For):
            self.loop(node, bindings, loops)
        elif isinstance(node, SeqStmt):
            for part in node.seq:
                self.stmt(part, bindings, loops)
        elif isinstance(node, BufferStore):
            self.store(node, bindings, loops)
        elif isinstance(node, IfThenElse):
            self.stmt(node.then_case, bindings, loops)
            if node.else_case is not None:
                self.stmt(node.else_case, bindings, loops)
        elif isinstance(node, LetStmt):
            self.stmt(node.body, bindings.with_value(node.var, node.value), loops)
        else:
            body = getattr(node, "body", None)
            if isinstance(body, Stmt):
                self.stmt(body, bindings, loops)

    @abstractmethod
    def block(self, block: Block, bindings: Bindings, loops: list[L]) -> None:
        """Read a block, whose axes have values already."""

    @abstractmethod
    def loop(self, node: For, bindings: Bindings, loops: list[L]) -> None:
        """Read a loop."""

    @abstractmethod
    def store(self, node: BufferStore, bindings: Bindings, loops: list[L]) -> None:
        """Read a store."""

    def accesses(self, node: BufferStore, bindings: Bindings) -> list[Access]:
        """Return what a store accesses: first what it stores to, then what it loads."""
        loads = [
            _access(load.buffer, load.indices, bindings)
            for load in walk(node.value)
            if isinstance(load, BufferLoad)
        ]
        return [_access(node.buffer, node.indices, bindings), *loads]


class _Stores(ProgramReader[Loop]):
    """Collects the stores."""

    def __init__(self) -> None:
        self.stores: list[Store] = []
        self.all_stores: list[Store] = []
        """The stores, with those of constants: they are accesses, though they are no rows."""
        self.allocated: set[Buffer] = set()

    def block(self, block: Block, bindings: Bindings, loops: list[Loop]) -> None:
        self.allocated.update(block.alloc_buffers)
        if block.init is not None:
            self.stmt(block.init, bindings, loops)
        self.stmt(block.body, bindings, loops)

    def loop(self, node: For, bindings: Bindings, loops: list[Loop]) -> None:
        extent = _constant(node.extent)
        is_unit = extent == 1 and isinstance(node.extent, IntImm)
        if is_unit and node.kind == ForKind.SERIAL and not node.annotations:
            inner = bindings.with_value(node.loop_var, node.min)
            self.stmt(node.body, inner, loops)
            return
        step = node.annotations.get(PRAGMA_AUTO_UNROLL_MAX_STEP)
        steps = step.value if isinstance(step, IntImm) else 0
        loop = Loop(node.loop_var, extent, node.kind, steps)
        self.stmt(node.body, bindings, [*loops, loop])

    def store(self, node: BufferStore, bindings: Bindings, loops: list[Loop]) -> None:
        access, *loads = self.accesses(node, bindings)
        store = Store(access, loads, node.value, loops)
        self.all_stores.append(store)
        if not isinstance(node.value, (IntImm, FloatImm)):
            self.stores.append(store)


def _access(buffer: Buffer, indices: Sequence[PrimExpr], bindings: Bindings) -> Access:
    return Access(buffer, [bindings.read(index) for index in indices], bindings)


def _common_prefix(nests: Sequence[list[Loop]]) -> list[Loop]:
    first, *others = nests
    count = len(first)
    for nest in others:
        count = min(count, len(nest))
        while any(a is not b for a, b in zip(first[:count], nest[:count], strict=True)):
            count -= 1
    return first[:count]


def _shrink(shape: list[int], found: Sequence[tuple[Access, list[Loop]]], outer: int) -> list[int]:
    """Return the extents of the region that is accessed for one iteration of the outer loops."""
    result = []
    for dim, extent in enumerate(shape):
        lows, highs = [], []
        for access, loops in found:
            ranges = {loop.var: (0, loop.extent - 1) for loop in loops[outer:]}
            low, high = index_interval(access, dim, ranges)
            lows.append(low)
            highs.append(high)
        result.append(max(1, min(extent, max(highs) - min(lows) + 1)))
    return result


def _drop(access: Access, hidden: set[Var]) -> None:
    """Leave out of the indices the parts in the base address of a shrunk allocation."""
    for index in access.indices:
        index.of = {var: factor for var, factor in index.of.items() if var not in hidden}
        index.parts = [
            (part, factor)
            for part, factor in index.parts
            if not loop_vars(part, access.scope) <= hidden
        ]


def loop_vars(expr: PrimExpr, bindings: Bindings) -> set[Var]:
    """Return the loop variables that an expression depends on."""
    found: set[Var] = set()
    for var in collect_vars(expr):
        value = bindings.exprs.get(var)
        if value is None:
            found.add(var)
        else:
            found |= loop_vars(value, bindings)
    return found


def index_interval(access: Access, dim: int, ranges: Mapping[Var, Interval]) -> Interval:
    """Return the bounds of an index over `ranges`; other variables are 0."""
    index = access.indices[dim]
    low = high = index.constant
    for var, factor in index.of.items():
        bounds = ranges.get(var)
        if bounds is not None:
            a, b = bounds[0] * factor, bounds[1] * factor
            low, high = low + min(a, b), high + max(a, b)
    size = _constant(access.buffer.shape[dim])
    for part, factor in index.parts:
        bounds = _interval(part, ranges, access.scope) or (0, size - 1)
        a, b = bounds[0] * factor, bounds[1] * factor
        low, high = low + min(a, b), high + max(a, b)
    return low, high


def _interval(expr: PrimExpr, ranges: Mapping[Var, Interval], scope: Bindings) -> Interval | None:
    """Return bounds of an index expression, None where only the buffer's shape bounds it."""
    if isinstance(expr, IntImm):
        return expr.value, expr.value
    if isinstance(expr, Var):
        value = scope.exprs.get(expr)
        return ranges.get(expr, (0, 0)) if value is None else _interval(value, ranges, scope)
    if isinstance(expr, (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)):
        a = _interval(expr.a, ranges, scope)
        b = _interval(expr.b, ranges, scope)
        return None if a is None or b is None else _combined(type(expr), a, b)
    return None


def _combined(kind: type[PrimExpr], a: Interval, b: Interval) -> Interval | None:
    if kind is Add:
        return a[0] + b[0], a[1] + b[1]
    if kind is Sub:
        return a[0] - b[1], a[1] - b[0]
    if kind is Min:
        return min(a[0], b[0]), min(a[1], b[1])
    if kind is Max:
        return max(a[0], b[0]), max(a[1], b[1])
    if kind is Mul:
        products = [x * y for x in a for y in b]
        return min(products), max(products)
    if b[0] != b[1] or b[0] <= 0:
        return None
    divisor = b[0]
    if kind is FloorDiv:
        return a[0] // divisor, a[1] // divisor
    if a[0] // divisor == a[1] // divisor:
        return a[0] % divisor, a[1] % divisor
    return 0, divisor - 1


def _constant(extent: PrimExpr) -> int:
    return extent.value if isinstance(extent, IntImm) else 1
