"""Lifetimes of the tensors of a graph function, and their sizes in bytes.

Bindings are points of time, in order. A memory is live from its first use to its last use. In an
`if` it is live in the branches that use it. In a branch that does not use it, it is live if it was
used before the `if` and is used after it.

The size of a tensor of symbolic shape is a multiple of a unit: float32 tensors of shapes (n, 64)
and (n, 256) have 256 and 1024 times n bytes, so they are packed like tensors of 256 and 1024 bytes,
in units of n.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tensorir.memory.alignment import ALIGNMENT
from tensorir.nodes import ops
from tensorir.nodes.dtype import INT64
from tensorir.nodes.expr import IntImm, Mul, PrimExpr, Var
from tensorir.relax import expr as g
from tensorir.relax.struct_info import TensorStructInfo
from tensorir.relax.visit import used_vars
from tensorir.rewriting.visit import collect_vars
from tensorir.transform.pack_intervals import Span


@dataclass(eq=False, slots=True)
class _Item:
    """A binding, or the result of a sequence: its points, and the branches in it."""

    start: int
    end: int
    used: set[g.GraphVar]
    """The variables that the item uses; for an `if`, the variables of the condition."""
    branches: tuple[_Sequence, ...] = ()


@dataclass(eq=False, slots=True)
class _Sequence:
    """A sequence: its items, and for each variable the numbers of the items that use it."""

    items: list[_Item] = field(default_factory=list)
    uses: dict[g.GraphVar, list[int]] = field(default_factory=dict)
    around: tuple[_Sequence, int] | None = None
    """If this is a branch: the sequence that contains the `if`, and the number of the item in it.
    """

    @property
    def start(self) -> int:
        return self.items[0].start

    @property
    def end(self) -> int:
        return self.items[-1].end

    def items_with(self, variables: Iterable[g.GraphVar]) -> list[int]:
        """Return the numbers of the items that use one of the variables."""
        return sorted({k for var in variables for k in self.uses.get(var, ())})


class Lifetimes:
    """The points of a function at which variables are used."""

    def __init__(self, body: g.SeqExpr) -> None:
        self._next = 0
        self._items: dict[g.Binding, tuple[_Sequence, int]] = {}
        self._whole = self._sequence(body, None)

    def is_used_after(self, binding: g.Binding, variables: Collection[g.GraphVar]) -> bool:
        """Return True if one of the variables is used on a path from a binding."""
        place: tuple[_Sequence, int] | None = self._items[binding]
        while place is not None:
            sequence, number = place
            if any(sequence.uses.get(var, (-1,))[-1] > number for var in variables):
                return True
            place = sequence.around
        return False

    def spans(self, variables: Collection[g.GraphVar]) -> list[Span]:
        """Return the live spans of the memory of variables: first and last points, in order."""
        found: list[Span] = []
        if self._whole.items_with(variables):
            self._add_spans(variables, self._whole, False, False, found)
        merged: list[Span] = []
        for start, end in found:
            if merged and merged[-1][1] + 1 == start:
                merged[-1] = merged[-1][0], end
            else:
                merged.append((start, end))
        return merged

    def _sequence(self, node: g.SeqExpr, around: tuple[_Sequence, int] | None) -> _Sequence:
        sequence = _Sequence(around=around)
        for binding in node.bindings:
            self._items[binding] = sequence, len(sequence.items)
            self._add(sequence, binding.value)
        self._add(sequence, node.body)
        return sequence

    def _add(self, sequence: _Sequence, value: g.GraphExpr) -> None:
        used = set(used_vars(value.cond if isinstance(value, g.If) else value))
        item, number = _Item(self._next, self._next, used), len(sequence.items)
        self._next += 1
        if isinstance(value, g.If):
            branches = value.true_branch, value.false_branch
            item.branches = tuple(self._sequence(branch, (sequence, number)) for branch in branches)
            item.end = self._next - 1
        for var in used.union(*(branch.uses for branch in item.branches)):
            sequence.uses.setdefault(var, []).append(number)
        sequence.items.append(item)

    def _add_spans(
        self,
        variables: Collection[g.GraphVar],
        sequence: _Sequence,
        before: bool,
        after: bool,
        found: list[Span],
    ) -> None:
        """Add the live spans of a memory in a sequence that uses it.

        `before` is True if the memory was used before the sequence, `after` if it is used after it.
        """
        uses = sequence.items_with(variables)
        start = sequence.start if before else sequence.items[uses[0]].start
        for k in uses:
            item = sequence.items[k]
            if not item.branches:
                continue
            if start < item.start:
                found.append((start, item.start - 1))
            early = before or k > uses[0] or not item.used.isdisjoint(variables)
            late = after or k < uses[-1]
            if early:
                found.append((item.start, item.start))
            for branch in item.branches:
                if branch.items_with(variables):
                    self._add_spans(variables, branch, early, late, found)
                elif early and late:
                    found.append((branch.start, branch.end))
            start = item.end + 1
        end = sequence.end if after else sequence.items[uses[-1]].end
        if start <= end:
            found.append((start, end))


Unit: TypeAlias = tuple[tuple[str, tuple[Var, ...]], ...]
"""A key of a unit: its factors as text, and their variables."""


@dataclass(frozen=True, slots=True)
class TensorBytes:
    """A size in bytes: `count` times the product of `factors`, the symbolic extents."""

    count: int
    factors: tuple[PrimExpr, ...]

    @staticmethod
    def of(info: TensorStructInfo) -> TensorBytes | None:
        """Return the size of a tensor in bytes; None if its shape or dtype is unknown."""
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
        """The unit; empty for a constant size."""
        return tuple((str(n), tuple(collect_vars(n))) for n in self.factors)


def scale_count(count: int, factors: Sequence[PrimExpr]) -> PrimExpr:
    """Return `count` times the product of some extents."""
    total: PrimExpr = ops.const(1, INT64)
    for factor in factors:
        total = ops.mul(total, factor)
    return ops.mul(total, ops.const(count, INT64))


def rounded_up(value: PrimExpr, more: int) -> PrimExpr:
    """Return a value rounded up to a multiple of the alignment, plus `more` multiples."""
    unit = ops.const(ALIGNMENT, INT64)
    units = ops.floordiv(ops.add(value, ops.const(ALIGNMENT - 1, INT64)), unit)
    return ops.mul(ops.add(units, ops.const(more, INT64)), unit)
