"""Recovering remainders in a linear combination.

`x - 6 * (x // 6)` is `x % 6`, `x // 2 - 3 * (x // 6)` is `x % 6 // 2`, `(x + 1) // 2 - x // 2` is
`x % 2`, and `(x + 1) // 2 + x // 2` is `x`. A sum with such groups is shorter to print, and its
bounds are tight. Divisors that are not constant work the same: `x - x // m * m` is `x % m`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, TypeAlias

from tensorir.arith.extrema import absorb_terms
from tensorir.arith.linear import (
    Atom,
    Division,
    Extremum,
    Key,
    Linear,
    Piece,
    Product,
    Quotient,
    Remainder,
    SymbolicQuotient,
    Term,
    Terms,
    TruncatedQuotient,
    TruncatedRemainder,
    add_terms,
    product_key,
)
from tensorir.arith.polynomial import Monomial, degree, factors, without

Pieces: TypeAlias = list[tuple[int, Term | Piece]]

Found: TypeAlias = list[tuple[int, int, Term | Piece]]
"""Pieces with their positions and coefficients."""

Group: TypeAlias = tuple[Piece, Terms, Collection[Term], int]
"""A remainder as a sum of terms and a constant, and the terms that it replaces."""


_GROUPED: Final = frozenset({Quotient, Product, TruncatedQuotient, Extremum})
"""Kinds of terms that may be part of one piece.

