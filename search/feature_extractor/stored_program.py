"""A scheduled program as a list of stores, each with its loops and accesses, for `PerStoreFeature`.

It corresponds to the lowered program, with inlined block bindings, without unit loops, and with
allocations shrunk to their live regions. It is read from the blocks directly, because lowering each
candidate would take too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, TypeAlias, TypeVar

from search.space_generator.annotations import PRAGMA_AUTO_UNROLL_MAX_STEP
from tensorir.arith.coefficients import Coefficients, coefficients
from tensorir.arith.const_interval import (
    Interval,
    floor_quotient,
    floor_remainder,
    product,
)
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
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    LetStmt,
    Stmt,
)
from tensorir.rewriting.visit import children, collect_vars, walk

L = TypeVar("L")

Combine: TypeAlias = Callable[[Interval, Interval], "Interval | None"]


@dataclass(eq=False, slots=True)
class Loop:
    """A loop around a store; an extent that is not constant becomes 1."""

    var: Var
    extent: int
    kind: ForKind
    unroll_step: int


@dataclass(eq=False, slots=True)
class Access:
    """A load or store, with indices as sums over loop variables."""

    buffer: Buffer
    indices: list[Coefficients]
    scope: Bindings
    """The bindings of the variables in the non-linear parts."""


@dataclass(eq=False, slots=True)
class Store:
    """A store of a value that is not constant."""

    access: Access
    loads: list[Access]
    value: PrimExpr
    loops: list[Loop]
    """Outermost first."""


@dataclass(eq=False, slots=True)
class Bindings:
    """The values of block axes and let variables at a statement, in terms of loop variables."""

    exprs: dict[Var, PrimExpr] = field(default_factory=dict)
    linear: dict[Var, Coefficients] = field(default_factory=dict)

    def with_block(self, realize: BlockRealize) -> Bindings:
        """Return the bindings inside a block."""
        if not realize.block.iter_vars:
            return self
        axes = (axis.var for axis in realize.block.iter_vars)
        return self.with_values(dict(zip(axes, realize.iter_values, strict=True)))

    def with_values(self, values: Mapping[Var, PrimExpr]) -> Bindings:
        """Return the bindings with additional variables."""
        linear = {var: self.read(value) for var, value in values.items()}
        return Bindings({**self.exprs, **values}, {**self.linear, **linear})

    def read(self, expr: PrimExpr) -> Coefficients:
        """Return an expression as a sum over loop variables."""
        return coefficients(expr).substituted(self.linear)


@dataclass(eq=False, slots=True)
class StoredProgram:
    """The stores of a function in order, and the sizes and positions of its allocations."""

    stores: list[Store] = field(default_factory=list)
    shapes: dict[Buffer, list[int]] = field(default_factory=dict)
    """The shapes of all buffers; for an allocated buffer, that of the live region."""
    outer_loops: dict[Buffer, list[Loop]] = field(default_factory=dict)
    """For each allocated buffer, the loops around its allocation."""


def stored_program(func: PrimFunc) -> StoredProgram:
    """Read a function."""
    reader = _Reader()
    reader.stmt(func.body, Bindings(), [])
    program = StoredProgram(reader.stores)
    accesses: dict[Buffer, list[tuple[Access, list[Loop]]]] = {}
    for store in reader.all_stores:
        for access in (store.access, *store.loads):
            accesses.setdefault(access.buffer, []).append((access, store.loops))
    for buffer, found in accesses.items():
        shape = [_constant(extent) for extent in buffer.shape]
        if buffer in reader.allocated:
            outer = common_prefix([loops for _, loops in found])
            region = region_extents(
                [
                    (a, {loop.var: (0, loop.extent - 1) for loop in nest[len(outer) :]})
                    for a, nest in found
                ]
            )
            shape = [max(1, min(ends)) for ends in zip(shape, region, strict=True)]
            program.outer_loops[buffer] = outer
        program.shapes[buffer] = shape
    for store in program.stores:
        for access in (store.access, *store.loads):
            hidden = {loop.var for loop in program.outer_loops.get(access.buffer, ())}
            if hidden:
                _drop(access, hidden)
    return program


class _Reader:
    """Collects the stores of statements."""

    def __init__(self) -> None:
        self.stores: list[Store] = []
        self.all_stores: list[Store] = []
        """All stores, including stores of constants, which have accesses but no features."""
        self.allocated: set[Buffer] = set()

    def stmt(self, node: Stmt, bindings: Bindings, loops: list[Loop]) -> None:
        if isinstance(node, BlockRealize):
            self.allocated.update(node.block.alloc_buffers)
            self._parts(node.block, bindings.with_block(node), loops)
        elif isinstance(node, For):
            self._loop(node, bindings, loops)
        elif isinstance(node, BufferStore):
            self._store(node, bindings, loops)
        else:
            if isinstance(node, LetStmt):
                bindings = bindings.with_values({node.var: node.value})
            self._parts(node, bindings, loops)

    def _parts(self, node: Stmt, bindings: Bindings, loops: list[Loop]) -> None:
        for part in children(node):
            if isinstance(part, Stmt):
                self.stmt(part, bindings, loops)

    def _loop(self, node: For, bindings: Bindings, loops: list[Loop]) -> None:
        extent = _constant(node.extent)
        is_unit = extent == 1 and isinstance(node.extent, IntImm)
        if is_unit and node.kind == ForKind.SERIAL and not node.annotations:
            self.stmt(node.body, bindings.with_values({node.loop_var: node.min}), loops)
            return
        step = node.annotations.get(PRAGMA_AUTO_UNROLL_MAX_STEP)
        steps = step.value if isinstance(step, IntImm) else 0
        loop = Loop(node.loop_var, extent, node.kind, steps)
        self.stmt(node.body, bindings, [*loops, loop])

    def _store(self, node: BufferStore, bindings: Bindings, loops: list[Loop]) -> None:
        access = _access(node.buffer, node.indices, bindings)
        loads = [
            _access(load.buffer, load.indices, bindings)
            for load in walk(node.value)
            if isinstance(load, BufferLoad)
        ]
        store = Store(access, loads, node.value, loops)
        self.all_stores.append(store)
        if not isinstance(node.value, (IntImm, FloatImm)):
            self.stores.append(store)


def _access(buffer: Buffer, indices: Sequence[PrimExpr], bindings: Bindings) -> Access:
    return Access(buffer, [bindings.read(index) for index in indices], bindings)


def common_prefix(nests: Iterable[Sequence[L]]) -> list[L]:
    """Return the common outer loops of nests, which are outermost first."""
    levels = zip(*nests, strict=False)
    return [level[0] for level in takewhile(lambda level: len(set(level)) == 1, levels)]


def region_extents(found: Sequence[tuple[Access, Mapping[Var, Interval]]]) -> list[int]:
    """Return the extents of the region of a buffer that accesses with these ranges cover."""
    extents = []
    for dim in range(len(found[0][0].indices)):
        ends = [_index_interval(access, dim, ranges) for access, ranges in found]
        lows, highs = zip(*ends, strict=True)
        extents.append(max(0, max(highs) - min(lows) + 1))
    return extents


def _drop(access: Access, hidden: set[Var]) -> None:
    """Remove the terms of hidden loops, which a shrunk allocation does not depend on."""
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


def _index_interval(access: Access, dim: int, ranges: Mapping[Var, Interval]) -> Interval:
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
    """Return bounds of an index expression, None if they are unknown."""
    if isinstance(expr, IntImm):
        return expr.value, expr.value
    if isinstance(expr, Var):
        value = scope.exprs.get(expr)
        return ranges.get(expr, (0, 0)) if value is None else _interval(value, ranges, scope)
    combined = _COMBINED.get(type(expr))
    if combined is None:
        return None
    a = _interval(expr.a, ranges, scope)  # type: ignore[attr-defined]
    b = _interval(expr.b, ranges, scope)  # type: ignore[attr-defined]
    return None if a is None or b is None else combined(a, b)


def _by_one(divide: Combine) -> Combine:
    """Return the rule of a division by one positive constant."""
    return lambda a, b: divide(a, b) if 0 < b[0] == b[1] else None


_COMBINED: Final[Mapping[type[PrimExpr], Combine]] = {
    Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    Mul: product,
    FloorDiv: _by_one(floor_quotient),
    FloorMod: _by_one(floor_remainder),
}


def _constant(extent: PrimExpr) -> int:
    return extent.value if isinstance(extent, IntImm) else 1
