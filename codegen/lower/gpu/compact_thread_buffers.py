"""Shrinking shared and local buffers to what one block or one thread uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from codegen.lower.compact_buffers import Extent, LiveRegions, Uses, compact_to
from codegen.lower.element_sets import (
    Unknown,
    constant_ranges,
    grid_over,
    place_of,
    restriction,
    values,
)
from codegen.lower.gpu.inject_virtual_threads import differing
from codegen.lower.rewriters import condition_of
from codegen.lower.thread_axes import THREAD, VIRTUAL, kind_of
from tensorir.function import PrimFunc
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import IntImm, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.nodes.ops import conjuncts
from tensorir.rewriting.visit import collect_vars
from tensorir.semantics.purity import is_pure


def compact_shared_buffers(func: PrimFunc) -> PrimFunc:
    """Give buffers the shape of what is accessed while one allocation of them lives.

    Before: for t (threadIdx.x, 32): for k: alloc S[256] (shared); S[k * 64 + t] = A[k * 64 + t]
    After:  for t (threadIdx.x, 32): for k: alloc S[32] (shared); S[t] = A[k * 64 + t]

    As `compact_buffers`, but the threads around shared memory have it in common, so that the region
    is that of all of them. Indices under conditions are counted one by one (`element_sets`), which
    is exact where a fused copy ends with a tail.
    """
    return compact_to(func, _ThreadRegions(func))


def compact_local_buffers(func: PrimFunc) -> PrimFunc:
    """Give local buffers the shape of what one thread accesses, once threads are outside."""
    return compact_to(func, _ThreadRegions(func))


class _ThreadRegions(LiveRegions):
    def __init__(self, func: PrimFunc) -> None:
        super().__init__(func)
        self._threads: set[Var] = set()
        """The variables of loops that are bound to threads of one block."""
        self._differing: dict[Var, set[Var]] = {}
        """What differs between virtual threads, by their variable: each has memory of its own."""
        self._ranges: dict[Var, range] = {}
        self._conditions: list[PrimExpr] = []

    @contextmanager
    def within(self, node: Node, field: str) -> Iterator[None]:
        if isinstance(node, s.For):
            if kind_of(node) == VIRTUAL:
                self._differing[node.loop_var] = differing(node.loop_var, node.body)
            if kind_of(node) in (THREAD, VIRTUAL):
                self._threads.add(node.loop_var)
            self._ranges |= constant_ranges([node])
        condition = condition_of(node, field)
        parts = [] if condition is None else [c for c in conjuncts(condition) if is_pure(c)]
        self._conditions += parts
        with super().within(node, field):
            yield
        del self._conditions[len(self._conditions) - len(parts) :]

    def is_inside(self, var: Var, uses: Uses) -> bool:
        """Say whether a variable takes all its values while one allocation lives."""
        pointer = uses.buffer.data
        is_common = memory_of(pointer) == "shared" and var in self._threads
        if is_common and pointer not in self._differing.get(var, ()):
            return True
        return super().is_inside(var, uses)

    def is_better(self, extent: int, full: PrimExpr) -> bool:
        """Return True if an extent is smaller, or constant: memory of a kernel needs constants."""
        most = self._linear.bound(self._linear(full))[1]
        return extent < most or (extent == most and not isinstance(full, IntImm))

    def span(self, index: PrimExpr, uses: Uses) -> Extent | None:
        """Return what an index covers while one allocation lives, None without a limit."""
        ranges = {var: known for var, known in self._ranges.items() if self.is_inside(var, uses)}
        conditions = [c for c in self._conditions if all(v in ranges for v in collect_vars(c))]
        try:
            if any(self.is_inside(v, uses) and v not in ranges for v in collect_vars(index)):
                raise Unknown
            place = place_of((index,), ranges, self._linear)
            grid = grid_over(ranges, [*place.written_out, *conditions])
            found, taken = np.broadcast_arrays(
                values(place.written_out[0], grid), restriction(conditions, grid)
            )
        except Unknown:
            return super().span(index, uses)
        reached = found[np.asarray(taken, bool)]
        if not reached.size:
            return super().span(index, uses)
        rest = place.rest[0]
        return rest.plus_const(int(reached.min())), rest.plus_const(int(reached.max()))