The last term of a remainder is of the first three kinds.
"""

SymbolicDivision: TypeAlias = SymbolicQuotient | TruncatedQuotient


def pieces(linear: Linear, absorb: bool = False) -> Pieces:
    """Return coefficients and pieces whose sum, plus the constant `rest`, is `linear`.

    They are in the order of their terms. Terms that are added to an extremum move into its
    alternatives only with `absorb`, since an alternative may overflow although the sum does not.
    """
    if linear.parts is not None:
        return linear.parts  # type: ignore[no-any-return]
    grouped = [t for t in linear.terms if type(t) in _GROUPED]
    if not grouped:
        # In most sums each term is a piece.
        plain: Pieces = [(c, term) for term, c in linear.terms.items()]
        linear.parts = plain
        return plain
    quotients = [t for t in grouped if type(t) is Quotient]
    products = [t for t in grouped if type(t) is Product]
    truncated = [t for t in grouped if type(t) is TruncatedQuotient and not t.divisor.terms]
    extrema = [t for t in grouped if type(t) is Extremum] if absorb else []
    left = dict(linear.terms)
    order = {term: k for k, term in enumerate(linear.terms)}
    found: Found = []
    for extremum in extrema:
        if extremum in left:
            linear.rest -= _extract_extremum(extremum, left, linear.rest, order, found)
    halves = [q for q in quotients if q.divisor == 2 and q.index.const == 1]
    for above in halves:
        if above in left:
            _join_halves(above, left, order)
    rounded: list[Quotient | TruncatedQuotient] = [*quotients, *truncated]
    for quotient in sorted(rounded, key=lambda q: -_constant(q)):
        if quotient in left:
            linear.rest -= _extract_group(_constant_remainders(quotient, left), left, order, found)
    for above in halves:
        if above in left:
            _extract_group(_half_remainders(above, left), left, order, found)
    if products:
        divided = {f: None for t in products for f in t.factors if isinstance(f, SymbolicDivision)}
        for symbolic in sorted(divided, key=lambda q: -degree(q.divisor)):
            linear.rest -= _extract_group(_symbolic_remainders(symbolic, left), left, order, found)
    found.extend((order[t], c, t) for t, c in left.items())
    found.sort(key=lambda item: item[0])
    linear.parts = [(c, piece) for _, c, piece in found]
    return linear.parts  # type: ignore[no-any-return]


def _extract_group(
    groups: Iterable[Group], left: Terms, order: dict[Term, int], found: Found
) -> int:
    """Move a multiple of one of the groups from `left` to `found`, if possible.

    Returns the constant that is part of the moved group.
    """
    for piece, group, places, const in groups:
        first = next(iter(group))
        scale, odd = divmod(left[first], group[first])
        if odd or not scale or any(left.get(t, 0) != c * scale for t, c in group.items()):
            continue
        for t in group:
            del left[t]
        found.append((min(order[t] for t in places), scale, piece))
        return const * scale
    return 0


def _constant(quotient: Quotient | TruncatedQuotient) -> int:
    divisor = quotient.divisor
    return divisor if isinstance(divisor, int) else divisor.const


def _constant_remainders(quotient: Quotient | TruncatedQuotient, left: Terms) -> Iterator[Group]:
    """Yield the remainders that end in a quotient, larger divisors first."""
    index, modulus, weight = quotient.index, _constant(quotient), left[quotient]
    make = Remainder if quotient.floors else TruncatedRemainder
    inner = [
        (divisor, other)
        for other in left
        if type(other) is type(quotient)
        and other is not quotient
        and (divisor := _constant(other))
        and modulus % divisor == 0
        and other.index.key == index.key
    ]
    for divisor, other in sorted(inner, key=lambda found: -found[0]):
        ratio = modulus // divisor
        if weight % ratio == 0:
            group: Terms = {quotient: -ratio, other: 1}
            yield make(index, modulus, divisor), group, (other,), 0
    if weight % modulus == 0:
        whole = {quotient: -modulus, **index.terms}
        yield make(index, modulus, 1), whole, index.terms, index.const


def _other_half(above: Quotient, left: Terms) -> Quotient | None:
    """Return the term `x // 2` for `(x + 1) // 2`."""
    key = above.index.plus_const(-1).key
    for below in left:
        if type(below) is Quotient and below.divisor == 2 and below.index.key == key:
            return below
    return None


def _join_halves(above: Quotient, left: Terms, order: dict[Term, int]) -> None:
    """Replace `(x + 1) // 2 + x // 2` by `x`."""
    below = _other_half(above, left)
    if below is None or (left[above] > 0) is not (left[below] > 0):
        return
    common = min(left[above], left[below], key=abs)
    add_terms(left, {above: -1, below: -1, **below.index.terms}, common)
    for term in (above, below, *below.index.terms):
        order.setdefault(term, order[above])
        if not left[term]:
            del left[term]


def _half_remainders(above: Quotient, left: Terms) -> Iterator[Group]:
    """Yield the remainder for `(x + 1) // 2 - x // 2`."""
    below = _other_half(above, left)
    if below is not None:
        yield Remainder(below.index, 2, 1), {above: 1, below: -1}, (above, below), 0


def _extract_extremum(
    extremum: Extremum,
    left: dict[Term, int],
    rest: int,
    order: dict[Term, int],
    found: Found,
) -> int:
    """Move an extremum from `left` to `found`, with the terms that make it shorter.

    Returns the constant that is part of the moved group.
    """
    c = left[extremum]
    result = absorb_terms(extremum, c, left, rest)
    if result is None:
        return 0
    piece, weight, moved = result
    add_terms(left, moved.terms, -c)
    for term in [extremum, *[t for t in moved.terms if not left[t]]]:
        del left[term]
    found.append((order[extremum], weight, piece))
    return c * moved.const


def _symbolic_remainders(quotient: SymbolicDivision, left: Terms) -> Iterator[Group]:
    """Yield the remainders that end in a multiple of a quotient."""
    known: dict[Key, Term] = {t.key: t for t in left if isinstance(t, Atom)}
    for divisor, ratio, terms, const in _divisor_candidates(quotient, left):
        taken: Terms = {}
        for factor, weight in ratio.terms.items():
            term = known.get(product_key((quotient, *factors(factor))))
            if term is not None:
                taken[term] = -weight
        if ratio.const and quotient in left:
            taken[quotient] = -ratio.const
        if len(taken) == len(ratio.terms) + (ratio.const != 0):
            make = Remainder if quotient.floors else TruncatedRemainder
            piece = make(quotient.index, quotient.divisor, divisor)
            yield piece, {**taken, **terms}, terms or taken, const


def _divisor_candidates(
    quotient: SymbolicDivision, left: Terms
) -> Iterator[tuple[Linear, Linear, Terms, int]]:
    """Yield divisors d, the multiple of d that is the quotient's divisor, and `index // d`.

    The quotient `index // d` is given as terms and a constant.
    """
    index, modulus = quotient.index, quotient.divisor
    for other in left:
        if other is quotient or not isinstance(other, Division):
            continue
        if other.floors is quotient.floors and other.index.key == index.key:
            divisor = other.divisor
            divisor = divisor if isinstance(divisor, Linear) else Linear({}, divisor)
            ratio = _over_monomial(modulus, divisor)
            if ratio is not None:
                yield divisor, ratio, {other: 1}, 0
    yield Linear({}, 1), modulus, index.terms, index.const


def _over_monomial(value: Linear, divisor: Linear) -> Linear | None:
    """Return `value / divisor` if that is a polynomial; None if the divisor is a sum."""
    if divisor.terms and (divisor.const or len(divisor.terms) > 1):
        return None
    monomial: Monomial = ()
    weight = divisor.const
    if divisor.terms:
        ((only, weight),) = divisor.terms.items()
        monomial = factors(only)
    if value.const and (monomial or value.const % weight):
        return None
    terms: Terms = {}
    for term, c in value.terms.items():
        rest = without(factors(term), monomial)
        if not rest or c % weight:
            return None
        terms[rest[0] if len(rest) == 1 else Product(rest)] = c // weight
    return Linear(terms, value.const // weight)
