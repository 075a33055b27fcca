"""Finding the remainders in a linear combination again.

`x - 6 * (x // 6)` is `x % 6`, `x // 2 - 3 * (x // 6)` is `x % 6 // 2`, and `(x + 1) // 2 - x // 2`
is `x % 2`. A sum in which such groups are found is shorter to print, and its bounds are tight. The
same holds of divisors that are not constant: `x - x // m * m` is `x % m`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from tensorir.arith.context import Remainder, SymbolicRemainder, TruncatedRemainder
from tensorir.arith.extrema import absorbed
from tensorir.arith.linear import (
    Atom,
    Extremum,
    Key,
    Linear,
    Product,
    Quotient,
    SymbolicQuotient,
    Term,
    Terms,
    TruncatedQuotient,
    add_terms,
    product_key,
)
from tensorir.arith.polynomial import Monomial, degree, factors, without

Piece: TypeAlias = Term | Remainder | SymbolicRemainder | TruncatedRemainder
Pieces: TypeAlias = list[tuple[int, Piece]]


_GROUPED: Final = frozenset({Quotient, Product, TruncatedQuotient, Extremum})
"""Terms that may be written as one piece with others; remainders end in one of the first three."""


def pieces(linear: Linear, absorb: bool = False) -> Pieces:
    """Return coefficients and pieces that make up `linear` with a constant, its `rest`.

    They come in the order in which their terms appear. What is added to an extremum moves into its
    alternatives only with `absorb`, for there it may overflow what the sum does not.
    """
    if linear.parts is not None:
        return linear.parts  # type: ignore[no-any-return]
    grouped = [t for t in linear.terms if type(t) in _GROUPED]
    if not grouped:
        # Nearly all sums are made of their terms.
        plain: Pieces = [(c, term) for term, c in linear.terms.items()]
        linear.parts = plain
        return plain
    quotients = [t for t in grouped if type(t) is Quotient]
    products = [t for t in grouped if type(t) is Product]
    truncated = [t for t in grouped if type(t) is TruncatedQuotient]
    extrema = [t for t in grouped if type(t) is Extremum] if absorb else []
    left = dict(linear.terms)
    order = {term: k for k, term in enumerate(linear.terms)}
    found: list[tuple[int, int, Piece]] = []
    for extremum in extrema:
        if extremum in left:
            linear.rest -= _absorb(extremum, left, linear.rest, order, found)
    for quotient in sorted(quotients, key=lambda q: -q.divisor):
        if quotient in left:
            linear.rest -= _extract(quotient, left, order, found)
    for part in truncated:
        if part in left:
            linear.rest -= _extract_truncated(part, left, order, found)
    for quotient in quotients:
        if quotient.divisor == 2 and quotient in left:
            _extract_half(quotient, left, order, found)
    if products:
        divided = {f: None for t in products for f in t.factors if type(f) is SymbolicQuotient}
        for symbolic in sorted(divided, key=lambda q: -degree(q.divisor)):
            _extract_symbolic(symbolic, left, order, found)
    found.extend((order[t], c, t) for t, c in left.items())
    found.sort(key=lambda item: item[0])
    linear.parts = [(c, piece) for _, c, piece in found]
    return linear.parts  # type: ignore[no-any-return]


def _extract(
    quotient: Quotient,
    left: dict[Term, int],
    order: dict[Term, int],
    found: list[tuple[int, int, Piece]],
) -> int:
    """Take the remainder that ends in `quotient` out of `left`, if there is one.

    Returns the constant that belongs to it.
    """
    modulus, weight = quotient.divisor, left[quotient]
    carriers: list[tuple[int, dict[Term, int], int]] = []
    for other in left:
        if (
            type(other) is Quotient
            and other is not quotient
            and modulus % other.divisor == 0
            and other.index.key == quotient.index.key
        ):
            carriers.append((other.divisor, {other: 1}, 0))
    carriers.sort(key=lambda c: -c[0])
    carriers.append((1, quotient.index.terms, quotient.index.const))
    for divisor, terms, const in carriers:
        ratio = modulus // divisor
        if weight % ratio:
            continue
        scale = -weight // ratio
        if any(left.get(t, 0) != c * scale for t, c in terms.items()):
            continue
        position = min(order[t] for t in terms)
        for t in terms:
            del left[t]
        del left[quotient]
        found.append((position, scale, Remainder(quotient.index, modulus, divisor)))
        return const * scale
    return 0


def _absorb(
    extremum: Extremum,
    left: dict[Term, int],
    rest: int,
    order: dict[Term, int],
    found: list[tuple[int, int, Piece]],
) -> int:
    """Take an extremum out of `left`, with what makes it shorter to write.

    Returns the constant that belongs to it.
    """
    c = left[extremum]
    made = absorbed(extremum, c, left, rest)
    if made is None:
        return 0
    piece, weight, moved = made
    add_terms(left, moved.terms, -c)
    for term in [extremum, *[t for t in moved.terms if not left[t]]]:
        del left[term]
    found.append((order[extremum], weight, piece))
    return c * moved.const


def _extract_truncated(
    quotient: TruncatedQuotient,
    left: dict[Term, int],
    order: dict[Term, int],
    found: list[tuple[int, int, Piece]],
) -> int:
    """Take the remainder that ends in `quotient` out of `left`, if there is one.

    Returns the constant that belongs to it.
    """
    index, modulus = quotient.index, quotient.divisor.const
    scale, odd = divmod(-left[quotient], modulus or 1)
    if quotient.divisor.terms or odd:
        return 0
    if any(left.get(t, 0) != c * scale for t, c in index.terms.items()):
        return 0
    position = min(order[t] for t in index.terms)
    for t in (quotient, *index.terms):
        del left[t]
    found.append((position, scale, TruncatedRemainder(index, modulus)))
    return index.const * scale


def _extract_half(
    above: Quotient,
    left: dict[Term, int],
    order: dict[Term, int],
    found: list[tuple[int, int, Piece]],
) -> None:
    """Take `(x + 1) // 2 - x // 2` out of `left`, if `above` is the first part of that."""
    if above.index.const != 1:
        return
    index = above.index.plus_const(-1)
    for below in left:
        if type(below) is Quotient and below.divisor == 2 and below.index.key == index.key:
            weight = left[above]
            if left[below] != -weight:
                return
            position = min(order[above], order[below])
            del left[above]
            del left[below]
            found.append((position, weight, Remainder(index, 2, 1)))
            return


def _extract_symbolic(
    quotient: SymbolicQuotient,
    left: Terms,
    order: dict[Term, int],
    found: list[tuple[int, int, Piece]],
) -> None:
    """Take the remainder that ends in a multiple of `quotient` out of `left`, if there is one."""
    known: dict[Key, Term] = {t.key: t for t in left if isinstance(t, Atom)}
    for divisor, ratio, terms in _carriers(quotient, left):
        taken: Terms = {}
        for factor, weight in ratio.terms.items():
            term = known.get(product_key((quotient, *factors(factor))))
            if term is not None:
                taken[term] = weight
        if ratio.const:
            taken[quotient] = ratio.const
        if len(taken) != len(ratio.terms) + (ratio.const != 0):
            continue
        term, weight = next(iter(taken.items()))
        scale = -left.get(term, 0) // weight
        group = {**{t: -c for t, c in taken.items()}, **terms}
        if scale == 0 or any(left.get(t, 0) != c * scale for t, c in group.items()):
            continue
        position = min(order[t] for t in terms)
        for t in group:
            del left[t]
        found.append(
            (position, scale, SymbolicRemainder(quotient.index, quotient.divisor, divisor))
        )
        return


def _carriers(quotient: SymbolicQuotient, left: Terms) -> Iterator[tuple[Linear, Linear, Terms]]:
    """Yield divisors d, what the divisor is as a multiple of d, and terms that are `index // d`."""
    index, modulus = quotient.index, quotient.divisor
    for other in left:
        if other is quotient or not isinstance(other, (Quotient, SymbolicQuotient)):
            continue
        if other.index.key == index.key:
            divisor = other.divisor
            divisor = divisor if isinstance(divisor, Linear) else Linear({}, divisor)
            ratio = _over_monomial(modulus, divisor)
            if ratio is not None:
                yield divisor, ratio, {other: 1}
    if not index.const:
        yield Linear({}, 1), modulus, index.terms


def _over_monomial(value: Linear, divisor: Linear) -> Linear | None:
    """Return `value / divisor` where that is a polynomial; None for a divisor that is a sum."""
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
