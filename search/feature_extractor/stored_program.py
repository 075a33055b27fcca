"""A scheduled program as a list of stores, each with its loops and accesses, for `PerStoreFeature`.

It corresponds to the lowered program, with inlined block bindings, without unit loops, and with
allocations shrunk to their live regions. It is read from the blocks directly, because lowering each
candidate would take too long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from search.space_generator.annotations import PRAGMA_AUTO_UNROLL_MAX_STEP
from tensorir.arith.coefficients import Coefficients
from tensorir.arith.const_interval import ARITHMETIC, Interval
from tensorir.function import PrimFunc
from tensorir.indices.accesses import Bindings, common_prefix, loads_in, placed_statements
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import (
    Div,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Mod,
    PrimExpr,
    Var,
)
from tensorir.nodes.stmt import (
    Block,
    BufferStore,
    For,
    ForKind,
    Stmt,
)


@dataclass(eq=False, slots=True)
class Loop:
    """A loop around a store; an extent that is not constant becomes 1."""

    var: Var
    extent: int
    kind: ForKind
    unroll_step: int
    axis: str = ""
    """The thread axis that it is bound to, such as `"threadIdx.x"`."""


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
class StoredProgram:
    """The stores of a function in order, and the sizes and positions of its allocations."""

    stores: list[Store] = field(default_factory=list)
    shapes: dict[Buffer, list[int]] = field(default_factory=dict)
    """The shapes of all buffers; for an allocated buffer, that of the live region."""
    outer_loops: dict[Buffer, list[Loop]] = field(default_factory=dict)
    """For each allocated buffer, the loops around its allocation."""


def stored_program(func: PrimFunc) -> StoredProgram:
    """Read a function."""
    program = StoredProgram()
    accesses: dict[Buffer, list[tuple[Access, list[Loop]]]] = {}
    allocated: set[Buffer] = set()
    loops: dict[Stmt, Loop] = {}
    bindings = Bindings()
    for node, around in placed_statements(func.body):
        if isinstance(node, BufferStore):
            store = _store(node, list(filter(None, map(loops.get, around))), bindings)
            for access in (store.access, *store.loads):
                accesses.setdefault(access.buffer, []).append((access, store.loops))
            # Stores of constants have accesses but no features.
            if not isinstance(node.value, (IntImm, FloatImm)):
                program.stores.append(store)
        elif isinstance(node, For):
            is_unit = isinstance(node.extent, IntImm) and node.extent.value == 1
            if is_unit and node.kind == ForKind.SERIAL and not node.annotations:
                bindings.define({node.loop_var: node.min})
            else:
                loops[node] = _loop(node)
        elif isinstance(node, Block):
            allocated.update(node.alloc_buffers)
        else:
            bindings.enter(node)
    for buffer, found in accesses.items():
        shape = [_constant(extent) for extent in buffer.shape]
        if buffer in allocated:
            outer = common_prefix([nest for _, nest in found])
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
                _drop_hidden_terms(access, hidden)
    return program


def _loop(node: For) -> Loop:
    step = node.annotations.get(PRAGMA_AUTO_UNROLL_MAX_STEP)
    steps = step.value if isinstance(step, IntImm) else 0
    return Loop(node.loop_var, _constant(node.extent), node.kind, steps, node.thread_tag)


def _store(node: BufferStore, loops: list[Loop], bindings: Bindings) -> Store:
    loads = [_access(load.buffer, load.indices, bindings) for load in loads_in(node.value)]
    return Store(_access(node.buffer, node.indices, bindings), loads, node.value, loops)


def _access(buffer: Buffer, indices: Sequence[PrimExpr], bindings: Bindings) -> Access:
    return Access(buffer, [bindings.read(index) for index in indices], bindings)


def region_extents(found: Sequence[tuple[Access, Mapping[Var, Interval]]]) -> list[int]:
    """Return the extents of the region of a buffer that accesses with these ranges cover."""
    extents = []
    for dim in range(len(found[0][0].indices)):
        ends = [_index_interval(access, dim, ranges) for access, ranges in found]
        lows, highs = zip(*ends, strict=True)
        extents.append(max(0, max(highs) - min(lows) + 1))
    return extents


def _drop_hidden_terms(access: Access, hidden: set[Var]) -> None:
    """Remove the terms of hidden loops, which a shrunk allocation does not depend on."""
    for index in access.indices:
        index.of = {var: factor for var, factor in index.of.items() if var not in hidden}
        index.parts = [
            (part, factor)
            for part, factor in index.parts
            if not hidden.issuperset(access.scope.loop_vars(part))
        ]


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
        bounds = interval(part, ranges, access.scope) or (0, size - 1)
        a, b = bounds[0] * factor, bounds[1] * factor
        low, high = low + min(a, b), high + max(a, b)
    return low, high


def interval(expr: PrimExpr, ranges: Mapping[Var, Interval], scope: Bindings) -> Interval | None:
    """Return bounds of an index expression, None if they are unknown."""
    if isinstance(expr, IntImm):
        return expr.value, expr.value
    if isinstance(expr, Var):
        value = scope.values.get(expr)
        return ranges.get(expr, (0, 0)) if value is None else interval(value, ranges, scope)
    combine = ARITHMETIC.get(type(expr))
    if combine is None or isinstance(expr, (Div, Mod)):
        return None
    a = interval(expr.a, ranges, scope)  # type: ignore[attr-defined]
    b = interval(expr.b, ranges, scope)  # type: ignore[attr-defined]
    if a is None or b is None:
        return None
    is_bounded = not isinstance(expr, (FloorDiv, FloorMod)) or 0 < b[0] == b[1]
    return combine(a, b) if is_bounded else None


def _constant(extent: PrimExpr) -> int:
    return extent.value if isinstance(extent, IntImm) else 1
