"""Symbolic interval arithmetic: the span of linear combinations while some variables move.

Each piece is bounded on its own by the ends of what moves in it, so that the ends of a sum are sums
of the variables that hold still. Where a piece is monotonic its ends are those of its operands; a
remainder keeps the ends of its operand where those have one quotient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from tensorir.arith.const_interval import HALF_INFINITE, Interval, type_interval, value_interval
from tensorir.arith.context import Remainder, SymbolicRemainder, TruncatedRemainder
from tensorir.arith.linear import (
    ZERO,
    Extremum,
    Linear,
    Opaque,
    Product,
    Quotient,
    SymbolicQuotient,
    Term,
    Terms,
    TruncatedQuotient,
    Wrapped,
    add_terms,
    without_zeros,
)
from tensorir.arith.linearize import Linearizer
from tensorir.arith.pieces import Piece, Pieces, pieces
from tensorir.arith.terms import variables_of
from tensorir.nodes import expr as e
from tensorir.nodes.expr import PrimExpr, Var, integer_limits
from tensorir.nodes.index_arithmetic import holds_indices

Ends: TypeAlias = tuple[Linear | None, Linear | None]
"""The least and the largest value, both included; None is no limit."""

UNLIMITED: Final[Ends] = (None, None)


class Span:
    """Finds the ends of linear combinations.

    `moving` gives the ends of a variable, None for one that holds still; they may be about other
    variables that move. With `known`, what the reader's context says of variables that move holds
    of all their values, and is used where it limits a sum of them.
    """

    def __init__(
        self, reader: Linearizer, moving: Callable[[Var], Ends | None], *, known: bool = False
    ) -> None:
        self._reader = reader
        self._moving = moving
        self._known = known
        self._ends: dict[Var, Ends | None] = {}

    def __call__(self, value: Linear) -> Ends:
        """Return the ends of `value` as combinations of what holds still."""
        if self._holds_still(value):
            return value, value
        low = high = 0
        if self._known:
            value, (low, high) = self._without_known(value)
        lows: list[tuple[int, Linear | None]] = []
        highs: list[tuple[int, Linear | None]] = []
        for coefficient, piece in self._gathered(pieces(value)):
            first, last = self._piece(piece)
            if coefficient < 0:
                first, last = last, first
            lows.append((coefficient, first))
            highs.append((coefficient, last))
        return _total(low + value.rest, lows), _total(high + value.rest, highs)

    def _gathered(self, parts: Pieces) -> Pieces:
        """Put back into a quotient what was taken out of it, where a remainder had lost it.

        `(x % 32 // 8 + y) // 2` reads `(x // 8 + y) // 2 - x // 32 * 2`, where both move far.
        """
        moving = [(c, p) for c, p in parts if type(p) is Quotient and self._moves(p)]
        if len(moving) < 2:
            return parts
        gathered: dict[Piece, Quotient | None] = {}
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
        """Return the terms that are left, and the constant ends of the others."""
        loose = {t: c for t, c in value.terms.items() if self._moves_entirely(t)}
        low, high = self._reader.bound(Linear(loose, 0))
        if low <= -HALF_INFINITE or high >= HALF_INFINITE:
            return value, (0, 0)
        left = Linear({t: c for t, c in value.terms.items() if t not in loose}, value.const)
        return left, (low, high)

    # ----------------------------------------------------------------------------- what moves

    def _var(self, var: Var) -> Ends | None:
        """Return the ends of a variable by what holds still, None for one that does."""
        if var not in self._ends:
            found = self._moving(var)
            if found is None:
                self._ends[var] = None
            else:
                # Until they are found, the ends of a variable do not limit those of another one.
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
        for term in value.terms:  # noqa: SIM110 (a loop is faster, and this is asked of all)
            if self._moves(term):
                return False
        return True

    # ----------------------------------------------------------------------------------- pieces

    def _piece(self, piece: Piece) -> Ends:
        if isinstance(piece, Var):
            point = Linear({piece: 1}, 0)
            return self._var(piece) or (point, point)
        if isinstance(piece, Term) and not self._moves(piece):
            point = Linear({piece: 1}, 0)
            return point, point
        return _RULES[type(piece)](self, piece)

    def _quotient(self, piece: Quotient) -> Ends:
        return self._divided(self(piece.index), Linear({}, piece.divisor))

    def _symbolic_quotient(self, piece: SymbolicQuotient) -> Ends:
        if not self._is_still_and_positive(piece.divisor):
            return UNLIMITED
        return self._divided(self(piece.index), piece.divisor)

    def _remainder(self, piece: Remainder) -> Ends:
        return self._rest(piece.index, Linear({}, piece.modulus), Linear({}, piece.divisor))

    def _symbolic_remainder(self, piece: SymbolicRemainder) -> Ends:
        if not self._is_still_and_positive(piece.modulus, piece.divisor):
            return UNLIMITED
        return self._rest(piece.index, piece.modulus, piece.divisor)

    def _rest(self, index: Linear, modulus: Linear, divisor: Linear) -> Ends:
        """Return the ends of `index % modulus // divisor`."""
        reader = self._reader
        low, high = self(index)
        if low is not None and high is not None:
            below = reader.floor_divide(low, modulus)
            gap = reader.floor_divide(high, modulus).plus(below, -1)
            if reader.bound(gap) == (0, 0):
                passed = reader.product(below, modulus)
                return self._divided((low.plus(passed, -1), high.plus(passed, -1)), divisor)
        return self._divided((ZERO, modulus.plus_const(-1)), divisor)

    def _divided(self, ends: Ends, divisor: Linear) -> Ends:
        low, high = ends
        divide = self._reader.floor_divide
        return (
            None if low is None else divide(low, divisor),
            None if high is None else divide(high, divisor),
        )

    def _truncated_quotient(self, piece: TruncatedQuotient) -> Ends:
        if not self._is_still_and_positive(piece.divisor):
            return UNLIMITED
        low, high = self(piece.index)
        divide = self._reader.truncated
        return (
            None if low is None else divide(low, piece.divisor),
            None if high is None else divide(high, piece.divisor),
        )

    def _truncated_remainder(self, piece: TruncatedRemainder) -> Ends:
        reader, modulus = self._reader, Linear({}, piece.modulus)
        low, high = self(piece.index)
        if low is not None and high is not None:
            first = reader.truncated(low, modulus)
            if reader.bound(reader.truncated(high, modulus).plus(first, -1)) == (0, 0):
                passed = first.times(piece.modulus)
                return low.plus(passed, -1), high.plus(passed, -1)
        most = piece.modulus - 1
        from_zero = low is not None and reader.at_least_zero(low)
        up_to_zero = high is not None and reader.at_least_zero(high.times(-1))
        return Linear({}, 0 if from_zero else -most), Linear({}, 0 if up_to_zero else most)

    def _is_still_and_positive(self, *divisors: Linear) -> bool:
        return all(
            self._holds_still(d) and self._reader.at_least_zero(d.plus_const(-1)) for d in divisors
        )

    def _product(self, piece: Product) -> Ends:
        still = [f for f in piece.factors if not self._moves(f)]
        if len(still) != len(piece.factors) - 1:
            return UNLIMITED
        (mover,) = (f for f in piece.factors if f not in still)
        reader, factor = self._reader, Linear({}, 1)
        for other in still:
            factor = reader.product(factor, Linear({other: 1}, 0))
        low, high = self._piece(mover)
        if not reader.at_least_zero(factor):
            if not reader.at_least_zero(factor.times(-1)):
                return UNLIMITED
            low, high = high, low
        return (
            None if low is None else reader.product(low, factor),
            None if high is None else reader.product(high, factor),
        )

    def _extremum(self, piece: Extremum) -> Ends:
        return self._around([self(a) for a in piece.args], piece.largest, piece.largest)

    def _around(self, spans: list[Ends], low_is_largest: bool, high_is_largest: bool) -> Ends:
        """Return the least or the largest of the low ends, and of the high ends.

        A largest low end may leave out those without limit, as a smallest high end may.
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

    def _opaque(self, piece: Opaque) -> Ends:
        branches = _branches(piece.expr)
        if branches:
            spans = [self(self._reader(branch)) for branch in branches]
            return self._around(spans, False, True)
        found = value_interval(piece.expr, self._operand)
        return UNLIMITED if found is None else _constant(found, piece.expr)

    def _operand(self, expr: PrimExpr) -> Interval | None:
        limits = type_interval(expr)
        if limits is None or expr.dtype.is_bool or expr.dtype.lanes != 1:
            return limits
        low, high = self(self._reader(expr))
        least = limits[0] if low is None else max(limits[0], self._reader.bound(low)[0])
        most = limits[1] if high is None else min(limits[1], self._reader.bound(high)[1])
        return least, most

    def _wrapped(self, piece: Wrapped) -> Ends:
        if holds_indices(piece.dtype):
            return UNLIMITED
        least, most = integer_limits(piece.dtype)
        return Linear({}, least), Linear({}, most)


