"""Minima and maxima in sums: one term for all extrema that differ by a sum, and the shortest form.

`min(a, b)` is `-max(-a, -b)`, and `max(a + c, b + c)` is `max(a, b) + c`. So an extremum is
identified by the differences of its alternatives: all extrema with the same differences are one
term plus a sum, and `min(x, y) + max(x, y)` is `x + y`. The written form is the one with the fewest
nodes: `max(a - x, 0) + x` is `max(a, x)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

from tensorir.arith.linear import Extremum, Key, Linear, Term, Terms, without_zeros


def extremum_key(args: Sequence[Linear], base: Linear, largest: bool) -> Key:
    """Return a key that is equal for extrema that differ by a sum.

    `base` is one of the alternatives.
    """
    sign = 1 if largest else -1
    return frozenset(arg.plus(base, -1).times(sign).key for arg in args)


def common_part(args: Sequence[Linear]) -> tuple[Linear, int]:
    """Return a sum and a factor such that each alternative is the sum plus a multiple of the
    factor.
    """
    first = args[0]
    gaps = [arg.plus(first, -1) for arg in args[1:]]
    factor = gcd(*[c for gap in gaps for c in (*gap.terms.values(), gap.const)])
    terms: Terms = {}
    for term, c in first.terms.items():
        # If sums differ by multiples of the factor, the remainders of their coefficients are equal.
        same = all(arg.terms.get(term, 0) == c for arg in args)
        terms[term] = c if same else c % factor
    return Linear(without_zeros(terms), min(arg.const for arg in args)), factor


def alternatives(value: Linear, largest: bool) -> list[Linear]:
    """Return the alternatives of an extremum; any other value is its only alternative."""
    for term, c in value.terms.items():
        if type(term) is Extremum and abs(c) == 1 and term.largest is (largest is (c > 0)):
            rest = value.plus(Linear({term: 1}, 0), -c)
            found = [rest.plus(arg, c) for arg in term.args]
            if (c == 1 and not rest.terms) or (
                rest.terms and all(len(one.terms) <= 1 for one in found)
            ):
                return found
    return [value]


def absorb_terms(
    term: Extremum, c: int, left: Terms, rest: int
) -> tuple[Extremum, int, Linear] | None:
    """Return a shorter form of `c * term` in the sum of `left` and `rest`; None if there is none.

    The form is an extremum, its coefficient, and the sum that was added to the alternatives of
    `term`.
    """
    outside = Linear({t: d // c for t, d in left.items() if d % c == 0 and t is not term}, 0)
    shares = {t for arg in term.args for t in arg.terms}
    outside = Linear({t: d for t, d in outside.terms.items() if t in shares}, 0)
    const = rest // c if rest % c == 0 else 0
    beside = outside.plus_const(const)
    best, added, weight = term, Linear({}, 0), c
    least = _length(term.args, c, beside)
    for moved in _candidates(term.args, outside, const):
        args = [arg.plus(moved) for arg in term.args]
        for factor in dict.fromkeys((1, -1, abs(c), -abs(c))):
            scaled = [arg.times(factor) for arg in args]
            length = _length(scaled, c // factor, beside.plus(moved, -1))
            if length < least:
                least, added, weight = length, moved, c // factor
                best = Extremum(tuple(scaled), term.largest is (factor > 0))
    return None if best is term else (best, weight, added)


def _candidates(args: Sequence[Linear], outside: Linear, const: int) -> Iterator[Linear]:
    """Yield sums that might be moved into the alternatives."""
    terms: Terms = {}
    for term, c in outside.terms.items():
        terms[term] = min(
            (c, 0, *[-arg.terms.get(term, 0) for arg in args]),
            key=lambda moved: _multiples_length(args, term, c, moved),
        )
    kept = without_zeros(terms)
    for moved in dict.fromkeys((0, const, *[-arg.const for arg in args])):
        yield Linear(kept, moved)
        if kept and moved:
            yield Linear({}, moved)


def _multiples_length(args: Sequence[Linear], term: Term, c: int, moved: int) -> int:
    """Return the number of nodes for multiples of a term, inside and outside of alternatives."""
    return _coefficient_length(c - moved) + sum(
        _coefficient_length(arg.terms.get(term, 0) + moved) for arg in args
    )


def _coefficient_length(coefficient: int) -> int:
    return 0 if coefficient == 0 else 2 if abs(coefficient) == 1 else 4


def _length(args: Sequence[Linear], c: int, outside: Linear) -> tuple[int, int]:
    """Return the number of nodes in an extremum's multiple and its sum.

    Ties are broken by the number of variables.
    """
    beside = sum(map(_coefficient_length, outside.terms.values())) + (2 if outside.const else 0)
    multiple = 0 if c == 1 or (c == -1 and any(d > 0 for d in outside.terms.values())) else 2
    variables = len(outside.terms) + sum(len(arg.terms) for arg in args)
    return beside + multiple + sum(map(_nodes, args)), variables


def _nodes(value: Linear) -> int:
    terms = sum(map(_coefficient_length, value.terms.values())) + (2 if value.const else 0)
    has_positive_term = value.const > 0 or any(c > 0 for c in value.terms.values())
    return max(terms - 1, 1) + (0 if has_positive_term or not value.terms else 2)
