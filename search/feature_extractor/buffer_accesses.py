"""The memory traffic of one store: for each buffer, the accessed amounts and their reuse."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, prod
from typing import Final

from search.feature_extractor.stored_program import (
    Access,
    Loop,
    Store,
    StoredProgram,
    region_extents,
)
from tensorir.arith.const_interval import Interval
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import Var

READ, WRITE, READ_WRITE = range(3)
LOOP_MULTIPLE_READ, SERIAL_MULTIPLE, NO_REUSE = range(3)

Touched = dict[Loop, dict[Buffer, list[int]]]
"""For each loop and buffer, the number of elements that each store touches in one iteration."""


@dataclass(eq=False, slots=True)
class BufferAccess:
    """A store's accesses to one buffer: sizes in bytes, distances in iterations and bytes."""

    buffer: Buffer
    kind: int
    accesses: list[Access]
    shape: list[int]
    widths: list[int] = field(default_factory=list)
    """The extents of the region that all iterations access."""
    bytes: float = 0.0
    unique_bytes: float = 1.0
    lines: float = 1.0
    unique_lines: float = 1.0
    reuse: int = NO_REUSE
    reuse_iterations: float = 0.0
    reuse_bytes: float = 0.0
    reuse_count: float = 0.0
    stride: float = 0.0

    used: set[Var] = field(default_factory=set)
    """The loop variables in the indices."""

    @property
    def item_bytes(self) -> int:
        """The size of an element."""
        return self.buffer.dtype.nbytes


def memory_behaviour(
    store: Store, program: StoredProgram, touched: Touched, cache_line: int
) -> tuple[list[BufferAccess], list[float]]:
    """Return the accesses of a store, and for each loop the bytes accessed in all its iterations.

    Loops are innermost first. `touched` has the elements of earlier stores, and those of this store
    are added.
    """
    buffers = _collect(store, program)
    for access in buffers:
        access.used = _used_vars(access.accesses)
    loops = store.loops[::-1]
    ranges: dict[Var, Interval] = {}
    touched_bytes: list[float] = []
    for loop in loops:
        ranges[loop.var] = (0, loop.extent - 1)
        under = touched.setdefault(loop, {})
        total = 0.0
        for access in buffers:
            if not access.widths or loop.var in access.used:
                access.widths = region_extents([(one, ranges) for one in access.accesses])
            elements = prod(access.widths)
            under.setdefault(access.buffer, []).append(elements)
            total += elements * access.item_bytes
        touched_bytes.append(total)
    iterations = prod(loop.extent for loop in loops)
    item_bytes = sum(access.item_bytes for access in buffers)
    for access in buffers:
        access.bytes = float(access.item_bytes * iterations)
        if loops:
            _measure(access, loops, iterations, cache_line)
            _find_reuse(access, loops, touched, item_bytes)
    return buffers, touched_bytes


def _collect(store: Store, program: StoredProgram) -> list[BufferAccess]:
    """Return the accesses by buffer; a load of the stored buffer makes its kind READ_WRITE."""
    written = store.access.buffer
    first = BufferAccess(written, WRITE, [store.access], program.shapes[written])
    found = {written: first}
    for load in store.loads:
        if load.buffer is written:
            first.kind = READ_WRITE
        elif load.buffer in found:
            found[load.buffer].accesses.append(load)
        else:
            found[load.buffer] = BufferAccess(
                load.buffer, READ, [load], program.shapes[load.buffer]
            )
    return list(found.values())


def _used_vars(accesses: list[Access]) -> set[Var]:
    used: set[Var] = set()
    for access in accesses:
        for index in access.indices:
            used.update(var for var, factor in index.of.items() if factor != 0)
            for part, _ in index.parts:
                used.update(access.scope.loop_vars(part))
    return used


def _measure(access: BufferAccess, loops: list[Loop], iterations: int, cache_line: int) -> None:
    """Fill in sizes and strides."""
    item = access.item_bytes
    least = 0
    contiguous = 1
    for place, loop in enumerate(loops):
        least = _stride(access, loop.var)
        if least != 0:
            access.stride = float(least) if place == 0 else 0.0
            break
        contiguous *= loop.extent
    access.unique_bytes = float(prod(access.widths) * item)
    per_line = min(1.0, least * item / cache_line)
    access.lines = max(1.0, iterations / contiguous * per_line)
    continuous = _continuous_bytes(access)
    access.unique_lines = max(1.0, access.unique_bytes / min(cache_line, continuous))


def _continuous_bytes(access: BufferAccess) -> int:
    for width, extent in zip(reversed(access.widths), reversed(access.shape), strict=True):
        if width == extent:
            return extent * access.item_bytes
    return 1


_IN_TERM_ALONE: Final = 2
"""The coefficient of a variable in an index that is a single non-linear term."""


def _stride(access: BufferAccess, var: Var) -> int:
    """Return the minimum stride of the accesses along `var`, in elements; 0 if it is not used."""
    strides = []
    for one in access.accesses:
        size = 1
        for index, extent in zip(reversed(one.indices), reversed(access.shape), strict=True):
            factor = index.of.get(var, 0)
            for part, scale in index.parts:
                if var in one.scope.loop_vars(part):
                    alone = scale == 1 and len(index.parts) == 1 and not index.of
                    factor = _IN_TERM_ALONE if alone else scale
            if factor != 0:
                strides.append(abs(factor) * size)
                break
            size *= extent
    return min(strides, default=0)


def _find_reuse(access: BufferAccess, loops: list[Loop], touched: Touched, item_bytes: int) -> None:
    """Find the innermost loop that accesses the same data again."""
    iterations = 1
    for place, loop in enumerate(loops):
        if loop.var not in access.used:
            access.reuse = LOOP_MULTIPLE_READ
            access.reuse_count = float(loop.extent)
            access.reuse_iterations = float(iterations)
            inner = None if place == 0 else touched[loops[place - 1]]
            access.reuse_bytes = float(item_bytes if inner is None else _all_bytes(inner))
            return
        touched_inside = touched[loop]
        stores = touched_inside[access.buffer]
        if len(stores) >= 2:
            access.reuse = SERIAL_MULTIPLE
            access.reuse_count = float(len(stores) - 1)
            access.reuse_iterations = min(stores, default=inf) / loop.extent
            access.reuse_bytes = _all_bytes(touched_inside) / loop.extent
            return
        iterations *= loop.extent


def _all_bytes(under: dict[Buffer, list[int]]) -> float:
    return float(sum(sum(counts) * buffer.dtype.nbytes for buffer, counts in under.items()))
