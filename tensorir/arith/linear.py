"""Integer expressions as linear combinations: the normal form of the analyzer.

A `Linear` is `sum(coefficient * term) + const`. A term is a variable or an `Atom`: a nonlinear
expression, such as a quotient, an extremum or a load, identified by its structure. Remainders do
not occur: `x % c` is written `x - c * (x // c)`. Variables and quotients by constants are then
linearly independent, so `x // c * c + x % c` and similar sums simplify by themselves, and two sums
are equal if their difference is 0. `pieces` recovers the remainders for printing and for bounds.

An analyzer interns its atoms, so terms are compared by identity. A `Linear` and an `Atom` carry
their interval of values, and the stamp of the context in which it was computed.
"""

from __future__ import annotations

from math import gcd
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

from tensorir.arith.const_interval import Interval
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, Var

Terms: TypeAlias = "dict[Term, int]"
Key: TypeAlias = Any
"""A hashable value that is equal for equal structures."""


V = TypeVar("V")


class Domain(Protocol[V]):
    """A set of values with the operations of terms.

    Intervals, residue classes, bounds as expressions, and expressions are domains; terms are
    evaluated in a domain by abstract interpretation (Cousot and Cousot 1977).
    """

    def of(self, value: Linear | int) -> V:
        """Return the value of a sum."""

    def quotient(self, a: V, b: V, floors: bool) -> V:
        """Divide, rounding down if `floors`, else toward zero."""

    def remainder(self, a: V, b: V, floors: bool) -> V:
        """Return the remainder of division that rounds down or toward zero."""

    def extremum(self, values: list[V], largest: bool) -> V:
        """Return the smallest or the largest of several values."""

    def product(self, factors: tuple[Term, ...]) -> V:
        """Return the product of terms."""

    def wrapped(self, term: Wrapped) -> V:
        """Return the value of a sum that wraps around."""

    def opaque(self, term: Opaque) -> V:
        """Return the value of a nonlinear expression."""


class Piece:
    """A nonlinear expression: an operation on sums (`operands`) and on `numbers`.

    `rank` is the position of its kind in the canonical order of terms.
    """

    __slots__ = ("numbers", "operands")
    rank: ClassVar[int]

    def __init__(self, operands: tuple[Linear, ...], numbers: tuple[int, ...] = ()) -> None:
        self.operands: Final = operands
        self.numbers: Final = numbers

    def evaluate(self, domain: Domain[V]) -> V:
        """Return the value in a domain."""
        raise NotImplementedError


class Atom(Piece):
    """A nonlinear term, an indivisible piece. `key` represents its structure."""

    __slots__ = ("bound", "key", "stamp")
    bound: Interval

    def __init__(
        self, operands: tuple[Linear, ...], numbers: tuple[int, ...] = (), key: Key = None
    ) -> None:
        super().__init__(operands, numbers)
        self.key: Final = key or (type(self), *[a.key for a in operands], *numbers)
        self.stamp = -1


Term: TypeAlias = Var | Atom