def _total(constant: int, parts: list[tuple[int, Linear | None]]) -> Linear | None:
    """Return a constant and multiples of combinations added up, None if one is missing."""
    terms: Terms = {}
    for coefficient, part in parts:
        if part is None:
            return None
        add_terms(terms, part.terms, coefficient)
        constant += coefficient * part.const
    return Linear(without_zeros(terms), constant)


def _branches(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    """Return the values one of which an expression has, none if it does not choose."""
    if isinstance(expr, e.Select):
        return expr.true_value, expr.false_value
    if isinstance(expr, e.Call) and getattr(expr.op, "short_name", "") == "if_then_else":
        return expr.args[1], expr.args[2]
    return ()


def _constant(found: Interval, expr: PrimExpr) -> Ends:
    """Return an interval as ends; what an index type holds is no limit."""
    least, most = integer_limits(expr.dtype)
    index = holds_indices(expr.dtype)
    low, high = found
    return (
        None if index and low == least else Linear({}, low),
        None if index and high == most else Linear({}, high),
    )


_RULES: Final[dict[type, Callable[[Span, Any], Ends]]] = {
    Extremum: Span._extremum,
    Opaque: Span._opaque,
    Product: Span._product,
    Quotient: Span._quotient,
    Remainder: Span._remainder,
    SymbolicQuotient: Span._symbolic_quotient,
    SymbolicRemainder: Span._symbolic_remainder,
    TruncatedQuotient: Span._truncated_quotient,
    TruncatedRemainder: Span._truncated_remainder,
    Wrapped: Span._wrapped,
}
