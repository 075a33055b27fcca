"""The place of a statement in a launch: which threads come to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from codegen.lower.thread_axes import AXES, BLOCK, THREAD, axis_of, kind_of, thread_loops
from tensorir.memory.storage_scopes import memory_of
from tensorir.nodes import stmt as s
from tensorir.nodes.expr import BufferLoad, IntImm, PrimExpr, Var
from tensorir.rewriting.visit import walk

_THREADS: Final = frozenset(tag for tag in AXES if tag.startswith(THREAD))


class LaunchPlace:
    """The threads of a launch, and the conditions and loops around a statement of it.

    Rewriters enter each statement with `inside`, the outermost one first.
    """

    def __init__(self, body: s.Stmt) -> None:
        self.extents: Mapping[str, int] = _extents(body)
        """The number of threads of the launch along each axis; empty if unknown."""
        self._is_in_launch = False
        self._loops: list[s.For] = []
        """The loops over threads around."""
        self._dividing: frozenset[str] = frozenset()
        """The axes whose threads differ in the conditions around."""
        self._axes: dict[Var, frozenset[str]] = {}
        """The axes along which a variable has other values in other threads."""

    @contextmanager
    def inside(self, node: s.Stmt) -> Iterator[None]:
        """Enter a statement."""
        outer = self.extents, self._is_in_launch, self._loops, self._dividing
        if isinstance(node, s.For):
            if kind_of(node) == BLOCK and not self._is_in_launch:
                self.extents = _extents(node)
            self._is_in_launch |= kind_of(node) in (BLOCK, THREAD)
            if kind_of(node) == THREAD:
                self._loops = [*self._loops, node]
            self._bind(node)
            if not kind_of(node):
                self._divide(node.min, node.extent)
        elif isinstance(node, (s.IfThenElse, s.While)):
            self._divide(node.condition)
        elif isinstance(node, s.BlockRealize):
            for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                self._axes[axis.var] = self._differing(value)
            self._divide(node.predicate)
        elif isinstance(node, s.LetStmt):
            self._axes[node.var] = self._differing(node.value)
        yield
        self.extents, self._is_in_launch, self._loops, self._dividing = outer

    def _bind(self, node: s.For) -> None:
        own = {axis_of(node)} if kind_of(node) == THREAD else set()
        self._axes[node.loop_var] = self._differing(node.min) | own

    def _divide(self, *conditions: PrimExpr) -> None:
        self._dividing = self._dividing.union(*map(self._differing, conditions))

    def _differing(self, value: PrimExpr) -> frozenset[str]:
        """Return the axes along which a value may be another one in another thread."""
        found: frozenset[str] = frozenset()
        for part in walk(value):
            if isinstance(part, Var):
                found |= self._axes.get(part, frozenset())
            elif isinstance(part, BufferLoad) and memory_of(part.buffer.data) == "local":
                return _THREADS
        return found

    def dividing_axes(self, loops: Sequence[s.For]) -> frozenset[str]:
        """Return the axes along which some threads of the launch may not come into loops here."""
        for loop in loops:
            self._bind(loop)
        own = [loop for loop in loops if kind_of(loop) == THREAD]
        around = {axis_of(loop): loop.extent for loop in (*self._loops, *own)}
        fewer = {
            tag
            for tag in _THREADS
            if tag in around or tag in self.extents
            if _count(around.get(tag)) != self.extents.get(tag)
        }
        serial = [part for loop in loops if not kind_of(loop) for part in (loop.min, loop.extent)]
        return self._dividing.union(fewer, *map(self._differing, serial))


def _count(extent: PrimExpr | None) -> int | None:
    """Return the number of threads of a loop, 1 without a loop, None if it is not constant."""
    if extent is None:
        return 1
    return extent.value if isinstance(extent, IntImm) else None


def _extents(node: s.Stmt) -> dict[str, int]:
    """Return the largest extent of the loops over each axis of threads of one launch.

    Without a loop over blocks around there may be several launches; then nothing is known unless
    they have the same extents.
    """
    found: dict[str, set[int]] = {}
    for loop in thread_loops(node):
        if kind_of(loop) == THREAD and isinstance(loop.extent, IntImm):
            found.setdefault(axis_of(loop), set()).add(loop.extent.value)
    if kind_of(node) != BLOCK and any(len(extents) > 1 for extents in found.values()):
        return {}
    return {axis: max(extents) for axis, extents in found.items()}
