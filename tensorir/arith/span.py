"""Symbolic interval arithmetic: bounds of linear combinations over the ranges of some variables.

Variables with a range are *moving*, the others are *fixed*. Each piece is bounded separately, so
the bounds of a sum are sums over fixed variables. The bounds of a monotonic piece are its values at
the bounds of its operands; a remainder keeps the bounds of its operand if both have the same
quotient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tensorir.arith.const_interval import (
    HALF_INFINITE,
    INFINITE,
    Interval,
    floor_quotient,
    floor_remainder,
    trunc_quotient,
    trunc_remainder,
    type_interval,
    value_interval,
)
from tensorir.arith.linear import (
    ZERO,
    Atom,
    Linear,
    Opaque,
    Piece,
    Quotient,
    Term,
    Terms,
    Wrapped,
    add_terms,
    without_zeros,
)
from tensorir.arith.linearize import Linearizer
from tensorir.arith.pieces import Pieces, pieces
from tensorir.arith.terms import choice_of, variables_of
from tensorir.nodes.expr import PrimExpr, Var, integer_limits
from tensorir.nodes.index_arithmetic import holds_indices

Ends: TypeAlias = tuple[Linear | None, Linear | None]
"""The minimum and the maximum, both included; None means no limit."""

Combine: TypeAlias = Callable[[Interval, Interval], "Interval | None"]

UNLIMITED: Final[Ends] = (None, None)


class Span:
    """Computes the bounds of linear combinations.

    `moving` returns the bounds of a variable, which may contain other moving variables; None for a
    fixed variable. With `known`, the facts of the reader's context about moving variables hold for
    all their values, and are used if they bound a sum of moving variables.
    """

    def __init__(
        self, reader: Linearizer, moving: Callable[[Var], Ends | None], *, known: bool = False
    ) -> None:
        self._reader = reader
        self._moving = moving
        self._known = known
        self._ends: dict[Var, Ends | None] = {}

    def __call__(self, value: Linear) -> Ends:
        """Return the bounds of `value` as combinations of fixed variables."""
        if self._holds_still(value):
            return value, value
        low = high = 0
        if self._known:
            value, (low, high) = self._without_known(value)
        lows: list[tuple[int, Linear | None]] = []
        highs: list[tuple[int, Linear | None]] = []
        for coefficient, piece in self._merge_split_quotients(pieces(value)):
            first, last = self._piece(piece)
            if coefficient < 0:
                first, last = last, first
            lows.append((coefficient, first))
            highs.append((coefficient, last))
        return _sum_of_multiples(low + value.rest, lows), _sum_of_multiples(
            high + value.rest, highs
        )

    def _merge_split_quotients(self, parts: Pieces) -> Pieces:
        """Merge a quotient with the multiple that a remainder in its dividend became.

        `(x % 32 // 8 + y) // 2` is read as `(x // 8 + y) // 2 - x // 32 * 2`: both terms have wide
        bounds, their difference has narrow ones.
        """
        moving = [(c, p) for c, p in parts if type(p) is Quotient and self._moves(p)]
        if len(moving) < 2:
            return parts
        gathered: dict[Term | Piece, Quotient | None] = {}
        for c, quotient in moving:
            if quotient in gathered:
                continue
            index = quotient.index
            for d, other in moving:
                if other is quotient or other in gathered or d % c:
                    continue
                whole = index.plus(Linear({other: 1}, 0), quotient.divisor * (d // c))
                if len(pieces(whole)) <= len(pieces(index)):
                    index = whole
                    gathered[other] = None
            if index is not quotient.index:
                gathered[quotient] = Quotient(index, quotient.divisor)
        found = ((c, gathered.get(p, p)) for c, p in parts)
        return [(c, p) for c, p in found if p is not None]

    def _without_known(self, value: Linear) -> tuple[Linear, Interval]:
        """Return the terms without constant bounds, and the sum of the constant bounds of the
        others.
        """
        loose = {t: c for t, c in value.terms.items() if self._moves_entirely(t)}
        low, high = self._reader.bound(Linear(loose, 0))
        if low <= -HALF_INFINITE or high >= HALF_INFINITE:
            return value, (0, 0)
        left = Linear({t: c for t, c in value.terms.items() if t not in loose}, value.const)
        return left, (low, high)

    # ------------------------------------------------------------------------- moving variables

    def _var(self, var: Var) -> Ends | None:
        """Return the bounds of a moving variable in fixed variables; None for a fixed variable."""
        if var not in self._ends:
            found = self._moving(var)
            if found is None:
                self._ends[var] = None
            else:
                # While they are being computed, the variable does not bound other variables.
                self._ends[var] = UNLIMITED
                low, high = found
                self._ends[var] = (
                    None if low is None else self(low)[0],
                    None if high is None else self(high)[1],
                )
        return self._ends[var]

    def _moves(self, term: Term) -> bool:
        if type(term) is Var:
            return self._var(term) is not None
        return any(self._var(var) is not None for var in variables_of(term))

    def _moves_entirely(self, term: Term) -> bool:
        return all(self._var(var) is not None for var in variables_of(term))

    def _holds_still(self, value: Linear) -> bool:
        for term in value.terms:  # noqa: SIM110 (a loop is faster, and every value goes through it)
            if self._moves(term):
                return False
        return True

    # ----------------------------------------------------------------------------------- pieces

    def _piece(self, piece: Term | Piece) -> Ends:
        if isinstance(piece, Var):
            point = Linear({piece: 1}, 0)
            return self._var(piece) or (point, point)
        if isinstance(piece, Atom) and not self._moves(piece):
            point = Linear({piece: 1}, 0)
            return point, point
        return piece.evaluate(self)

    # --------------------------------------------------------------------------- the domain of ends

    def of(self, value: Linear | int) -> Ends:
        """Return the bounds of a sum."""
        if isinstance(value, Linear):
            return self(value)
        point = Linear({}, value)
        return point, point

    def quotient(self, a: Ends, b: Ends, floors: bool) -> Ends:
        """Divide by a fixed, positive divisor, rounding down or toward zero."""
        divisor = self._positive_divisor(b)
        if divisor is None:
            return self._by_constants(floor_quotient if floors else trunc_quotient, a, b)
        low, high = a
        divide = self._reader.floor_divide if floors else self._reader.truncated
        return (
            None if low is None else divide(low, divisor),
            None if high is None else divide(high, divisor),
        )

    def remainder(self, a: Ends, b: Ends, floors: bool) -> Ends:
        """Return the remainder of division; bounds with one common quotient are kept."""
        modulus, reader = self._positive_divisor(b), self._reader
        if modulus is None:
            return self._by_constants(floor_remainder if floors else trunc_remainder, a, b)
        low, high = a
        if low is not None and high is not None:
            first, last = self.quotient(a, b, floors)
            assert first is not None
            assert last is not None
            if reader.bound(last.plus(first, -1)) == (0, 0):
                passed = reader.product(first, modulus)
                return low.plus(passed, -1), high.plus(passed, -1)
        most = modulus.plus_const(-1)
        from_zero = floors or (low is not None and reader.at_least_zero(low))
        up_to_zero = not floors and high is not None and reader.at_least_zero(high.times(-1))
        return ZERO if from_zero else most.times(-1), ZERO if up_to_zero else most

    def _by_constants(self, combine: Combine, a: Ends, b: Ends) -> Ends:
        """Divide by the constant bounds of the operands."""
        found = combine(self._constants(a), self._constants(b))
        if found is None:
            return UNLIMITED
        low, high = found
        return (
            None if low <= -HALF_INFINITE else Linear({}, low),
            None if high >= HALF_INFINITE else Linear({}, high),
        )

    def _constants(self, ends: Ends) -> Interval:
        low, high = ends
        return (
            -INFINITE if low is None else self._reader.bound(low)[0],
            INFINITE if high is None else self._reader.bound(high)[1],
        )

    def _positive_divisor(self, divisor: Ends) -> Linear | None:
        """Return a divisor that is fixed and positive; None for any other."""
        low, high = divisor
        if low is None or low is not high or not self._reader.at_least_zero(low.plus_const(-1)):
            return None
        return low

    def product(self, factors: tuple[Term, ...]) -> Ends:
        """Multiply terms, exactly one of which moves."""
        fixed_factors = [f for f in factors if not self._moves(f)]
        if len(fixed_factors) != len(factors) - 1:
            return UNLIMITED
        (moving_factor,) = (f for f in factors if f not in fixed_factors)
        reader, factor = self._reader, Linear({}, 1)
        for other in fixed_factors:
            factor = reader.product(factor, Linear({other: 1}, 0))
        low, high = self._piece(moving_factor)
        if not reader.at_least_zero(factor):
            if not reader.at_least_zero(factor.times(-1)):
                return UNLIMITED
            low, high = high, low
        return (
            None if low is None else reader.product(low, factor),
            None if high is None else reader.product(high, factor),
        )

    def extremum(self, values: list[Ends], largest: bool) -> Ends:
        """Return the smallest or the largest of several values."""
        return self._extremum_bounds(values, largest, largest)

    def opaque(self, term: Opaque) -> Ends:
        """Return the bounds of a nonlinear term."""
        choice = choice_of(term.expr)
        if choice is not None:
            spans = [self(self._reader(value)) for value in choice[1:]]
            return self._extremum_bounds(spans, False, True)
        found = value_interval(term.expr, self._operand)
        return UNLIMITED if found is None else _constant(found, term.expr)

    def wrapped(self, term: Wrapped) -> Ends:
        """Return the range of a dtype of values."""
        if holds_indices(term.dtype):
            return UNLIMITED
        least, most = integer_limits(term.dtype)
        return Linear({}, least), Linear({}, most)

    def _extremum_bounds(
        self, spans: list[Ends], low_is_largest: bool, high_is_largest: bool
    ) -> Ends:
        """Return the minimum or the maximum of the lower bounds, and of the upper bounds.

        A maximum of lower bounds may ignore missing bounds, and so may a minimum of upper bounds.
        """
        lows = [low for low, _ in spans if low is not None]
        highs = [high for _, high in spans if high is not None]
        low_known = bool(lows) if low_is_largest else len(lows) == len(spans)
        high_known = len(highs) == len(spans) if high_is_largest else bool(highs)
        pick = self._reader.extremum
        return (
            pick(lows, low_is_largest) if low_known else None,
            pick(highs, high_is_largest) if high_known else None,
        )

    def _operand(self, expr: PrimExpr) -> Interval | None:
        limits = type_interval(expr)
        if limits is None or expr.dtype.is_bool or expr.dtype.lanes != 1:
            return limits
        low, high = self(self._reader(expr))
        least = limits[0] if low is None else max(limits[0], self._reader.bound(low)[0])
        most = limits[1] if high is None else min(limits[1], self._reader.bound(high)[1])
        return least, most


def _sum_of_multiples(constant: int, parts: list[tuple[int, Linear | None]]) -> Linear | None:
    """Return the sum of a constant and multiples of combinations; None if one is missing."""
    terms: Terms = {}
    for coefficient, part in parts:
        if part is None:
            return None
        add_terms(terms, part.terms, coefficient)
        constant += coefficient * part.const
    return Linear(without_zeros(terms), constant)


def _constant(found: Interval, expr: PrimExpr) -> Ends:
    """Return an interval as bounds; the limits of an index dtype count as missing bounds."""
    least, most = integer_limits(expr.dtype)
    index = holds_indices(expr.dtype)
    low, high = found
    return (
        None if index and low == least else Linear({}, low),
        None if index and high == most else Linear({}, high),
    )
