"""The values that the arguments of a program may have if they select the elements it accesses.

A loaded integer may be an index (`A[I[i]]`), a count of iterations or a divisor. The extent of the
indexed buffer bounds the index. This module propagates the bounds through the expression down to
its loads, through bound names, axes, and buffers that hold copies. Values without a lower bound
start at 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensorir.arith.const_interval import EVERYTHING, INFINITE, Interval, union, value_interval
from tensorir.function import PrimFunc
from tensorir.nodes import expr as e
from tensorir.nodes import stmt as s
from tensorir.nodes.buffer import Buffer
from tensorir.nodes.expr import BufferLoad, IntImm, IterVar, PrimExpr, Var, integer_limits
from tensorir.nodes.node import Node
from tensorir.rewriting.visit import walk

USUAL: Final = 8
"""The number of values to choose from if the program does not bound them from above."""
_ROUNDING: Final = frozenset(("floor", "trunc", "round", "nearbyint", "likely"))
_FOLDED: Final[Mapping[type, Any]] = {
    e.LT: lambda a, b: _truth(a[1] < b[0], a[0] >= b[1]),
    e.LE: lambda a, b: _truth(a[1] <= b[0], a[0] > b[1]),
    e.GT: lambda a, b: _truth(a[0] > b[1], a[1] <= b[0]),
    e.GE: lambda a, b: _truth(a[0] >= b[1], a[1] < b[0]),
    e.EQ: lambda a, b: _truth(a[0] == a[1] == b[0] == b[1], a[0] > b[1] or a[1] < b[0]),
    e.NE: lambda a, b: _truth(a[0] > b[1] or a[1] < b[0], a[0] == a[1] == b[0] == b[1]),
    e.And: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    e.Or: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}


@dataclass(frozen=True)
class Values:
    """The values that an argument may hold: numbers from `low` to `high`; empty if `low > high`.

    Along the axes `distinct`, taken together, all numbers differ: they select the elements that
    parallel iterations write.
    """

    low: int
    high: int
    distinct: tuple[int, ...] = ()

    def why_none(self, shape: Sequence[int]) -> str | None:
        """Return the reason if no array of a shape can hold such numbers, else None."""
        if self.low > self.high:
            return "no number is in range for all its uses as an index"
        count = self.high - self.low + 1
        wanted = 1
        for axis in self.distinct:
            wanted *= shape[axis]
        if wanted > count:
            return (
                f"its {wanted} numbers select the elements that parallel iterations write, so they "
                f"have to differ, but there are only {count} elements"
            )
        return None


def argument_values(func: PrimFunc) -> dict[int, Values]:
    """Return the values of the arguments that select accessed elements, by their positions.

    The other arguments may hold any value of their dtype.
    """
    found = Requirements(func)
    for node in walk(func.body):
        found.look_at(node)
    values: dict[int, Values] = {}
    for position, param in enumerate(func.params):
        buffer = func.buffer_map.get(param)
        if buffer is not None and buffer in found.required:
            low, high = found.required[buffer]
            if low <= 0 <= high:
                low = 0
            if low > -INFINITE:
                high = min(high, low + USUAL - 1) if high >= INFINITE else high
            else:
                low = high - USUAL + 1
            distinct = tuple(sorted(found.distinct.get(buffer, ())))
            values[position] = Values(low, high, distinct)
    return values


class Requirements:
    """The known intervals that must contain the values of buffers."""

    def __init__(self, func: PrimFunc) -> None:
        self.required: dict[Buffer, Interval] = {}
        self.distinct: dict[Buffer, set[int]] = {}
        self._params = set(func.buffer_map.values())
        self._stored: dict[Buffer, list[PrimExpr]] = defaultdict(list)
        self._ranges: dict[Var, Interval] = {}
        self._defined: dict[Var, PrimExpr] = {}
        self._counts: dict[Var, tuple[PrimExpr, PrimExpr]] = {}
        self._unordered: set[Var] = set()
        self._held: dict[Buffer, Interval] = {}
        self._traced: set[Buffer] = set()
        for node in walk(func.body):
            self._define(node)

    def _define(self, node: Node) -> None:
        match node:
            case s.For():
                self._counts[node.loop_var] = (node.min, node.extent)
                if node.kind is s.ForKind.PARALLEL:
                    self._unordered.add(node.loop_var)
            case s.BlockRealize():
                for axis, value in zip(node.block.iter_vars, node.iter_values, strict=True):
                    self._defined[axis.var] = value
                    if axis.iter_type == IterVar.DATA_PAR:
                        self._unordered.add(axis.var)
            case s.LetStmt() | e.Let():
                self._defined[node.var] = node.value
            case s.BufferStore():
                self._stored[node.buffer].append(node.value)

    # ------------------------------------------------------------------------------- requirements

    def look_at(self, node: Node) -> None:
        """Record the values that a node requires of its parts."""
        match node:
            case BufferLoad():
                self._want_inside(node)
            case s.BufferStore():
                self._want_inside(node)
                self._want_distinct(node)
            case e.Div() | e.Mod() | e.FloorDiv() | e.FloorMod():
                if node.dtype.is_integral and self.interval(node.b)[1] <= 0:
                    self.want(node.b, -INFINITE, -1)
                elif node.dtype.is_integral:
                    self.want(node.b, 1, INFINITE)

    def _want_inside(self, access: BufferLoad | s.BufferStore) -> None:
        for index, extent in zip(access.indices, access.buffer.shape, strict=True):
            if isinstance(extent, IntImm):
                self.want(index, 0, extent.value - 1)

    def want(self, expr: PrimExpr, low: int, high: int) -> None:
        """Narrow the loads in an expression so that it lies between two numbers."""
        least, most = self.interval(expr)
        if low <= least and most <= high:
            return
        low, high = max(low, -INFINITE), min(high, INFINITE)
        match expr:
            case BufferLoad():
                self._narrow(expr.buffer, low, high)
            case Var():
                self._want_of_variable(expr, low, high)
            case e.Cast():
                self.want(expr.value, low, high)
            case e.Let():
                self.want(expr.body, low, high)
            case e.Add() | e.Sub() | e.Mul():
                self._want_of_sum(expr, low, high)
            case e.FloorDiv() | e.Div():
                if isinstance(expr.b, IntImm) and expr.b.value > 0:
                    divisor = expr.b.value
                    self.want(
                        expr.a, _scale_end(low, divisor), _scale_end(high, divisor) + divisor - 1
                    )
            case e.FloorMod() | e.Mod():
                self.want(expr.a, max(low, 0), high)
            case e.Min():
                self._want_of_extremum(expr, low, high, is_min=True)
            case e.Max():
                self._want_of_extremum(expr, low, high, is_min=False)
            case e.Select() | e.Call():
                chosen = choice_of(expr)
                if chosen is not None:
                    for part in self._possible(*chosen):
                        self.want(part, low, high)
                elif isinstance(expr, e.Call) and getattr(expr.op, "short_name", "") in _ROUNDING:
                    self.want(expr.args[0], low, high)

    def _narrow(self, buffer: Buffer, low: int, high: int) -> None:
        before = self.required.get(buffer, EVERYTHING)
        after = (max(low, before[0]), min(high, before[1]))
        if after == before:
            return
        self.required[buffer] = after
        self._held.clear()
        if buffer in self._params or buffer in self._traced:
            return
        self._traced.add(buffer)  # the buffer's own values in a stored value are not traced again
        for value in self._stored.get(buffer, ()):
            self.want(value, *after)
        self._traced.remove(buffer)

    def _want_of_variable(self, var: Var, low: int, high: int) -> None:
        if var in self._defined:
            self.want(self._defined[var], low, high)
        elif var in self._counts:
            first, count = self._counts[var]
            self.want(first, low, INFINITE)
            self.want(count, -INFINITE, high - self.interval(first)[0] + 1)

    def _want_of_sum(self, expr: PrimExpr, low: int, high: int) -> None:
        """Divide an interval among the terms of a sum, starting with the greatest factor.

        So `4 * I[i] + J[i]` in [0, 15] gives [0, 3] to both terms.
        """
        constant, loaded = 0, []
        for factor, term in _terms(expr, 1):
            if isinstance(term, IntImm):
                constant += factor * term.value
            elif self.is_loaded(term):
                loaded.append((factor, term))
            else:
                least, most = sorted(_scale_end(end, factor) for end in self.interval(term))
                if least <= -INFINITE or most >= INFINITE:
                    return
                low, high = low - least, high - most
        low, high = low - constant, high - constant
        if any(term is expr for _, term in loaded):
            return  # a product of a loaded value and another expression
        for factor, term in sorted(loaded, key=lambda entry: -abs(entry[0])):
            ends = [_quotient(end, factor) for end in (low, high)]
            least, most = (ends[0][1], ends[1][0]) if factor > 0 else (ends[1][1], ends[0][0])
            if len(loaded) > 1:
                least, most = max(least, self.interval(term)[0]), min(most, self.interval(term)[1])
            self.want(term, least, most)
            if least <= -INFINITE or most >= INFINITE:
                return
            taken = sorted((_scale_end(least, factor), _scale_end(most, factor)))
            low, high = low - taken[0], high - taken[1]

    def _want_of_extremum(self, expr: e.Min | e.Max, low: int, high: int, is_min: bool) -> None:
        ends = [self.interval(part) for part in (expr.a, expr.b)]
        if is_min and any(most <= high for _, most in ends):
            high = INFINITE
        elif not is_min and any(least >= low for least, _ in ends):
            low = -INFINITE
        for part in (expr.a, expr.b):
            self.want(part, low, high)

    def _possible(
        self, condition: PrimExpr, if_true: PrimExpr, if_false: PrimExpr
    ) -> Iterator[PrimExpr]:
        """Yield the possible values of a choice."""
        least, most = self.interval(condition)
        if most > 0:
            yield if_true
        if least <= 0:
            yield if_false

    # ------------------------------------------------------------------------------------ intervals

    def interval(self, expr: PrimExpr) -> Interval:
        """Return the interval of an expression if all loads have their required values."""
        match expr:
            case BufferLoad():
                return self._interval_of(expr.buffer)
            case Var():
                return self._interval_of_variable(expr)
            case e.Not():
                least, most = self.interval(expr.a)
                return 1 - most, 1 - least
            case e.Select() | e.Call():
                if (chosen := choice_of(expr)) is not None:
                    return union(*map(self.interval, self._possible(*chosen)))
        folded = _FOLDED.get(type(expr))
        if folded is not None:
            assert isinstance(expr, e.BinaryOp)
            return folded(self.interval(expr.a), self.interval(expr.b))  # type: ignore[no-any-return]
        return value_interval(expr, self.interval) or EVERYTHING

    def _interval_of(self, buffer: Buffer) -> Interval:
        """Return the interval of a buffer: from 0 on for an argument, else of its stored values."""
        known = self._held.get(buffer)
        if known is not None:
            return known
        anything = integer_limits(buffer.dtype) if buffer.dtype.is_integral else EVERYTHING
        low, high = self.required.get(buffer, (0, INFINITE))
        if buffer in self._params:
            if buffer.dtype.is_integral:
                return max(low, 0) if high >= 0 else low, min(high, anything[1])
            return self.required.get(buffer, EVERYTHING)
        self._held[buffer] = anything  # while its stored values are examined
        stored = [part for value in self._stored[buffer] for part in _new_values(value, buffer)]
        found = union(*map(self.interval, stored)) if stored else anything
        self._held[buffer] = found
        return found

    def _interval_of_variable(self, var: Var) -> Interval:
        known = self._ranges.get(var)
        if known is not None:
            return known
        if var in self._defined:
            return self.interval(self._defined[var])
        if var not in self._counts:
            return integer_limits(var.dtype) if var.dtype.is_integral else EVERYTHING
        first, count = self._counts[var]
        least, most = self.interval(first)
        found = (least, max(least, most + self.interval(count)[1] - 1))
        if isinstance(first, IntImm) and isinstance(count, IntImm):
            self._ranges[var] = found
        return found

    def is_loaded(self, expr: PrimExpr) -> bool:
        """Return True if a value contains a load."""
        return next(self._loads(expr), None) is not None

    def arguments_in(self, expr: PrimExpr) -> list[Buffer]:
        """Return the arguments that a value depends on, directly or through other buffers."""
        found: dict[Buffer, None] = {}
        left = [load.buffer for load in self._loads(expr)]
        while left:
            buffer = left.pop()
            if buffer not in found:
                found[buffer] = None
                if buffer not in self._params:
                    stored = self._stored[buffer]
                    left += [load.buffer for value in stored for load in self._loads(value)]
        return [buffer for buffer in found if buffer in self._params]

    def _loads(self, expr: PrimExpr) -> Iterator[BufferLoad]:
        for node in walk(expr):
            if isinstance(node, BufferLoad):
                yield node
            elif isinstance(node, Var):
                defined = (self._defined[node],) if node in self._defined else ()
                for part in self._counts.get(node, defined):
                    yield from self._loads(part)

    # ------------------------------------------------------------------------------------- distinct

    def _want_distinct(self, store: s.BufferStore) -> None:
        """Record loads that select the elements written by iterations in any order.

        Iterations that differ in another index of the store do not count.
        """
        loaded = [index for index in store.indices if self.is_loaded(index)]
        apart = {
            node
            for index in store.indices
            if not self.is_loaded(index)
            for node in walk(index)
            if isinstance(node, Var)
        }
        for index in loaded:
            for load in walk(index):
                if isinstance(load, BufferLoad) and load.buffer in self._params:
                    axes = [
                        axis
                        for axis, part in enumerate(load.indices)
                        if any(v in self._unordered and v not in apart for v in walk(part))
                    ]
                    if axes:
                        self.distinct.setdefault(load.buffer, set()).update(axes)


def _truth(yes: bool, no: bool) -> Interval:
    return (1, 1) if yes else (0, 0) if no else (0, 1)


def choice_of(expr: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """Return the condition and both values of a Select or `if_then_else`, else None."""
    if isinstance(expr, e.Select):
        return expr.condition, expr.true_value, expr.false_value
    if isinstance(expr, e.Call) and getattr(expr.op, "short_name", "") == "if_then_else":
        return expr.args[0], expr.args[1], expr.args[2]
    return None


def _new_values(value: PrimExpr, buffer: Buffer) -> Iterator[PrimExpr]:
    """Yield the values that may be stored to a buffer, except values that it already holds."""
    if isinstance(value, BufferLoad) and value.buffer is buffer:
        return
    chosen = choice_of(value)
    if chosen is not None:
        parts: tuple[PrimExpr, ...] = chosen[1:]
    elif isinstance(value, (e.Min, e.Max)):
        parts = (value.a, value.b)
    else:
        yield value
        return
    for part in parts:
        yield from _new_values(part, buffer)


def _terms(expr: PrimExpr, factor: int) -> Iterator[tuple[int, PrimExpr]]:
    """Yield the terms of a sum with their factors."""
    match expr:
        case e.Add():
            yield from _terms(expr.a, factor)
            yield from _terms(expr.b, factor)
        case e.Sub():
            yield from _terms(expr.a, factor)
            yield from _terms(expr.b, -factor)
        case e.Mul(a=IntImm()):
            yield from _terms(expr.b, factor * expr.a.value)  # type: ignore[attr-defined]
        case e.Mul(b=IntImm()):
            yield from _terms(expr.a, factor * expr.b.value)  # type: ignore[attr-defined]
        case _:
            yield factor, expr


def _scale_end(end: int, factor: int) -> int:
    return end * factor if abs(end) < INFINITE else (INFINITE if end * factor > 0 else -INFINITE)


def _quotient(end: int, factor: int) -> tuple[int, int]:
    """Return a quotient rounded down and up; infinity stays infinite."""
    if abs(end) >= INFINITE or not factor:
        infinite = INFINITE if end * (factor or 1) > 0 else -INFINITE
        return infinite, infinite
    return end // factor, -(-end // factor)
