"""Bounding sums that contain quotients by the rounded values: `x - 3 <= x // 4 * 4 <= x`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tensorir.arith.const_interval import Interval
from tensorir.arith.linear import (
    Linear,
    Product,
    Quotient,
    SymbolicQuotient,
    Term,
)
from tensorir.arith.polynomial import exact_quotient, factors
from tensorir.nodes.expr import Var

Bound: TypeAlias = Callable[[Linear], Interval]
Multiply: TypeAlias = Callable[[Linear, Linear], Linear]


def without_quotients(linear: Linear, bound: Bound, product: Multiply) -> Iterator[Linear]:
    """Yield sums that lack one quotient each; if one of them is not negative, `linear` is not.

    Quotients by constants are left alone unless what was rounded may cancel with other terms.
    """
    for term, c in linear.terms.items():
        kind = type(term)
        if kind is Var:
            continue
        if type(term) is Quotient:
            if c % term.divisor == 0 and _opposed(linear, term.index, c):
                divisor = Linear({}, term.divisor)
                yield _rounded(linear, term, c, c // term.divisor, term.index, divisor)
        elif kind is SymbolicQuotient or kind is Product:
            yield from _without_symbolic(linear, term, c, bound, product)


def _opposed(linear: Linear, index: Linear, sign: int) -> bool:
    """Say whether a sum and a multiple of an index, of the given sign, may cancel."""
    terms = index.terms
    return any(linear.terms.get(t, 0) * weight * sign < 0 for t, weight in terms.items())


def _without_symbolic(
    linear: Linear, term: Term, c: int, bound: Bound, product: Multiply
) -> Iterator[Linear]:
    """Yield sums without a quotient by a symbol in `term`, whose coefficient is `c`."""
    for quotient in factors(term):
        if type(quotient) is not SymbolicQuotient or bound(quotient.divisor)[0] < 1:
            continue
        index, divisor = quotient.index, quotient.divisor
        if quotient is term:
            # As the divisor is positive, `linear >= 0` just if `linear * divisor > -divisor`.
            rest = linear.plus(Linear({term: 1}, 0), -c)
            scaled = product(rest, divisor).plus(divisor).plus_const(-1)
            yield _rounded(scaled, term, 0, c, index, divisor)
            continue
        others = exact_quotient(Linear({term: c}, 0), Linear({quotient: 1}, 0), product)
        times = None if others is None else exact_quotient(others, divisor, product)
        if times is not None and not times.terms:
            yield _rounded(linear, term, c, times.const, index, divisor)


def _rounded(
    linear: Linear, term: Term, c: int, times: int, index: Linear, divisor: Linear
) -> Linear:
    """Return a bound of `linear` from below in which `c * term`, a rounded multiple, is replaced.

    It is `index // divisor * divisor * times`, and what is rounded down is at most the index and
    less than the divisor below it.
    """
    least = linear.plus(Linear({term: 1}, 0), -c).plus(index, times)
    return least.plus(divisor, -times).plus_const(times) if times > 0 else least
