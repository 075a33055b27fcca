"""Extents, factors and scales of iterators: plain ints, or sizes known only at run time.

Nearly all sizes are constant, so a `Size` is an int if possible, and code that computes with sizes
is written as for ints. `SymbolicSize` supports the same arithmetic. It has no `<`: the order of two
symbolic sizes may be unknown, so comparisons are functions with a documented result for that case.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from tensorir.arith.const_interval import HALF_INFINITE
from tensorir.arith.linear import Linear, Quotient, Term
from tensorir.arith.linearize import Linearizer
from tensorir.arith.polynomial import Monomial, degree, factors, least_values
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import const


class SymbolicSize:
    """A size that is not constant; `==` means that it is provably equal."""

    __slots__ = ("linear", "sizes")

    def __init__(self, linear: Linear, sizes: Sizes) -> None:
        self.linear = linear
        self.sizes = sizes

    def __eq__(self, other: object) -> bool:
        return type(other) is SymbolicSize and other.linear.key == self.linear.key

    def __hash__(self) -> int:
        return hash(self.linear.key)

    def __add__(self, other: Size) -> Size:
        return self.sizes.of(self.linear.plus(linear_of(other)))

    def __sub__(self, other: Size) -> Size:
        return self.sizes.of(self.linear.plus(linear_of(other), -1))

    def __rsub__(self, other: int) -> Size:
        return self.sizes.of(self.linear.times(-1).plus_const(other))

    def __mul__(self, other: Size) -> Size:
        return self.sizes.of(self.sizes.reader.product(self.linear, linear_of(other)))

    def __floordiv__(self, other: Size) -> Size:
        return self.sizes.of(self.sizes.reader.floor_divide(self.linear, linear_of(other)))

    def __rfloordiv__(self, other: int) -> Size:
        return self.sizes.of(self.sizes.reader.floor_divide(linear_of(other), self.linear))

    def __mod__(self, other: Size) -> Size:
        return self - self // other * other

    def __rmod__(self, other: int) -> Size:
        return other - other // self * self

    __radd__ = __add__
    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"SymbolicSize({self.sizes.reader.write(self.linear, DataType('int64'))})"


Size: TypeAlias = int | SymbolicSize


class Sizes:
    """Creates sizes; the extents of the running loops are assumed to be positive.

    If an extent is a product, each of its factors is assumed to be positive.
    """

    def __init__(self, reader: Linearizer, extents: Iterable[PrimExpr] = ()) -> None:
        self.reader = reader
        self._extents = extents
        self._facts: list[Linear] = []
        """Sums that are at least 0 and contain more than one symbol."""
        self._least: dict[Term, int] | None = None
        """Lower bounds of symbols that follow from the extents; computed on first use."""

    def of(self, value: Linear) -> Size:
        """Return a linear combination as a size."""
        return SymbolicSize(value, self) if value.terms else value.const

    def at_least_zero(self, value: Linear) -> bool:
        """Return True if a linear combination is provably not negative."""
        if self.reader.at_least_zero(value) or self._least_value(value) >= 0:
            return True
        return any(self._least_value(value.plus(fact, -1)) >= 0 for fact in self._facts)

    def _least_value(self, value: Linear) -> int:
        """Return a lower bound; `-HALF_INFINITE` if none is known.

        Each symbol is written as its lower bound plus a nonnegative rest. If the expanded
        polynomial has no negative coefficients, its minimum is its value where all rests are 0.
        """
        expanded: dict[Monomial, int] = {}
        for term, coefficient in value.terms.items():
            parts: dict[Monomial, int] = {(): coefficient}
            for factor in factors(term):
                low = self._term_least_value(factor)
                if low <= -HALF_INFINITE:
                    return -HALF_INFINITE
                wider: dict[Monomial, int] = {}
                for monomial, c in parts.items():
                    more = tuple(sorted((*monomial, factor), key=id))
                    wider[more] = wider.get(more, 0) + c
                    wider[monomial] = wider.get(monomial, 0) + c * low
                parts = wider
            for monomial, c in parts.items():
                expanded[monomial] = expanded.get(monomial, 0) + c
        constant = expanded.pop((), 0) + value.const
        return constant if all(c >= 0 for c in expanded.values()) else -HALF_INFINITE

    def _term_least_value(self, term: Term) -> int:
        if self._least is None:
            self._least = {}
            for extent in self._extents:
                value = self.reader(extent)
                if len(value.terms) > 1:
                    self._facts.append(value.plus_const(-1))
                for symbol, least in least_values(value, self.reader.context.piece_bound):
                    self._least[symbol] = max(least, self._least.get(symbol, least))
        known = self.reader.bound(Linear({term: 1}, 0))[0]
        if type(term) is Quotient:
            inside = self._least_value(term.index)
            if inside > -HALF_INFINITE:
                known = max(known, inside // term.divisor)
        return max(known, self._least.get(term, known))


def linear_of(size: Size) -> Linear:
    """Return a size as a linear combination."""
    return size.linear if isinstance(size, SymbolicSize) else Linear({}, size)


def plus_size(value: Linear, size: Size) -> Linear:
    """Return `value + size`."""
    if type(size) is int:
        return value.plus_const(size)
    return value.plus(linear_of(size))


def times_size(value: Linear, size: Size) -> Linear:
    """Return `value * size`."""
    if type(size) is int:
        return value.times(size)
    return size.sizes.reader.product(value, size.linear)  # type: ignore[union-attr]


def size_expr(size: Size, dtype: DataType) -> PrimExpr:
    """Return a size as an expression."""
    if isinstance(size, SymbolicSize):
        return size.sizes.reader.write(size.linear, dtype)
    return const(size, dtype)


def at_most(a: Size, b: Size) -> bool:
    """Return True if `a <= b` provably holds."""
    if type(a) is int and type(b) is int:
        return a <= b
    gap = b - a
    if isinstance(gap, SymbolicSize):
        return gap.sizes.at_least_zero(gap.linear)
    return gap >= 0


def is_positive(size: Size) -> bool:
    """Return True if a size is provably at least 1."""
    return size > 0 if type(size) is int else at_most(1, size)


def smaller(a: Size, b: Size) -> Size:
    """Return the minimum of two sizes."""
    return _extremum(a, b, largest=False)


def larger(a: Size, b: Size) -> Size:
    """Return the maximum of two sizes."""
    return _extremum(a, b, largest=True)


def _extremum(a: Size, b: Size, *, largest: bool) -> Size:
    if at_most(a, b):
        return b if largest else a
    if at_most(b, a):
        return a if largest else b
    sizes = a.sizes if isinstance(a, SymbolicSize) else b.sizes  # type: ignore[union-attr]
    return sizes.of(sizes.reader.extremum([linear_of(a), linear_of(b)], largest))


def ceil_div(a: Size, b: Size) -> Size:
    """Return `a / b` rounded up, for a positive b."""
    if type(a) is int and type(b) is int:
        return -(-a // b)
    return (a + (b - 1)) // b


def size_rank(size: Size) -> tuple[int, int]:
    """Return a sort key by which a divisor of a size comes before that size.

    Constants come first, by their magnitude; then sizes with fewer symbolic factors.
    """
    if type(size) is int:
        return 0, abs(size)
    assert isinstance(size, SymbolicSize)
    return degree(size.linear), max(abs(c) for c in size.linear.terms.values())
