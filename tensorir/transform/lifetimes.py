"""When the memories of a graph function hold a live value, and how many bytes they have.

Bindings are points of time, in order. A memory is held from its first use to its last: of two
branches of an `if`, in the branches that use it, and in the other branch if it is live after the
`if` and was used before it.

The bytes of a tensor of symbolic shape are a multiple of a unit: tensors of shapes (n, 64) and (n,
256) have 256 and 1024 bytes for each n, so they are packed like tensors of so many bytes, in units
of n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes import ops
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, Mul, PrimExpr, Var
from tensorir.nodes.node import Node
from tensorir.relax import expr as g
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import used_vars
from tensorir.rewriting.visit import collect_vars
from tensorir.transform.aliases import Aliases, Memory, memories
from tensorir.transform.pack_intervals import Span


@dataclass(slots=True)
class _Item:
    """A binding, or the value that a sequence leads to: its points, and the branches in it."""

    start: int
    end: int = 0
    branches: tuple[_Suite, ...] = ()
    condition: set[Memory] = field(default_factory=set)


@dataclass(slots=True)
class _Suite:
    """A sequence: its items, and the items that use a memory, in order."""

    items: list[_Item]
    uses: dict[Memory, list[int]]

    @property
    def start(self) -> int:
        return self.items[0].start

    @property
    def end(self) -> int:
        return self.items[-1].end


class Lifetimes:
    """The spans in which memories are held, for a function with known aliases."""

    def __init__(self, body: g.SeqExpr, aliases: Aliases) -> None:
        self._aliases = aliases
        self._next = 0
        self._whole = self._suite(body)

    def spans(self, memory: Memory) -> list[Span]:
        """Return the first and last points of the times at which a memory is held, in order."""
        found: list[Span] = []
        if memory in self._whole.uses:
            self._hold(memory, self._whole, False, False, found)
        merged: list[Span] = []
        for start, end in found:
            if merged and merged[-1][1] + 1 == start:
                merged[-1] = merged[-1][0], end
            else:
                merged.append((start, end))
        return merged

    def _point(self, node: Node) -> tuple[_Item, set[Memory]]:
        places = self._aliases.places
        item = _Item(self._next, self._next)
        self._next += 1
        return item, {m for var in used_vars(node) if var in places for m in memories(places[var])}

    def _suite(self, node: g.SeqExpr) -> _Suite:
        items: list[_Item] = []
        uses: dict[Memory, list[int]] = {}

        def add(item: _Item, used: Iterable[Memory]) -> None:
            for memory in used:
                uses.setdefault(memory, []).append(len(items))
            items.append(item)

        for binding in node.bindings:
            value = binding.value
            if isinstance(value, g.If):
                item, condition = self._point(value.cond)
                item.condition = condition
                item.branches = self._suite(value.true_branch), self._suite(value.false_branch)
                item.end = self._next - 1
                used = condition.union(*(branch.uses for branch in item.branches))
                add(item, used)
            else:
                add(*self._point(value))
        add(*self._point(node.body))
        return _Suite(items, uses)

    def _hold(
        self, memory: Memory, suite: _Suite, before: bool, after: bool, found: list[Span]
    ) -> None:
        """Note when a memory is held in a sequence that uses it.

        `before` is True if it was used already, `after` if it is live afterwards.
        """
        uses = suite.uses[memory]
        start = suite.start if before else suite.items[uses[0]].start
        for k in uses:
            item = suite.items[k]
            if not item.branches:
                continue
            if start < item.start:
                found.append((start, item.start - 1))
            early = before or k > uses[0] or memory in item.condition
            late = after or k < uses[-1]
            if early:
                found.append((item.start, item.start))
            for branch in item.branches:
                if memory in branch.uses:
                    self._hold(memory, branch, early, late, found)
                elif early and late:
                    found.append((branch.start, branch.end))
            start = item.end + 1
        end = suite.end if after else suite.items[uses[-1]].end
        if start <= end:
            found.append((start, end))


Unit: TypeAlias = tuple[tuple[str, tuple[Var, ...]], ...]
"""The identity of a unit: its factors as text, and the variables of the names."""


@dataclass(frozen=True, slots=True)
class TensorBytes:
    """`count` times the product of `factors`, which are extents that are not known."""

    count: int
    factors: tuple[PrimExpr, ...]

    @staticmethod
    def of(info: TensorStructInfo) -> TensorBytes | None:
        """Return the bytes of a tensor, None where shape or dtype are not known."""
        if info.shape is None or info.dtype is None:
            return None
        count = info.dtype.nbytes
        factors: list[PrimExpr] = []
        waiting = list(info.shape)
        while waiting:
            extent = waiting.pop()
            if isinstance(extent, IntImm):
                count *= extent.value
            elif isinstance(extent, Mul):
                waiting += [extent.a, extent.b]
            else:
                factors.append(extent)
        factors.sort(key=str)
        return TensorBytes(count, tuple(factors))

    @property
    def unit(self) -> Unit:
        """The unit; empty for bytes that are a number."""
        return tuple((str(n), tuple(collect_vars(n))) for n in self.factors)


def scaled(count: int, factors: Sequence[PrimExpr]) -> PrimExpr:
    """Return `count` times the product of some extents."""
    total: PrimExpr = ops.const(1, INT64)
    for factor in factors:
        total = ops.mul(total, factor)
    return ops.mul(total, ops.const(count, INT64))


def rounded_up(value: PrimExpr, more: int) -> PrimExpr:
    """Return the least multiple of the alignment from a value on, and so many units more."""
    unit = ops.const(ALIGNMENT, INT64)
    units = ops.floordiv(ops.add(value, ops.const(ALIGNMENT - 1, INT64)), unit)
    return ops.mul(ops.add(units, ops.const(more, INT64)), unit)
