"""Linear combinations as polynomials: factors, signs, and division without a remainder.

The terms of a `Linear` may be products, so it is a polynomial in their factors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Final, TypeAlias

from tensorir.arith.const_interval import HALF_INFINITE, Interval
from tensorir.arith.linear import Extremum, Linear, Product, Quotient, Term

Monomial: TypeAlias = tuple[Term, ...]
"""The factors of a term, with repetition."""


def factors(term: Term) -> Monomial:
    """Return the factors of a term; a term that is not a product is its only factor."""
    return term.factors if type(term) is Product else (term,)


def common_factors(terms: Iterable[Term]) -> list[Term]:
    """Return the common factors of some terms, with repetition."""
    shared: list[Term] | None = None
    for term in terms:
        left = list(factors(term))
        if shared is None:
            shared = left
            continue
        kept: list[Term] = []
        for factor in shared:
            if factor in left:
                left.remove(factor)
                kept.append(factor)
        shared = kept
    return shared or []


CORNERS: Final = 4
"""The maximum number of factors for which `at_corners` computes all corners."""


def at_corners(value: Linear, bound: Callable[[Term], Interval]) -> Interval | None:
    """Return bounds of a sum of products of different factors; None for anything else.

    Such a sum is linear in each factor, so its minimum and maximum are at corners of the box that
    the bounds of the factors span.
    """
    products = [term.factors for term in value.terms if type(term) is Product]
    symbols = list(dict.fromkeys(f for factors_ in products for f in factors_))
    if not products or len(symbols) > CORNERS or any(len(set(p)) < len(p) for p in products):
        return None
    low = high = value.const
    inside: list[tuple[int, Monomial]] = []
    for term, c in value.terms.items():
        if type(term) is Product or term in symbols:
            inside.append((c, factors(term)))
            continue
        ends = [c * end for end in bound(term)]
        low, high = low + min(ends), high + max(ends)
    results = [
        sum(c * prod(corner[f] for f in monomial) for c, monomial in inside)
        for ends in itertools.product(*map(bound, symbols))
        for corner in (dict(zip(symbols, ends, strict=True)),)
    ]
    return low + min(results), high + max(results)


def degree(value: Linear) -> int:
    """Return the largest number of factors in a term, 0 for a constant."""
    return max((len(factors(term)) for term in value.terms), default=0)


def least_values(value: Linear, bound: Callable[[Term], Interval]) -> Iterator[tuple[Term, int]]:
    """Yield symbols in a positive value and lower bounds for them.

    If the value is a product, each of its factors is assumed to be positive, since factors are
    sizes. A factor for which `bound` returns a negative number is not a size and gives no bound.
    """
    if len(value.terms) != 1:
        return
    ((term, coefficient),) = value.terms.items()
    if coefficient <= 0:
        return
    least = -((value.const - 1) // coefficient)
    if type(term) is Product:
        if least >= 1 and all(_may_be_size(bound(factor)) for factor in term.factors):
            for factor in term.factors:
                yield from least_values(Linear({factor: 1}, 0), bound)
        return
    yield term, least
    if type(term) is Quotient:
        yield from least_values(term.index.plus_const(1 - least * term.divisor), bound)
    elif type(term) is Extremum and not term.largest:
        for arg in term.args:
            yield from least_values(arg.plus_const(1 - least), bound)


def _may_be_size(bound: Interval) -> bool:
    return bound[0] >= 0 or bound[0] <= -HALF_INFINITE


def exact_quotient(
    a: Linear, b: Linear, product: Callable[[Linear, Linear], Linear]
) -> Linear | None:
    """Return `a / b` if that is a polynomial, else None; b must not be 0.

    Long division: the leading term of the remaining sum is divided by the leading term of `b`, in
    an order in which products of more factors come first.
    """
    order: dict[Term, int] = {}
    for term in (*b.terms, *a.terms):
        for factor in factors(term):
            order.setdefault(factor, len(order))
    divisor, weight = _leading_term(b, order)
    result, left = Linear({}, 0), a
    while left.terms or left.const:
        monomial, coefficient = _leading_term(left, order)
        rest = without(monomial, divisor)
        if rest is None or coefficient % weight:
            return None
        step = Linear({}, coefficient // weight)
        for factor in rest:
            step = product(Linear({factor: 1}, 0), step)
        result = result.plus(step)
        left = left.plus(product(step, b), -1)
    return result


def _leading_term(value: Linear, order: dict[Term, int]) -> tuple[Monomial, int]:
    """Return the leading term, as sorted factors, and its coefficient."""
    best: tuple[int, list[int]] | None = None
    found: tuple[Monomial, int] = ((), value.const)
    for term, coefficient in value.terms.items():
        monomial = sorted(factors(term), key=lambda t: order[t])
        rank = (-len(monomial), [order[t] for t in monomial])
        if best is None or rank < best:
            best, found = rank, (tuple(monomial), coefficient)
    return found


def without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """Return the remaining factors of a monomial after division; None if one is missing."""
    left = list(monomial)
    for factor in divisor:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)
