"""Connectives of scalar conditions, as Boolean algebra over sets of integers.

A comparison restricts a sum without a constant (its *direction*) to a set of integers. The sets of
parts with the same direction are intersected, and the result is written with the fewest
comparisons: `x < 5 and x < 7` is `x < 5`, `x <= y and y <= x` is `x == y`. Any other condition is a
direction of its own, restricted to 0 or 1. A part that is itself a connective is simplified under
the facts of its siblings, so `p and (p or q)` is `p`. A disjunction is the negation of a
conjunction of negations.

The left operand guards the right operand. So a part is never moved to the left of another part,
except into a part that computes the same sum already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise, zip_longest
from typing import Final, TypeAlias

from tensorir.arith.comparing import NEGATION, Comparisons, gap_of
from tensorir.arith.const_interval import HALF_INFINITE, INFINITE, Interval
from tensorir.arith.linear import Key, Linear
from tensorir.arith.linearize import Linearizer
from tensorir.arith.terms import expr_key
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr
from tensorir.nodes.index_arithmetic import is_scalar_integer
from tensorir.nodes.ops import FALSE, TRUE, all_of, logical_not, logical_or

IntegerSet: TypeAlias = tuple[Interval, ...]
"""Sorted disjoint intervals with gaps between them; a bound beyond `HALF_INFINITE` is infinite."""

ALL: Final[IntegerSet] = ((-INFINITE, INFINITE),)


def at_least(low: int) -> IntegerSet:
    """Return the set of integers that are at least `low`."""
    return ((low, INFINITE),)


def singleton(value: int) -> IntegerSet:
    """Return the set of one integer."""
    return ((value, value),)


def complement(values: IntegerSet) -> IntegerSet:
    """Return the integers that are not in a set."""
    result: list[Interval] = []
    if not values:
        return ALL
    low = -INFINITE
    for first, last in values:
        if first > -HALF_INFINITE:
            result.append((low, first - 1))
        low = last + 1
    if values[-1][1] < HALF_INFINITE:
        result.append((low, INFINITE))
    return tuple(result)


def intersection(a: IntegerSet, b: IntegerSet) -> IntegerSet:
    """Return the integers that are in both sets."""
    common = [(max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b]
    return tuple(sorted(part for part in common if part[0] <= part[1]))


def scaled(values: IntegerSet, factor: int, offset: int) -> IntegerSet:
    """Return the integers v for which `factor * v + offset` is in a set; the factor is not 0."""
    result: list[Interval] = []
    for first, last in values:
        low, high = (first, last) if factor > 0 else (-last, -first)
        shift = offset if factor > 0 else -offset
        size = abs(factor)
        low = low if low <= -HALF_INFINITE else -((shift - low) // size)
        high = high if high >= HALF_INFINITE else (high - shift) // size
        if low <= high:
            result.append((low, high))
    return tuple(sorted(result))


def comparisons(values: IntegerSet, within: Interval) -> list[IntegerSet] | None:
    """Return sets, each testable by one comparison, whose intersection within `within` is the set.

    A result is an unbounded interval, a single integer, or all integers but one. Return None if
    more than these are needed. `values` is a non-empty subset of `within`.
    """
    least, most = values[0][0], values[-1][1]
    if least == most:
        return [singleton(least)]
    result: list[IntegerSet] = []
    if least > within[0]:
        result.append(at_least(least))
    if most < within[1]:
        result.append(complement(at_least(most + 1)))
    for (_, before), (after, _) in pairwise(values):
        if after != before + 2:
            return None
        result.append(complement(singleton(before + 1)))
    return result


_TRUE_ONLY: Final[IntegerSet] = singleton(1)
_FALSE_ONLY: Final[IntegerSet] = singleton(0)
_BOOL: Final = (0, 1)


def negation(condition: PrimExpr) -> PrimExpr:
    """Return the negation of a scalar condition, pushed into its comparisons."""
    kind = type(condition)
    if isinstance(condition, e.CmpOp):
        exact = not condition.a.dtype.is_floating
        if exact or kind is e.EQ or kind is e.NE:
            # A comparison such as `<` with a NaN is false, and so is the opposite comparison.
            return NEGATION[kind](condition.a, condition.b)  # type: ignore[index]
    if isinstance(condition, e.Not):
        return condition.a
    if isinstance(condition, e.And):
        return e.Or(negation(condition.a), negation(condition.b))
    if isinstance(condition, e.Or):
        return e.And(negation(condition.a), negation(condition.b))
    return logical_not(condition)


def parts_of(condition: PrimExpr, kind: type[e.LogicalOp]) -> list[PrimExpr]:
    """Return the operands of a chain of `kind` (and, or), in the order written."""
    if type(condition) is kind:
        return [*parts_of(condition.a, kind), *parts_of(condition.b, kind)]
    return [condition]


@dataclass(slots=True)
class _Literal:
    """A restriction of a direction to a set of integers; the direction of a bool condition is 0 or
    1.
    """

    key: Key
    values: IntegerSet
    within: Interval
    """An interval that holds every value of the direction."""
    sum: Linear | None
    """The direction as a linear combination; None if it is a bool condition."""
    dtype: DataType


Knowledge = Mapping[Key, IntegerSet]


class Connectives:
    """Simplifies conjunctions and disjunctions of simplified conditions."""

    def __init__(self, reader: Linearizer, compare: Comparisons) -> None:
        self._reader: Final = reader
        self._compare: Final = compare
        self._directions: dict[Key, Linear] = {}
        """Directions of the current condition.

        Of a direction and its negative only the first is kept.
        """

    def connect(self, parts: Iterable[PrimExpr], kind: type[e.LogicalOp]) -> PrimExpr:
        """Return the conjunction or disjunction of simplified conditions."""
        self._directions = {}
        return self._connect([q for p in parts for q in parts_of(p, kind)], kind, {})

    def _connect(
        self, parts: list[PrimExpr], kind: type[e.LogicalOp], known: Knowledge
    ) -> PrimExpr:
        """Connect parts, given that the directions in `known` are in the sets stored there.

        A disjunction is read as the negated conjunction of its negated parts, since a part matters
        only if the other parts are false.
        """
        conjunction = kind is e.And
        neutral, deciding = (TRUE, FALSE) if conjunction else (FALSE, TRUE)
        parts = [p for p in parts if not (type(p) is IntImm and p.value == neutral.value)]
        if any(type(p) is IntImm for p in parts):
            return deciding
        literals = [self._literal(part, conjunction) for part in parts]
        groups: dict[Key, list[int]] = {}
        for position, literal in enumerate(literals):
            if literal is not None:
                groups.setdefault(literal.key, []).append(position)
        restrictions = dict(known)
        result: list[PrimExpr | None] = list(parts)
        for key, positions in groups.items():
            group = [literal for k in positions if (literal := literals[k]) is not None]
            may_be = intersection(known.get(key, ALL), (group[0].within,))
            restrictions[key] = reduce(intersection, [literal.values for literal in group], may_be)
            if not restrictions[key]:
                return deciding
            shortest: list[PrimExpr] | None = None
            if restrictions[key] == may_be:
                shortest = []
            elif len(group) > 1:
                shortest = self._restriction_conditions(
                    group[0], parts[positions[0]], restrictions[key], may_be, kind
                )
            if shortest is not None and len(shortest) < len(group):
                for position, part in zip_longest(positions, shortest):
                    result[position] = part
        if None in literals:
            return self._nested(result, literals, kind, known, restrictions)
        return join_conditions([part for part in result if part is not None], kind)

    def _nested(
        self,
        parts: list[PrimExpr | None],
        literals: Sequence[_Literal | None],
        kind: type[e.LogicalOp],
        known: Knowledge,
        restrictions: Knowledge,
    ) -> PrimExpr:
        """Simplify the parts that are connectives under the restrictions of the literals.

        The parts to the right of a part may decide it, but must not change it, because it may guard
        them.
        """
        conjunction = kind is e.And
        other: type[e.LogicalOp] = e.Or if conjunction else e.And
        deciding = FALSE if conjunction else TRUE
        current_restrictions = dict(known)
        result: list[PrimExpr] = []
        again = False
        for part, literal in zip(parts, literals, strict=True):
            if literal is not None:
                before = current_restrictions.get(literal.key, (literal.within,))
                current_restrictions[literal.key] = intersection(before, literal.values)
            if part is None:
                continue
            if type(part) is other:
                inner = parts_of(part, other)
                new = self._connect(inner, other, restrictions)
                if type(new) is not IntImm and current_restrictions != restrictions:
                    new = self._connect(inner, other, current_restrictions)
                part = new
                if type(part) is IntImm:
                    if part.value == deciding.value:
                        return deciding
                    continue
                again = again or type(part) is not other
            result.append(part)
        result = _distinct(result)
        if again:
            return self._connect([q for p in result for q in parts_of(p, kind)], kind, known)
        factored = self._factored(result, kind, other, known)
        return join_conditions(result, kind) if factored is None else factored

    def _factored(
        self,
        parts: list[PrimExpr],
        kind: type[e.LogicalOp],
        other: type[e.LogicalOp],
        known: Knowledge,
    ) -> PrimExpr | None:
        """Factor out a common first part: `(p and q) or (p and r)` is `p and (q or r)`."""
        if len(parts) < 2 or any(type(part) is not other for part in parts):
            return None
        inner = [parts_of(part, other) for part in parts]
        keys = [[expr_key(p) for p in part] for part in inner]
        shared = 0
        while all(len(k) > shared and k[shared] == keys[0][shared] for k in keys):
            shared += 1
        if shared == 0:
            return None
        rests = [join_conditions(part[shared:], other) for part in inner]
        rest = self._connect([q for p in rests for q in parts_of(p, kind)], kind, known)
        return self._connect([*inner[0][:shared], *parts_of(rest, other)], other, known)

    # ----------------------------------------------------------------------------------- literals

    def _literal(self, part: PrimExpr, conjunction: bool) -> _Literal | None:
        """Read a part, or its negation in a disjunction; None for a connective."""
        if isinstance(part, e.LogicalOp):
            return None
        if isinstance(part, e.CmpOp) and is_scalar_integer(part.a.dtype):
            literal = self._comparison(part)
        elif isinstance(part, e.Not):
            literal = _Literal(expr_key(part.a), _FALSE_ONLY, _BOOL, None, part.dtype)
        else:
            literal = _Literal(expr_key(part), _TRUE_ONLY, _BOOL, None, part.dtype)
        if not conjunction:
            literal.values = complement(literal.values)
        return literal

    def _comparison(self, part: e.CmpOp) -> _Literal:
        gap = gap_of(part, self._reader)
        if gap is not None:
            total, values = gap.times(-1), complement(at_least(1))
        else:
            total = self._reader(part.a).plus(self._reader(part.b), -1)
            values = singleton(0) if type(part) is e.EQ else complement(singleton(0))
        size = total.content() or 1
        if all(c < 0 for c in total.terms.values()):
            size = -size
        direction = Linear(total.terms, 0).over(size)
        opposite = self._directions.get(direction.times(-1).key)
        if opposite is not None:
            direction, size = opposite, -size
        self._directions.setdefault(direction.key, direction)
        values = scaled(values, size, total.const)
        within = self._reader.bound(direction)
        return _Literal(direction.key, values, within, direction, part.a.dtype)

    def _restriction_conditions(
        self,
        literal: _Literal,
        part: PrimExpr,
        values: IntegerSet,
        may_be: IntegerSet,
        kind: type[e.LogicalOp],
    ) -> list[PrimExpr] | None:
        """Return conditions that together restrict a direction to a set.

        Return None if that takes too many. The direction is the one of `literal`, which was read
        from `part`.
        """
        direction, dtype = literal.sum, literal.dtype
        if direction is None:
            return [part]
        shortest = comparisons(values, (may_be[0][0], may_be[-1][1]))
        if shortest is None:
            return None
        written: list[PrimExpr | None] = []
        for wanted in shortest:
            if kind is e.Or:
                wanted = complement(wanted)
            (first, last) = wanted[0]
            if first == last or len(wanted) > 1:
                value = first if len(wanted) == 1 else last + 1
                gap = direction.plus_const(-value)
                written.append(self._compare.zero(gap, dtype, len(wanted) == 1))
            elif last >= HALF_INFINITE:
                written.append(self._compare.at_least_zero(direction.plus_const(-first), dtype))
            else:
                gap = direction.times(-1).plus_const(last)
                written.append(self._compare.at_least_zero(gap, dtype))
        found = [part for part in written if part is not None]
        return found if len(found) == len(written) else None


def join_conditions(parts: Sequence[PrimExpr], kind: type[e.LogicalOp]) -> PrimExpr:
    """Return the conjunction or disjunction of conditions."""
    if kind is e.And:
        return all_of(parts)
    result: PrimExpr = FALSE
    for part in parts:
        result = logical_or(result, part)
    return result


def _distinct(parts: Iterable[PrimExpr]) -> list[PrimExpr]:
    seen: dict[Key, PrimExpr] = {}
    for part in parts:
        seen.setdefault(expr_key(part), part)
    return list(seen.values())