class Linear:
    """An integer expression `sum(terms[t] * t) + const`; no coefficient is 0. Immutable."""

    __slots__ = ("_key", "bound", "const", "parts", "rest", "stamp", "terms")

    def __init__(self, terms: Terms, const: int) -> None:
        self.terms: Final = terms
        self.const: Final = const
        self._key: Key = None
        self.parts: Any = None
        """The pieces for printing, once `pieces` has computed them."""
        self.rest = const
        """The constant next to the pieces."""
        self.bound: Interval = (0, 0)
        self.stamp = -1

    @property
    def key(self) -> Key:
        """The structure, independent of the order of the terms."""
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
        """Return `self // divisor`, which must divide all coefficients."""
        return Linear({t: c // divisor for t, c in self.terms.items()}, self.const // divisor)

    def content(self) -> int:
        """Return the greatest common divisor of the coefficients, 0 if there are none."""
        return gcd(*self.terms.values())


def add_terms(into: Terms, terms: Terms, scale: int) -> None:
    """Add `scale` times `terms` to `into`; coefficients that become zero remain in it."""
    get = into.get
    for term, coefficient in terms.items():
        into[term] = get(term, 0) + scale * coefficient


def without_zeros(terms: Terms) -> Terms:
    """Return `terms` without coefficients of 0."""
    if 0 in terms.values():
        return {t: c for t, c in terms.items() if c}
    return terms


def is_negative(value: Linear) -> bool:
    """Return True if all terms of a sum, and its constant, are subtracted."""
    return value.const <= 0 and all(c < 0 for c in value.terms.values())


ZERO: Final = Linear({}, 0)


class Division(Atom):
    """A quotient of sums; the divisor may be an int."""

    __slots__ = ("divisor", "index")
    divisor: Any
    floors: ClassVar = True
    """True if it is rounded down, False if toward zero."""

    def __init__(self, index: Linear, divisor: Linear | int) -> None:
        if isinstance(divisor, int):
            super().__init__((index,), (divisor,))
        else:
            super().__init__((index, divisor))
        self.index: Final = index
        self.divisor = divisor

    def evaluate(self, domain: Domain[V]) -> V:
        """Return the value in a domain."""
        return domain.quotient(domain.of(self.index), domain.of(self.divisor), self.floors)


class Quotient(Division):
    """`index // divisor`, rounded down.

    The divisor is an int above 1 that divides no coefficient.
    """

    __slots__ = ()
    divisor: int
    rank = 3


class SymbolicQuotient(Division):
    """`index // divisor`, rounded down, by an expression."""

    __slots__ = ()
    divisor: Linear
    rank = 6


class TruncatedQuotient(Division):
    """`index / divisor`, rounded toward zero; a constant divisor is above 1."""

    __slots__ = ()
    divisor: Linear
    rank = 10
    floors = False


class Product(Atom):
    """The product of terms, with repetition; the order is that of first appearance."""

    __slots__ = ("factors",)
    rank = 4

    def __init__(self, factors: tuple[Term, ...]) -> None:
        super().__init__((), (), product_key(factors))
        self.factors: Final = factors

    def evaluate(self, domain: Domain[V]) -> V:
        """Return the value in a domain."""
        return domain.product(self.factors)


class Extremum(Atom):
    """The smallest (or, if `largest`, the largest) of two or more alternatives."""

    __slots__ = ("args", "largest")
    rank = 5

    def __init__(self, args: tuple[Linear, ...], largest: bool) -> None:
        super().__init__(args, (largest,), (Extremum, largest, frozenset(a.key for a in args)))
        self.args: Final = args
        self.largest: Final = largest

    def evaluate(self, domain: Domain[V]) -> V:
        """Return the value in a domain."""
        return domain.extremum([domain.of(arg) for arg in self.args], self.largest)


class Wrapped(Atom):
    """A linear combination wrapped around to the range of an integer dtype."""

    __slots__ = ("dtype", "index")
    rank = 9

    def __init__(self, index: Linear, dtype: DataType) -> None:
        super().__init__((index,), (dtype.bits,), (Wrapped, index.key, dtype))
        self.index: Final = index
        self.dtype: Final = dtype

    def evaluate(self, domain: Domain[V]) -> V:
        """Return the value in a domain."""
        return domain.wrapped(self)


class Opaque(Atom):
    """Any other expression, its parts simplified; `interval` holds in every context."""

    __slots__ = ("expr", "interval", "is_being_bounded")
    rank = 7

    def __init__(self, expr: PrimExpr, key: Key, interval: Interval) -> None:
        super().__init__((), (), key)
        self.expr: Final = expr
        self.interval: Final = interval
        self.is_being_bounded = False
        """True while a context reads the operands of this term."""

    def evaluate(self, domain: Domain[V]) -> V:
        """Return the value in a domain."""
        return domain.opaque(self)


class Remainder(Piece):
    """`(index % modulus) // divisor`: the form in which a sum of quotients is printed and bounded.

    Modulus and divisor are ints, or both are sums.
    """

    __slots__ = ("divisor", "index", "modulus")
    floors: ClassVar = True
    """True if quotients are rounded down, False if toward zero."""

    def __init__(self, index: Linear, modulus: Any, divisor: Any) -> None:
        if isinstance(modulus, int):
            super().__init__((index,), (modulus, divisor))
        else:
            super().__init__((index, modulus, divisor))
        self.index: Final = index
        self.modulus: Final = modulus
        self.divisor: Final = divisor

    @property
    def rank(self) -> int:  # type: ignore[override]
        """The position in the canonical order of terms."""
        return (2 if self.numbers else 8) + (0 if self.floors else 9)

    def evaluate(self, domain: Domain[V]) -> V:
        """Return the value in a domain."""
        inner = domain.remainder(domain.of(self.index), domain.of(self.modulus), self.floors)
        if self.divisor == 1:
            return inner
        return domain.quotient(inner, domain.of(self.divisor), self.floors)


class TruncatedRemainder(Remainder):
    """The remainder of the division that rounds toward zero."""

    __slots__ = ()
    floors = False


def product_key(factors: tuple[Term, ...]) -> Key:
    """Return the key of a product."""
    powers: dict[Term, int] = {}
    for term in factors:
        powers[term] = powers.get(term, 0) + 1
    return (Product, frozenset(powers.items()))
