"""Integer expressions as linear combinations: the normal form the analyzer computes with.

A `Linear` is `sum(coefficient * term) + const`. A term is a variable or an `Atom`: something that
is not linear, such as a quotient, an extremum or a load, identified by its structure. Remainders
do not occur: `x % c` is written `x - c * (x // c)`. Variables and quotients by constants are then
linearly independent, so `x // c * c + x % c` and all its relatives cancel by themselves and two
sums are equal if their difference has no terms. `pieces` finds the remainders again for printing
and for bounds.

An analyzer interns its atoms, so terms are compared by identity. A `Linear` and an `Atom` carry
their interval of values and the stamp of the context that it was computed in.
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final, TypeAlias

from tensorir.arith.const_interval import Interval
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, Var

Terms: TypeAlias = "dict[Term, int]"
Key: TypeAlias = Any
"""A hashable value that is equal for equal structure."""


class Atom:
    """A non-linear term. `key` is its structure, `depth` how many atoms are nested in it."""

    __slots__ = ("bound", "depth", "key", "stamp")
    key: Key
    depth: int
    bound: Interval
    stamp: int


Term: TypeAlias = Var | Atom


class Linear:
    """An integer expression `sum(terms[t] * t) + const`; no coefficient is 0. Immutable."""

    __slots__ = ("_key", "bound", "const", "parts", "rest", "stamp", "terms")

    def __init__(self, terms: Terms, const: int) -> None:
        self.terms: Final = terms
        self.const: Final = const
        self._key: Key = None
        self.parts: Any = None
        """The pieces it is printed as, once `pieces` has computed them."""
        self.rest = const
        """The constant that is printed beside the pieces."""
        self.bound: Interval = (0, 0)
        self.stamp = -1

    @property
    def key(self) -> Key:
        """The structure, whatever the order of the terms."""
        if self._key is None:
            self._key = (frozenset(self.terms.items()), self.const)
        return self._key

    def plus(self, other: Linear, scale: int = 1) -> Linear:
        """Return `self + scale * other`."""
        const = self.const + scale * other.const
        if not other.terms:
            return Linear(self.terms, const)
        terms = dict(self.terms)
        add_terms(terms, other.terms, scale)
        return Linear(without_zeros(terms), const)

    def plus_const(self, value: int) -> Linear:
        """Return `self + value`."""
        return Linear(self.terms, self.const + value) if value else self

    def times(self, factor: int) -> Linear:
        """Return `self * factor`."""
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Linear({t: c * factor for t, c in self.terms.items()}, self.const * factor)

    def over(self, divisor: int) -> Linear:
        """Return `self // divisor`, where that divides all coefficients."""
        return Linear({t: c // divisor for t, c in self.terms.items()}, self.const // divisor)

    def content(self) -> int:
        """Return the greatest common divisor of the coefficients, 0 if there are none."""
        return gcd(*self.terms.values())

    def depth(self) -> int:
        """Return the depth of the most nested term, 0 for variables alone."""
        return max((t.depth for t in self.terms if isinstance(t, Atom)), default=0)


def add_terms(into: Terms, terms: Terms, scale: int) -> None:
    """Add `scale` times `terms` to `into`, which may get coefficients of 0."""
    get = into.get
    for term, coefficient in terms.items():
        into[term] = get(term, 0) + scale * coefficient


def without_zeros(terms: Terms) -> Terms:
    """Return `terms` without coefficients of 0."""
    if 0 in terms.values():
        return {t: c for t, c in terms.items() if c}
    return terms


ZERO: Final = Linear({}, 0)


class Quotient(Atom):
    """`index // divisor`, rounded down; the divisor is an int above 1 and no term divides by it."""

    __slots__ = ("divisor", "index")

    def __init__(self, index: Linear, divisor: int) -> None:
        self.index: Final = index
        self.divisor: Final = divisor
        self.key = (Quotient, index.key, divisor)
        self.depth = index.depth() + 1
        self.stamp = -1


class SymbolicQuotient(Atom):
    """`index // divisor`, rounded down, by an expression."""

    __slots__ = ("divisor", "index")

    def __init__(self, index: Linear, divisor: Linear) -> None:
        self.index: Final = index
        self.divisor: Final = divisor
        self.key = (SymbolicQuotient, index.key, divisor.key)
        self.depth = max(index.depth(), divisor.depth()) + 1
        self.stamp = -1


class TruncatedQuotient(Atom):
    """`index / divisor`, rounded toward zero; a constant divisor is above 1."""

    __slots__ = ("divisor", "index")

    def __init__(self, index: Linear, divisor: Linear) -> None:
        self.index: Final = index
        self.divisor: Final = divisor
        self.key = (TruncatedQuotient, index.key, divisor.key)
        self.depth = max(index.depth(), divisor.depth()) + 1
        self.stamp = -1


class Product(Atom):
    """The product of terms, with repetition; the order is that of first appearance."""

    __slots__ = ("factors",)

    def __init__(self, factors: tuple[Term, ...]) -> None:
        self.factors: Final = factors
        self.key = product_key(factors)
        self.depth = max((t.depth for t in factors if isinstance(t, Atom)), default=0) + 1
        self.stamp = -1


class Extremum(Atom):
    """The smallest (or, if `largest`, the largest) of two or more alternatives."""

    __slots__ = ("args", "largest")

    def __init__(self, args: tuple[Linear, ...], largest: bool) -> None:
        self.args: Final = args
        self.largest: Final = largest
        self.key = extremum_key(args, largest)
        self.depth = max(a.depth() for a in args) + 1
        self.stamp = -1


class Wrapped(Atom):
    """A linear combination wrapped around to what an integer dtype holds."""

    __slots__ = ("dtype", "index")

    def __init__(self, index: Linear, dtype: DataType) -> None:
        self.index: Final = index
        self.dtype: Final = dtype
        self.key = (Wrapped, index.key, dtype)
        self.depth = index.depth() + 1
        self.stamp = -1


class Opaque(Atom):
    """Any other expression, its parts simplified; `interval` holds in every context."""

    __slots__ = ("expr", "interval")

    def __init__(self, expr: PrimExpr, key: Key, interval: Interval, depth: int = 1) -> None:
        self.expr: Final = expr
        self.key = key
        self.interval: Final = interval
        self.depth = depth
        self.stamp = -1


def product_key(factors: tuple[Term, ...]) -> Key:
    """Return the key of a product."""
    powers: dict[Term, int] = {}
    for term in factors:
        powers[term] = powers.get(term, 0) + 1
    return (Product, frozenset(powers.items()))


def extremum_key(args: tuple[Linear, ...], largest: bool) -> Key:
    """Return the key of an extremum."""
    return (Extremum, largest, frozenset(a.key for a in args))
