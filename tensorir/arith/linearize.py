"""Reading expressions as linear combinations, and writing them back.

For example, `8 * i + j` is a sum of two terms. A division divides the terms whose coefficients are
multiples of the divisor; the rest stays a quotient, unless its range shows that it is constant.

>>> i, j = Var("i", "int32"), Var("j", "int32")
>>> read = Linearizer(simplify_part=lambda part: part)
>>> index = read(i * 8 + j)
>>> index.terms, index.const
({i: 8, j: 1}, 0)
>>> print(read.write(read.quotient(index, 8), i.dtype))
i + j // 8

If `j` is in 0 .. 7, then `j // 8` is 0. A remainder is the index minus the multiple of the
quotient.

>>> read.context = Context(ranges={j: (0, 7)})
>>> whole = read.quotient(index, 8)
>>> whole.terms, index.plus(whole, -8).terms
({i: 1}, {j: 1})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd
from typing import Final

from tensorir.arith.const_interval import HALF_INFINITE, Interval
from tensorir.arith.context import Context
from tensorir.arith.extrema import alternatives, common_part, extremum_key
from tensorir.arith.linear import (
    ZERO,
    Atom,
    Extremum,
    Key,
    Linear,
    Opaque,
    Product,
    Quotient,
    Remainder,
    SymbolicQuotient,
    Term,
    Terms,
    TruncatedQuotient,
    TruncatedRemainder,
    Wrapped,
    without_zeros,
)
from tensorir.arith.linear_readers import READERS
from tensorir.arith.pieces import pieces
from tensorir.arith.polynomial import at_corners, common_factors, exact_quotient, factors
from tensorir.arith.proof import Proof
from tensorir.arith.terms import expr_key, interval_of, parts_of
from tensorir.arith.wrapping import agrees, fits, reduce_to_width
from tensorir.arith.writing import Writer
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import IntImm, PrimExpr, Var, integer_limits
from tensorir.nodes.index_arithmetic import holds_indices, is_index_arithmetic
from tensorir.semantics.integers import truncdiv

_UNITS: Final = [Linear({}, k) for k in range(65)]


class Linearizer:
    """Reads scalar integer expressions as `Linear`, using the facts of a context.

    `simplify_part` simplifies the operands of nonlinear expressions. Arithmetic on the variables in
    `values`, on loads and on calls may wrap around; other arithmetic does not.
    """

    def __init__(
        self, simplify_part: Callable[[PrimExpr], PrimExpr], values: Iterable[Var] = ()
    ) -> None:
        self._values: Final = set(values)
        self._value_terms: set[Term] = set(self._values)
        """Terms with values that are known only at run time; arithmetic on them may wrap around."""
        self.context = Context(
            ranges={v: integer_limits(v.dtype) for v in self._values if v.dtype.is_integral}
        )
        """The current facts; entering and leaving a scope replaces them."""
        self._simplify = simplify_part
        self._atoms: dict[Key, Atom] = {}
        self._extrema: dict[Key, tuple[Extremum, Linear]] = {}
        """The first extremum of each class of extrema that differ by a sum, by the key of the
        class.
        """
        self.sort_terms = False
        """True if sums are written in the order in which their variables were bound."""

    def __call__(self, expr: PrimExpr) -> Linear:
        """Return `expr` as a linear combination."""
        kind = type(expr)
        if kind is IntImm:
            value = expr.value  # type: ignore[attr-defined]
            return _UNITS[value] if 0 <= value <= 64 else Linear({}, value)
        forms = self.context.forms
        known = forms.get(expr)
        if known is None:
            read = READERS.get(kind)
            known = read(self, expr) if read is not None else self.opaque(expr)
            forms[expr] = known
        return known

    def treat_like(self, var: Var, whole: PrimExpr) -> None:
        """Let arithmetic on a variable wrap around if arithmetic on `whole` does."""
        if not is_index_arithmetic(whole, self._values):
            self._values.add(var)
            self._value_terms.add(var)

    # ------------------------------------------------------------------------------------ reading

    def var(self, expr: Var) -> Linear:
        """Read a variable; a variable with a single possible value is read as that constant."""
        value = self.context.values.get(expr)
        if value is not None:
            return value
        if not holds_indices(expr.dtype):
            self._value_terms.add(expr)
        known = self.context.ranges.get(expr)
        if known is not None and known[0] == known[1]:
            return Linear({}, known[0])
        return Linear({expr: 1}, 0)

    def product(self, a: Linear, b: Linear) -> Linear:
        """Multiply."""
        if not b.terms:
            return a.times(b.const)
        if not a.terms:
            return b.times(a.const)
        for extremum in a.terms:
            if type(extremum) is Extremum and len(extremum.args) == 2:
                # `min(x, y) * max(x, y)` is `x * y`.
                one, other = extremum.args
                if a.plus(b).plus(one, -1).plus(other, -1).key == ZERO.key:
                    return self.product(one, other)
        result = ZERO
        for s, c in [*a.terms.items(), (None, a.const)]:
            for t, d in [*b.terms.items(), (None, b.const)]:
                if c == 0 or d == 0:
                    continue
                if s is None or t is None:
                    term = t if s is None else s
                    result = result.plus(
                        Linear({}, c * d) if term is None else Linear({term: 1}, 0).times(c * d)
                    )
                else:
                    product = Product((*factors(s), *factors(t)))
                    result = result.plus(Linear({self.intern(product): c * d}, 0))
        return result

    def quotient(self, index: Linear, divisor: int) -> Linear:
        """Divide by a positive constant, rounding down."""
        if divisor == 1:
            return index
        base, remaining = _divided_terms(index, divisor)
        whole = self._without_carry(index, divisor, base, remaining)
        if whole is not None:
            return whole
        reduced = self._reduce(remaining, divisor)
        if reduced is not None:
            return base.plus(self.quotient(*reduced))
        if any(abs(c) > divisor for c in remaining.terms.values()):
            # The multiple of the divisor in each coefficient is moved out of the quotient.
            steps = Linear(
                without_zeros(
                    {t: _small_rest_quotient(c, divisor) for t, c in remaining.terms.items()}
                ),
                0,
            )
            small = remaining.plus(steps, -divisor)
            return base.plus(steps).plus(self.quotient(small, divisor))
        return base.plus(self._create_quotient(remaining, divisor))

    def _reduce(self, index: Linear, divisor: int) -> tuple[Linear, int] | None:
        """Divide numerator and divisor by a common factor, if the remaining terms cannot change the
        quotient.
        """
        candidates = {gcd(c, divisor) for c in index.terms.values()} - {1}
        for factor in sorted(candidates, reverse=True):
            head = self.without_fraction(index, factor)
            if head is not None:
                return head, divisor // factor
        return None

    def without_fraction(self, index: Linear, factor: int) -> Linear | None:
        """Divide, rounding down, if the terms that `factor` does not divide cannot change the
        quotient.
        """
        return self._without_carry(index, factor, *_divided_terms(index, factor))

    def _without_carry(
        self, index: Linear, factor: int, whole: Linear, rest: Linear
    ) -> Linear | None:
        """Return `index // factor`, as `whole` plus `rest // factor`, if the latter has only one
        value.
        """
        carry = self._carry(rest, factor)
        if carry is None and any(type(t) is Quotient for t in whole.terms):
            # Some of the divided terms may belong to a remainder whose range is small.
            small = self._undivided_pieces(index, factor)
            if small is not None:
                carry, whole = self._carry(small, factor), index.plus(small, -1).over(factor)
        return None if carry is None else whole.plus_const(carry)

    def _carry(self, rest: Linear, factor: int) -> int | None:
        """Return the only value of `rest // factor`; None if there may be several."""
        if not rest.terms:
            return rest.const // factor
        low, high = self.bound(rest)
        if abs(low) >= HALF_INFINITE or low // factor != high // factor:
            return None
        return low // factor

    def _undivided_pieces(self, index: Linear, factor: int) -> Linear | None:
        """Return the pieces that `factor` does not divide.

        Return None if each of them is a single term.
        """
        self.bound(index)
        parts = [(c, piece) for c, piece in pieces(index) if c % factor]
        if not any(type(piece) is Remainder for _, piece in parts):
            return None
        rest = Linear({}, index.rest % factor)
        for c, piece in parts:
            if type(piece) is Remainder and piece.numbers:
                part, upper = (
                    self.quotient(piece.index, d) for d in (piece.divisor, piece.modulus)
                )
                rest = rest.plus(part, c).plus(upper, -c * (piece.modulus // piece.divisor))
            elif isinstance(piece, (Var, Atom)) and piece in index.terms:
                rest = rest.plus(Linear({piece: 1}, 0), c)
            else:
                return None
        return rest

    def _create_quotient(self, index: Linear, divisor: int) -> Linear:
        """Create the quotient; nested quotients are merged by multiplying their divisors."""
        if len(index.terms) == 1:
            term, c = next(iter(index.terms.items()))
            if c == 1 and type(term) is Quotient:
                inner = term.index.plus_const(index.const * term.divisor)
                return self.quotient(inner, term.divisor * divisor)
            if c == 1 and type(term) is Extremum:
                args = [arg.plus_const(index.const) for arg in term.args]
                if any(all(d % divisor == 0 for d in arg.terms.values()) for arg in args):
                    return self.extremum([self.quotient(a, divisor) for a in args], term.largest)
        return Linear({self.intern(Quotient(index, divisor)): 1}, 0)

    def floor_divide(self, a: Linear, b: Linear) -> Linear:
        """Divide, rounding down."""
        if not b.terms and b.const:
            if b.const > 0:
                return self.quotient(a, b.const)
            return self.quotient(a.times(-1), -b.const)
        exact = exact_quotient(a, b, self.product) if b.terms else None
        if exact is not None:
            return exact
        a, b = _without_factor(a, b, self.product)
        if not b.terms and b.const:
            return self.floor_divide(a, b)
        if len(b.terms) == 1 and not b.const and len(a.terms) > 1:
            parts = {
                t: exact_quotient(Linear({t: c}, 0), b, self.product) for t, c in a.terms.items()
            }
            rest = {t: c for t, c in a.terms.items() if parts[t] is None}
            if rest and len(rest) < len(a.terms):
                result = self.floor_divide(Linear(rest, a.const), b)
                for part in parts.values():
                    result = result if part is None else result.plus(part)
                return result
        low = self.bound(a)[0]
        if self.bound(b)[0] > 0 and low >= 0 and self.at_least_zero(b.plus(a, -1).plus_const(-1)):
            return ZERO
        return Linear({self.intern(SymbolicQuotient(a, b)): 1}, 0)

    def truncated(self, a: Linear, b: Linear) -> Linear:
        """Divide, rounding toward zero."""
        exact = exact_quotient(a, b, self.product) if b.terms or b.const else None
        if exact is not None:
            return exact
        a, b = _without_factor(a, b, self.product)
        if not b.terms and b.const < 0:
            return self.truncated(a, b.times(-1)).times(-1)
        if self.bound(b)[0] >= 0 and self.at_least_zero(a):
            return self.floor_divide(a, b)
        if b.terms or b.const == 0:
            return Linear({self.intern(TruncatedQuotient(a, b)): 1}, 0)
        low, high = self.bound(a)
        least, most = truncdiv(low, b.const), truncdiv(high, b.const)
        if least == most:
            return Linear({}, least)
        return self._truncated_by(a, b)

    def _truncated_by(self, index: Linear, divisor: Linear) -> Linear:
        """Create the quotient by a positive constant."""
        size = divisor.const
        parts = pieces(index)
        if len(parts) == 1 and not index.rest:
            c, part = parts[0]
            if type(part) is TruncatedRemainder and part.numbers and abs(c) == 1:
                step = part.divisor * size
                outer = self.truncated(part.index, Linear({}, part.modulus))
                if part.modulus % step == 0:
                    # Both parts have the sign of the remainder, so rounding toward zero goes in the
                    # same direction for each.
                    inner = self.truncated(part.index, Linear({}, step))
                    return inner.plus(outer, -(part.modulus // step)).times(c)
                if part.divisor > 1:
                    whole = part.index.plus(outer, -part.modulus)
                    return self.truncated(whole, Linear({}, step)).times(c)
            if type(part) is TruncatedQuotient and not part.divisor.terms and abs(c) == 1:
                return self.truncated(part.index, part.divisor.times(size)).times(c)
        if TruncatedQuotient(index.times(-1), divisor).key in self._atoms or all(
            c < 0 for c in index.terms.values()
        ):
            return self.truncated(index.times(-1), divisor).times(-1)
        return Linear({self.intern(TruncatedQuotient(index, divisor)): 1}, 0)

    def extremum(self, args: list[Linear], largest: bool) -> Linear:
        """Return the maximum or minimum, without the alternatives that are never the result."""
        kept: list[Linear] = []
        for arg in [part for given in args for part in alternatives(given, largest)]:
            if any(self._dominates(other, arg, largest) for other in kept):
                continue
            kept = [other for other in kept if not self._dominates(arg, other, largest)]
            kept.append(arg)
        if len(kept) == 1:
            return kept[0]
        inner = [alternatives(arg, not largest) for arg in kept]
        shared = set.intersection(*[{a.key for a in args} for args in inner])
        if shared:
            rests = [[a for a in args if a.key not in shared] for args in inner]
            common = [a for a in inner[0] if a.key in shared]
            # Every alternative has terms that the others lack: one without such terms would
            # dominate the others.
            others = [self.extremum(rest, not largest) for rest in rests]
            return self.extremum([self.extremum(others, largest), *common], not largest)
        return self._extremum(kept, largest)

    def _extremum(self, args: list[Linear], largest: bool) -> Linear:
        """Create the extremum of alternatives, unless one of them is always the result."""
        quotients = [next(iter(arg.terms)) for arg in args if arg.terms]
        if len(quotients) == len(args) and all(
            type(q) is Quotient and arg.key == Linear({q: 1}, 0).key
            for q, arg in zip(quotients, args, strict=True)
        ):
            divisors = {q.divisor for q in quotients if type(q) is Quotient}
            if len(divisors) == 1:
                indices = [q.index for q in quotients if type(q) is Quotient]
                return self.quotient(self.extremum(indices, largest), divisors.pop())
        shared, factor = common_part(args)
        args = [arg.plus(shared, -1).over(factor) for arg in args]
        known = self._extrema.get(extremum_key(args, args[0], largest))
        if known is None:
            atom = self.intern(Extremum(tuple(args), largest))
            assert isinstance(atom, Extremum)
            for arg in args:
                self._extrema[extremum_key(args, arg, largest)] = atom, arg
            return shared.plus(Linear({atom: 1}, 0), factor)
        atom, base = known
        sign = 1 if atom.largest is largest else -1
        same = args[0].plus(Linear({atom: 1}, 0).plus(base, -1), sign)
        return shared.plus(same, factor)

    def _dominates(self, winner: Linear, loser: Linear, largest: bool) -> bool:
        gap = winner.plus(loser, -1) if largest else loser.plus(winner, -1)
        return self.at_least_zero(gap)

    def opaque(self, expr: PrimExpr) -> Linear:
        """Read a nonlinear expression; its operands are simplified."""
        simple = self._simplify(expr)
        if type(simple) is IntImm:
            return Linear({}, simple.value)
        other = type(simple) is not type(expr) or getattr(simple, "op", 0) is not getattr(
            expr, "op", 0
        )
        if other and type(simple) in READERS:
            return self(simple)
        return Linear({self._opaque(simple): 1}, 0)

    def truth(self, condition: PrimExpr) -> Linear:
        """Read a simplified condition as 1 if it holds and 0 otherwise."""
        kind = type(condition)
        if kind is IntImm:
            return _UNITS[condition.value]  # type: ignore[attr-defined]
        if kind is e.Not:
            return _UNITS[1].plus(self.truth(condition.a), -1)  # type: ignore[attr-defined]
        if kind is e.NE:
            return _UNITS[1].plus(self.truth(e.EQ(condition.a, condition.b)), -1)  # type: ignore[attr-defined]
        return Linear({self._opaque(condition): 1}, 0)

    def as_written(self, expr: PrimExpr) -> Linear:
        """Read an expression as one term, without simplifying its parts."""
        return Linear({self._opaque(expr): 1}, 0)

    def _opaque(self, expr: PrimExpr) -> Atom:
        key = expr_key(expr)
        atom = self._atoms.get(key)
        if atom is None:
            wraps = not is_index_arithmetic(expr, self._values)
            atom = self._atoms[key] = Opaque(expr, key, interval_of(expr, wraps))
            if wraps:
                self._value_terms.add(atom)
        return atom

    def intern(self, atom: Atom) -> Atom:
        """Return the unique atom with this structure."""
        known = self._atoms.get(atom.key)
        if known is None:
            known = self._atoms[atom.key] = atom
            if type(atom) is Wrapped or not self._value_terms.isdisjoint(parts_of(atom)):
                self._value_terms.add(atom)
        return known

    # ----------------------------------------------------------------------------------- wrapping

    @property
    def has_values(self) -> bool:
        """True if some terms have values that are known only at run time."""
        return bool(self._value_terms)

    def may_wrap(self, linear: Linear) -> bool:
        """Return True if `linear` contains run-time values; arithmetic on them may wrap around."""
        return bool(self._value_terms) and not self._value_terms.isdisjoint(linear.terms)

    def may_be_read(self, exact: Linear, expr: PrimExpr) -> bool:
        """Return True if `expr` may be read as `exact`, which has no wrapping values in its terms.

        Wrapping arithmetic stays wrapping even if its values turn out to be constants.
        """
        return (
            _is_variable(exact, expr.dtype)
            or self.fits(exact, expr.dtype)
            or is_index_arithmetic(expr, self._values)
        )

    def fits(self, linear: Linear, dtype: DataType) -> bool:
        """Return True if arithmetic of `dtype` provably computes `linear` without wrapping."""
        return fits(linear, dtype, self.bound)

    def wrapped(self, exact: Linear, expr: PrimExpr) -> Linear:
        """Return the linear form of `expr`: `exact`, wrapped unless the dtype holds it."""
        dtype = expr.dtype
        if not exact.terms:
            least, most = integer_limits(dtype)
            value = exact.const
            if least <= value <= most:
                return exact
            return Linear({}, (value - least) % (most - least + 1) + least)
        if self.fits(exact, dtype):
            return exact
        modular = reduce_to_width(exact, dtype)
        if not agrees(modular, dtype, self.bound):
            return self.opaque(expr)
        if self.fits(modular, dtype):
            return modular
        return Linear({self.intern(Wrapped(modular, dtype)): 1}, 0)

    # ----------------------------------------------------------------------------------- deciding

    def bound(self, linear: Linear) -> Interval:
        """Return an interval that holds every value."""
        if linear.parts is None:
            pieces(linear, not self.may_wrap(linear))
        return self.context.bound(linear)

    def at_least_zero(self, linear: Linear) -> bool:
        """Return True if `linear >= 0` provably holds."""
        if not linear.terms:
            return linear.const >= 0
        low, high = self.bound(linear)
        if low < 0 <= high:
            low, high = at_corners(linear, self.context.piece_bound) or (low, high)
        if low >= 0 or high < 0:
            return low >= 0
        return Proof(self.context, self.bound, self.product).at_least_zero(linear)

    # ------------------------------------------------------------------------------------ writing

    def write(self, linear: Linear, dtype: DataType) -> PrimExpr:
        """Return `linear` as an expression of `dtype`."""
        return self._writer(linear, dtype).write(linear)

    def write_sides(self, linear: Linear, dtype: DataType) -> tuple[PrimExpr, PrimExpr]:
        """Return the added and the subtracted terms of `linear`, as two expressions.

        A remainder is not split.
        """
        return self._writer(linear, dtype).write_sides(linear)

    def _writer(self, linear: Linear, dtype: DataType) -> Writer:
        order = self.context.order if self.sort_terms else None
        return Writer(dtype, order, self.may_wrap(linear), self.bound)


def _divided_terms(index: Linear, factor: int) -> tuple[Linear, Linear]:
    """Return the terms that `factor` divides, divided by it, and the other terms."""
    whole: Terms = {}
    rest: Terms = {}
    for term, c in index.terms.items():
        if c % factor:
            rest[term] = c
        else:
            whole[term] = c // factor
    carry, const_rest = divmod(index.const, factor)
    return Linear(whole, carry), Linear(rest, const_rest)


def _without_factor(
    a: Linear, b: Linear, product: Callable[[Linear, Linear], Linear]
) -> tuple[Linear, Linear]:
    """Return dividend and divisor without the factor that all their terms have in common."""
    shared = gcd(a.content(), a.const, b.content(), b.const)
    if shared > 1:
        a, b = a.over(shared), b.over(shared)
    if a.const or b.const or not a.terms or not b.terms:
        return a, b
    # A symbol is not 0, since the divisor that contains it as a factor is not 0.
    for symbol in common_factors((*a.terms, *b.terms)):
        unit = Linear({symbol: 1}, 0)
        over = exact_quotient(a, unit, product), exact_quotient(b, unit, product)
        if over[0] is not None and over[1] is not None:
            a, b = over[0], over[1]
    return a, b


def _small_rest_quotient(coefficient: int, divisor: int) -> int:
    """Return the quotient of a coefficient such that the rest is small, and has its sign if
    possible.
    """
    if abs(coefficient) < divisor:
        return 0
    down, rest = divmod(coefficient, divisor)
    return down if coefficient > 0 or 2 * rest <= divisor else down + 1


def _is_variable(linear: Linear, dtype: DataType) -> bool:
    """Return True if `linear` is a variable whose own dtype fits in `dtype`."""
    if linear.const or len(linear.terms) != 1:
        return False
    ((term, c),) = linear.terms.items()
    return c == 1 and isinstance(term, Var) and term.dtype.bits <= dtype.bits
