"""Proving that a linear combination is not negative.

A goal follows from the bounds of its parts, or from another goal. The other goal subtracts a
multiple of a known fact, or replaces a quotient by its unrounded value. A minimum or maximum is
replaced by each of its alternatives. The search is directed by the goal. While a term has an
infinite bound, only facts that cancel that term are tried; otherwise all facts that share a term
with the goal. So the cost depends on the facts about the terms of the goal, not on all facts.

The search terminates, since each step decreases in this order: the number of facts that may be
used; then the number of quotients by which the goal was not scaled yet (scaling does not create
quotients, so there are only those of the goal and of the facts); then the terms of the goal as a
multiset, in which a step replaces a term by proper parts of it (Dershowitz and Manna 1979).
`ATTEMPTS` limits its time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from tensorir.arith.const_interval import HALF_INFINITE, Interval
from tensorir.arith.context import Context
from tensorir.arith.linear import Extremum, Linear, Product, Quotient, SymbolicQuotient, Term
from tensorir.arith.pieces import pieces
from tensorir.arith.polynomial import exact_quotient, factors
from tensorir.nodes.expr import Var

Bound: TypeAlias = Callable[[Linear], Interval]
Multiply: TypeAlias = Callable[[Linear, Linear], Linear]

FACTS: Final = 2
"""The number of facts that one proof may use."""
ATTEMPTS: Final = 64
"""The number of facts and of quotients that one search may try."""


UNSCALED: Final[frozenset[Term]] = frozenset()


class Proof:
    """One search for a proof in a context."""

    __slots__ = ("_bound", "_context", "_left", "_product")

    def __init__(self, context: Context, bound: Bound, product: Multiply) -> None:
        self._context = context
        self._bound = bound
        self._product = product
        self._left = ATTEMPTS

    def at_least_zero(
        self, goal: Linear, facts: int = FACTS, scaled: frozenset[Term] = UNSCALED
    ) -> bool:
        """Return True if `goal >= 0` follows from the bounds and at most `facts` known facts.

        `scaled` has the quotients by whose divisors the goal was multiplied already.
        """
        low, high = self._bound(goal)
        if low >= 0:
            return True
        if high < 0 or facts == 0:
            return False
        for fact, multiple in self._helpful_facts(goal):
            if self._count_attempt():
                return False
            if self.at_least_zero(goal.plus(fact, -multiple), facts - 1):
                return True
        if self._split_extremum(goal, facts, scaled):
            return True
        for least, scaling in without_quotients(goal, self._bound, self._product, scaled):
            if self._count_attempt():
                return False
            if self.at_least_zero(least, facts, scaled | scaling):
                return True
        return False

    def _count_attempt(self) -> bool:
        """Count an attempt. Return True if the limit on attempts is reached."""
        self._left -= 1
        return self._left < 0

    def _helpful_facts(self, goal: Linear) -> Iterator[tuple[Linear, int]]:
        """Yield facts that may help to prove a goal, each with the multiple of it to subtract."""
        if not self._context.facts:
            return
        for fact in self._cancelling_facts(goal):
            shared = (
                goal.terms[term] // weight
                for term, weight in fact.terms.items()
                if goal.terms.get(term, 0) * weight > 0
            )
            for multiple in dict.fromkeys(shared):
                if multiple > 0:
                    yield fact, multiple

    def _cancelling_facts(self, goal: Linear) -> Iterable[Linear]:
        """Return facts such that every proof that starts from a fact uses one of them."""
        fewest: Sequence[Linear] = ()
        for weight, piece in pieces(goal):
            low, high = self._context.piece_bound(piece)
            if (low > -HALF_INFINITE) if weight > 0 else (high < HALF_INFINITE):
                continue
            found = self._facts_with_term(goal, piece) if piece in goal.terms else ()
            if found and (not fewest or len(found) < len(fewest)):
                fewest = found
        if fewest:
            return fewest
        return dict.fromkeys(
            fact for term in goal.terms for fact in self._facts_with_term(goal, term)
        )

    def _facts_with_term(self, goal: Linear, term: object) -> list[Linear]:
        """Return the facts in which `term` has the same sign as in the goal."""
        assert isinstance(term, Term)
        weight = goal.terms[term]
        return [f for f in self._context.facts_about(term) if f.terms[term] * weight > 0]

    def _split_extremum(self, goal: Linear, facts: int, scaled: frozenset[Term]) -> bool:
        """Prove a sum with a minimum or maximum by cases."""
        for term, c in goal.terms.items():
            if type(term) is Extremum:
                rest = Linear({t: d for t, d in goal.terms.items() if t is not term}, goal.const)
                if self._prove_by_mean(term, c, rest, facts, scaled):
                    return True
                cases = (self.at_least_zero(rest.plus(a, c), facts, scaled) for a in term.args)
                return any(cases) if term.largest == (c > 0) else all(cases)
        return False

    def _prove_by_mean(
        self, term: Extremum, c: int, rest: Linear, facts: int, scaled: frozenset[Term]
    ) -> bool:
        """Prove a sum with an extremum of two alternatives, which is on one side of their mean."""
        if len(term.args) != 2 or c % 2 or term.largest != (c > 0):
            return False
        one, other = term.args
        return self.at_least_zero(rest.plus(one, c // 2).plus(other, c // 2), facts, scaled)


# -------------------------------------------------------------- bounds of quotients by dividends

# A quotient is bounded by its dividend: `x - 3 <= x // 4 * 4 <= x`. So is a sum that contains it.


def without_quotients(
    linear: Linear, bound: Bound, product: Multiply, scaled: frozenset[Term]
) -> Iterator[tuple[Linear, frozenset[Term]]]:
    """Yield sums with one quotient replaced.

    If one of them is not negative, neither is `linear`. Each comes with the quotient by whose
    divisor `linear` was multiplied, or None. Quotients in `scaled` are not replaced, nor are
    quotients by constants, unless their dividend may cancel with other terms.
    """
    for term, c in linear.terms.items():
        kind = type(term)
        if kind is Var:
            continue
        if type(term) is Quotient:
            if c % term.divisor == 0 and _have_opposite_signs(linear, term.index, c):
                divisor = Linear({}, term.divisor)
                yield _round_down(linear, term, c, c // term.divisor, term.index, divisor), UNSCALED
        elif (kind is SymbolicQuotient or kind is Product) and term not in scaled:
            yield from _without_symbolic(linear, term, c, bound, product)


def _have_opposite_signs(linear: Linear, index: Linear, sign: int) -> bool:
    """Return True if a sum and a multiple of an index, of the given sign, may cancel."""
    terms = index.terms
    return any(linear.terms.get(t, 0) * weight * sign < 0 for t, weight in terms.items())


def _without_symbolic(
    linear: Linear, term: Term, c: int, bound: Bound, product: Multiply
) -> Iterator[tuple[Linear, frozenset[Term]]]:
    """Yield sums without a quotient by a symbol in `term`, whose coefficient is `c`."""
    for quotient in factors(term):
        if type(quotient) is not SymbolicQuotient or bound(quotient.divisor)[0] < 1:
            continue
        index, divisor = quotient.index, quotient.divisor
        if quotient is term:
            # As the divisor is positive, `linear >= 0` exactly if `linear * divisor > -divisor`.
            rest = linear.plus(Linear({term: 1}, 0), -c)
            scaled = product(rest, divisor).plus(divisor).plus_const(-1)
            yield _round_down(scaled, term, 0, c, index, divisor), frozenset({quotient})
            continue
        others = exact_quotient(Linear({term: c}, 0), Linear({quotient: 1}, 0), product)
        times = None if others is None else exact_quotient(others, divisor, product)
        if times is not None and not times.terms:
            yield _round_down(linear, term, c, times.const, index, divisor), UNSCALED


def _round_down(
    linear: Linear, term: Term, c: int, times: int, index: Linear, divisor: Linear
) -> Linear:
    """Return a lower bound of `linear`, with `c * term` replaced by a multiple of `index`.

    `c * term` is `index // divisor * divisor * times`; `index // divisor * divisor` is at most
    `index`, and more than `index - divisor`.
    """
    least = linear.plus(Linear({term: 1}, 0), -c).plus(index, times)
    return least.plus(divisor, -times).plus_const(times) if times > 0 else least
