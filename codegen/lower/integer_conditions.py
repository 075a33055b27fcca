"""Comparisons of integers as linear inequalities, and the facts that decide them.

A comparison of scalars or of evenly spaced lanes is `sum(factor * term) + constant >= 0`, where a
term is a variable or a nonlinear expression. Intervals of terms and of sums decide the comparison,
or reduce it to fewer terms.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from codegen.lower.rewriters import BranchDecider
from tensorir.arith.coefficients import coefficients
from tensorir.arith.const_interval import EVERYTHING, Interval, exact_interval
from tensorir.arith.terms import expr_key
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import LE, LT, Broadcast, CmpOp, IntImm, PrimExpr, Ramp, Var
from tensorir.nodes.index_arithmetic import holds_indices, is_index_arithmetic
from tensorir.nodes.ops import FALSE, TRUE, add, const, mul
from tensorir.rewriting.visit import collect_vars
from tensorir.semantics.purity import may_run_anywhere

Terms = dict[Any, int]
"""Factors of terms, by the variable or by the structural key of another expression."""


@dataclass(eq=False, frozen=True, slots=True)
class Inequality:
    """`sum(factor * term) + constant + step * lane >= 0` in each lane."""

    terms: Terms
    constant: int
    step: int
    lanes: int
    dtype: DataType
    """The dtype of the compared numbers."""
    parts: Mapping[Any, PrimExpr]
    """The terms that are not variables, by their keys."""
    used: frozenset[Var]
    """The variables in all terms."""
    wrapping: Any
    """The term that must be alone on its side because arithmetic on it wraps; None without such a
    term.
    """

    def variables(self, terms: Terms) -> Iterator[Var]:
        """Return the variables in some of its terms, some more than once."""
        return _variables(terms, self.parts)


class Reader:
    """Reads each comparison once; arithmetic on the variables in `values` wraps."""

    def __init__(self, values: Container[Var]) -> None:
        self._values = values
        self._known: dict[PrimExpr, Inequality | None] = {}

    def __call__(self, node: PrimExpr) -> Inequality | None:
        """Return a comparison as an inequality, None for other expressions."""
        if node not in self._known:
            self._known[node] = read_inequality(node, self._values)
        return self._known[node]


def read_inequality(node: PrimExpr, values: Container[Var] = frozenset()) -> Inequality | None:
    """Return a comparison as an inequality, None unless it is a linear one of integers."""
    if not isinstance(node, CmpOp) or type(node) in (e.EQ, e.NE):
        return None
    if not holds_indices(node.a.dtype.element):
        return None
    small, large = (node.a, node.b) if type(node) in (LT, LE) else (node.b, node.a)
    lanes = node.dtype.lanes
    first, second = _spacing(small), _spacing(large)
    if first is None or second is None:
        return None
    terms: Terms = {}
    parts: dict[Any, PrimExpr] = {}
    wrapping: list[Any] = []
    total = -1 if type(node) in (LT, e.GT) else 0
    for (base, apart), sign in ((first, -1), (second, 1)):
        if is_index_arithmetic(base, values):
            linear = coefficients(base)
            total += sign * linear.constant
            found: list[tuple[Any, int]] = list(linear.of.items())
            for part, factor in linear.parts:
                key = expr_key(part)
                parts[key] = part
                found.append((key, factor))
        elif apart:
            return None  # Its lanes may wrap.
        else:
            key = base if isinstance(base, Var) else expr_key(base)
            parts[key] = base
            wrapping.append(key)
            found = [(key, 1)]
        for key, factor in found:
            terms[key] = terms.get(key, 0) + sign * factor
    if len(wrapping) > 1 or not all(may_run_anywhere(part) for part in parts.values()):
        return None
    terms = {key: factor for key, factor in terms.items() if factor}
    step = second[1] - first[1]
    alone = wrapping[0] if wrapping and wrapping[0] in terms else None
    used = frozenset(_variables(terms, parts))
    return Inequality(terms, total, step, lanes, first[0].dtype, parts, used, alone)


def _variables(terms: Terms, parts: Mapping[Any, PrimExpr]) -> Iterator[Var]:
    for term in terms:
        if isinstance(term, Var):
            yield term
        else:
            yield from collect_vars(parts[term])


def _spacing(side: PrimExpr) -> tuple[PrimExpr, int] | None:
    """Return the first lane of one side of a comparison and the distance of lanes."""
    if side.dtype.lanes == 1:
        return side, 0
    if type(side) is Broadcast:
        return side.value, 0
    if type(side) is Ramp and type(side.stride) is IntImm:
        return side.base, side.stride.value
    return None


class Facts:
    """The known intervals of terms and sums at one place of a program."""

    def __init__(self) -> None:
        self.ranges: dict[Var, Interval] = {}
        self._sums: list[tuple[Terms, Interval]] = []

    @contextmanager
    def within(self, terms: Terms, low: int, high: int) -> Iterator[None]:
        """Assume inside a `with` statement that a sum is in `[low, high]`."""
        self._sums.append((terms, (low, high)))
        try:
            yield
        finally:
            self._sums.pop()

    def interval(self, terms: Terms, parts: Mapping[Any, PrimExpr]) -> Interval:
        """Return the interval of a sum."""
        low = high = 0
        for term, factor in terms.items():
            a, b = self._term(term, parts)
            low += factor * (a if factor > 0 else b)
            high += factor * (b if factor > 0 else a)
        for known, (a, b) in self._sums:
            times = _times(terms, known)
            if times is None:
                continue
            rest = {term: factor for term, factor in terms.items() if term not in known}
            c, d = self.interval(rest, parts) if rest else (0, 0)
            low = max(low, times * (a if times > 0 else b) + c)
            high = min(high, times * (b if times > 0 else a) + d)
        return low, high

    def _term(self, term: Any, parts: Mapping[Any, PrimExpr]) -> Interval:
        if isinstance(term, Var):
            return self.ranges.get(term, EVERYTHING)
        return exact_interval(parts[term], self.ranges) or EVERYTHING

    def free(self, condition: Inequality) -> Terms:
        """Return the terms of a condition that may still have several values."""
        terms = condition.terms
        for known, (a, b) in self._sums:
            if a == b and _times(terms, known) is not None:
                terms = {term: factor for term, factor in terms.items() if term not in known}
        return {
            term: factor
            for term, factor in terms.items()
            if len({*self._term(term, condition.parts)}) > 1
        }

    def rest(self, condition: Inequality, free: Terms) -> Interval:
        """Return the interval, over all lanes, of the terms of a condition that are not free."""
        fixed = {term: f for term, f in condition.terms.items() if term not in free}
        value = condition.constant + self.interval(fixed, condition.parts)[0]
        across = condition.step * (condition.lanes - 1)
        return value + min(across, 0), value + max(across, 0)

    def reduced(self, node: PrimExpr, condition: Inequality) -> PrimExpr:
        """Return a comparison decided, or without the terms that have one value."""
        low, high = self.interval(condition.terms, condition.parts)
        across = condition.step * (condition.lanes - 1)
        low, high = low + min(across, 0), high + max(across, 0)
        if low + condition.constant >= 0 or high + condition.constant < 0:
            answer = TRUE if low + condition.constant >= 0 else FALSE
            return answer if condition.lanes == 1 else Broadcast(answer, condition.lanes)
        free = self.free(condition)
        if len(free) == len(condition.terms) or condition.wrapping in condition.terms:
            return node
        value = self.rest(condition, free)
        return inequality(free, value[0] - min(across, 0), condition)


def _times(terms: Terms, known: Terms) -> int | None:
    """Return the quotient of `terms` and `known`, None if `terms` are not a multiple."""
    times: int | None = None
    for term, factor in known.items():
        quotient, rest = divmod(terms.get(term, 0), factor)
        if rest or not quotient or times not in (None, quotient):
            return None
        times = quotient
    return times


def inequality(
    terms: Terms, constant: int, like: Inequality, *, in_all_lanes: bool = False
) -> PrimExpr:
    """Return `sum(factor * term) + constant + step * lane >= 0` as a comparison.

    The meaning of the terms, the dtype and the lanes are those of `like`. With `in_all_lanes`, the
    comparison is a scalar that uses the constant of the strictest lane.
    """
    small: PrimExpr = const(0, like.dtype)
    large: PrimExpr = const(0, like.dtype)
    for term, factor in terms.items():
        expr = term if isinstance(term, Var) else like.parts[term]
        if factor < 0:
            small = add(small, mul(expr, const(-factor, like.dtype)))
        else:
            large = add(large, mul(expr, const(factor, like.dtype)))
    # A term that wraps must be alone on its side, so a constant is added to the other side.
    if terms.get(like.wrapping, 0) < 0 or type(large) is IntImm:
        large = add(large, const(constant + 1, like.dtype))
    else:
        small = add(small, const(-constant - 1, like.dtype))
    if in_all_lanes or like.lanes == 1:
        return LT(small, large)
    stride, lanes = const(abs(like.step), like.dtype), like.lanes
    left = Ramp(small, stride, lanes) if like.step < 0 else Broadcast(small, lanes)
    return LT(left, Ramp(large, stride, lanes) if like.step > 0 else Broadcast(large, lanes))


class ComparisonDecider(BranchDecider):
    """Decides comparisons by `facts`, and removes the branches and choices that they decide."""

    def __init__(self, reader: Reader) -> None:
        self._read = reader
        self.facts = Facts()

    def rewrite_CmpOp(self, node: CmpOp) -> PrimExpr:  # noqa: N802
        """Return a comparison, as a constant if it is decided."""
        condition = self._read(node)
        return self.generic(node) if condition is None else self.facts.reduced(node, condition)
