"""Comparisons of integers: `sum >= 0` or `sum == 0`, reduced and written in their shortest form.

Dividing the sum of an inequality by a positive number and rounding down keeps it equivalent. So a
factor can be removed if the terms that it does not divide sum to less than it: `x * 8 + y < 16` is
`x < 2` for y in 0..7. A single quotient is replaced by its dividend, `x // 2 < 3` by `x < 6`, and a
minimum or maximum by the only alternative that decides the comparison: `min(x, 11) < 10` is `x <
10`.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from tensorir.arith.const_interval import Interval
from tensorir.arith.linear import Extremum, Linear, Product, Quotient, TruncatedQuotient
from tensorir.arith.linearize import Linearizer
from tensorir.arith.pieces import pieces
from tensorir.arith.wrapping import agrees, sum_fits
from tensorir.arith.writing import NotRepresentableError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, Var, integer_limits
from tensorir.nodes.index_arithmetic import holds_indices, is_scalar_integer
from tensorir.nodes.ops import FALSE, TRUE, logical_and, logical_or

NEGATION: Final[dict[type[e.CmpOp], type[e.CmpOp]]] = {
    e.LT: e.GE,
    e.LE: e.GT,
    e.GT: e.LE,
    e.GE: e.LT,
    e.EQ: e.NE,
    e.NE: e.EQ,
}
_SWAPPED: Final[dict[type[e.CmpOp], type[e.CmpOp]]] = {e.GT: e.LT, e.GE: e.LE}


def gap_of(expr: PrimExpr, reader: Linearizer) -> Linear | None:
    """Return a sum that is at least 0 exactly if the inequality holds.

    Return None for other expressions.
    """
    if not isinstance(expr, e.CmpOp) or not is_scalar_integer(expr.a.dtype):
        return None
    kind = type(expr)
    if kind is e.EQ or kind is e.NE:
        return None
    a, b = reader(expr.a), reader(expr.b)
    more, less = (b, a) if kind is e.LT or kind is e.LE else (a, b)
    gap = more.plus(less, -1)
    return gap.plus_const(-1) if kind is e.LT or kind is e.GT else gap


def negative(gap: Linear) -> Linear:
    """Return a sum that is at least 0 exactly if `gap` is not."""
    return gap.times(-1).plus_const(-1)


class Comparisons:
    """Decides, reduces and writes comparisons, using the facts of a `Reader`."""

    def __init__(self, reader: Linearizer) -> None:
        self._reader: Final = reader

    def simplify(self, expr: e.CmpOp) -> PrimExpr | None:
        """Return a comparison as a constant or in its shortest form.

        Return None if its sides must not change.
        """
        gap = gap_of(expr, self._reader)
        if gap is not None:
            return self.at_least_zero(gap, expr.a.dtype)
        difference = self._reader(expr.a).plus(self._reader(expr.b), -1)
        return self.zero(difference, expr.a.dtype, type(expr) is e.EQ)

    def at_least_zero(self, gap: Linear, dtype: DataType) -> PrimExpr | None:
        """Return `gap >= 0` as a condition on numbers of a dtype."""
        reduced = self._reduce(gap)
        if isinstance(reduced, bool):
            return TRUE if reduced else FALSE
        gap, const = reduced, reduced.const
        if all(c > 0 for c in gap.terms.values()):
            strict = False
        elif all(c < 0 for c in gap.terms.values()):
            strict = const != 0
        else:
            strict = const > 0 or const == -1
        sides = self._split_sides(gap.plus_const(1) if strict else gap, dtype)
        return None if sides is None else (e.LT if strict else e.LE)(sides[1], sides[0])

    def zero(self, difference: Linear, dtype: DataType, equal: bool) -> PrimExpr | None:
        """Return `difference == 0`, or `!= 0`, as a condition on numbers of a dtype."""
        low, high = self._bound(difference)
        divisor = difference.content()
        if low > 0 or high < 0 or difference.const % (divisor or 1):
            return FALSE if equal else TRUE
        if low == high:
            return TRUE if equal else FALSE
        if any(type(t) is Extremum for t in difference.terms):
            # For a sum that is never negative, `sum == 0` is `not sum > 0`; a sum that is never
            # positive likewise.
            opposite = difference.times(-1)
            for gap, other in ((difference, opposite), (opposite, difference)):
                if self._reader.at_least_zero(other):
                    gap = gap if equal else negative(gap)
                    if self._reduce(gap) is not gap:
                        return self.at_least_zero(gap, dtype)
        if divisor > 1:
            difference = difference.over(divisor)
        if all(c < 0 for c in difference.terms.values()):
            difference = difference.times(-1)
        decided = self._without_extremum(difference, 1)
        if decided is not None:
            return self.zero(decided, dtype, equal)
        factored = self._split_product(difference, dtype, equal)
        if factored is not None:
            return factored
        sides = self._split_sides(difference, dtype)
        return None if sides is None else (e.EQ if equal else e.NE)(*sides)

    def variable_facts(self, gap: Linear) -> list[Linear]:
        """Return sums over single variables that are at least 0 whenever `gap` is."""
        found: list[Linear] = []
        pending = [gap]
        while pending:
            known = pending.pop()
            for part in self._consequences(known):
                single = len(part.terms) == 1 and isinstance(next(iter(part.terms)), Var)
                (found if single else pending).append(part)
        return found

    def _consequences(self, gap: Linear) -> list[Linear]:
        for term, c in gap.terms.items():
            if type(term) is Extremum and term.largest != (c > 0):
                rest = gap.plus(Linear({term: 1}, 0), -c)
                return [rest.plus(arg, c) for arg in term.args]
        if (
            len(gap.terms) == 1
            and gap.content() == 1
            and (inside := _without_quotient(gap)) is not None
        ):
            return [inside]
        shorter = self._without_fraction(gap)
        return [] if shorter is None else [shorter]

    def _split_product(self, difference: Linear, dtype: DataType, equal: bool) -> PrimExpr | None:
        """Return the condition that one factor of a product of indices is 0, or that none is."""
        if difference.const or len(difference.terms) != 1 or self._reader.may_wrap(difference):
            return None
        (term,) = difference.terms
        if type(term) is not Product or not holds_indices(dtype):
            return None
        sides = [self.zero(Linear({f: 1}, 0), dtype, equal) for f in dict.fromkeys(term.factors)]
        known = [side for side in sides if side is not None]
        if len(known) < len(sides):
            return None
        return reduce(logical_or if equal else logical_and, known)

    # ----------------------------------------------------------------------------------- reducing

    def _reduce(self, gap: Linear) -> Linear | bool:
        """Return a shorter sum that is at least 0 exactly if `gap` is, or a bool if that is
        decided.
        """
        while True:
            if self._reader.at_least_zero(gap):
                return True
            if self._reader.at_least_zero(negative(gap)):
                return False
            divisor = gap.content()
            if divisor > 1:
                gap = gap.over(divisor)
            low, high = self._bound(gap)
            if low >= 0 or high < 0:
                return low >= 0
            shorter = (
                self._without_fraction(gap) or self._without_extremum(gap) or _without_quotient(gap)
            )
            if shorter is None:
                return gap
            gap = shorter

    def _bound(self, total: Linear) -> Interval:
        """Return the bounds of a sum.

        A single variable is also limited to the range of its type.
        """
        low, high = self._reader.bound(total)
        if len(total.terms) == 1:
            ((term, c),) = total.terms.items()
            if type(term) is Var:
                ends = [c * end + total.const for end in integer_limits(term.dtype)]
                low, high = max(low, min(ends)), min(high, max(ends))
        return low, high

    def _without_fraction(self, gap: Linear) -> Linear | None:
        """Divide by a coefficient if the terms that it does not divide cannot change the result."""
        if len(gap.terms) < 2:
            return None
        for factor in sorted({abs(c) for c in gap.terms.values()} - {1}, reverse=True):
            head = self._reader.without_fraction(gap, factor)
            if head is not None:
                return head
        return None

    def _without_extremum(self, total: Linear, margin: int = 0) -> Linear | None:
        """Return a shorter sum that is equivalent to a sum with an extremum; None if there is none.

        The shorter sum exists if a single alternative decides: the others never make the sum
        negative, or never keep it from being negative. With `margin` 1, one sum is 0 exactly if the
        other is.
        """
        for term, c in total.terms.items():
            if type(term) is not Extremum:
                continue
            rest = Linear({t: d for t, d in total.terms.items() if t is not term}, total.const)
            any_will_do = term.largest == (c > 0)
            open_cases: list[Linear] = []
            for arg in term.args:
                case = rest.plus(arg, c)
                without_effect = negative(case) if any_will_do else case.plus_const(-margin)
                if not self._reader.at_least_zero(without_effect):
                    open_cases.append(case)
            if len(open_cases) == 1:
                return open_cases[0]
        return None

    # ------------------------------------------------------------------------------------ writing

    def _split_sides(self, difference: Linear, dtype: DataType) -> tuple[PrimExpr, PrimExpr] | None:
        """Return the added and the subtracted terms of `difference`, as two expressions.

        Return None if moving terms to the other side may wrap around, or if the resulting constant
        is beyond the type.
        """
        reader = self._reader
        if not holds_indices(dtype) or reader.may_wrap(difference):
            parts = pieces(difference)
            added = [(c, piece) for c, piece in parts if c > 0]
            taken = [(-c, piece) for c, piece in parts if c < 0]
            const = difference.rest if added and taken else 0
            bound = reader.context.piece_bound
            if not (
                agrees(difference, dtype, reader.bound)
                and sum_fits(added, max(const, 0), dtype, bound)
                and sum_fits(taken, max(-const, 0), dtype, bound)
            ):
                return None
        try:
            return reader.write_sides(difference, dtype)
        except NotRepresentableError:
            return None


def flip_comparison(expr: e.CmpOp, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """Return the comparison of `a` and `b` of the kind of `expr`, as `<`, `<=`, `==` or `!=`."""
    kind = _SWAPPED.get(type(expr))
    if kind is not None:
        return kind(b, a)
    return expr if a is expr.a and b is expr.b else type(expr)(a, b)


def _without_quotient(gap: Linear) -> Linear | None:
    """Replace a quotient that is compared with a constant by its dividend."""
    if len(gap.terms) != 1:
        return None
    ((term, c),) = gap.terms.items()
    if type(term) is TruncatedQuotient and not term.divisor.terms:
        # For c = 1 the quotient is at least `least`; for c = -1 its opposite is.
        least, times = -gap.const, term.divisor.const
        bound = least * times if least > 0 else (least - 1) * times + 1
        return term.index.times(c).plus_const(-bound)
    if type(term) is not Quotient:
        return None
    # As c is 1 or -1 here, this is `quotient >= -const` or `quotient <= const`.
    times = term.divisor
    if c > 0:
        return term.index.plus_const(times * gap.const)
    return term.index.times(-1).plus_const(times * gap.const + times - 1)
