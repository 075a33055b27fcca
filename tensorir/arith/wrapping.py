"""Checks that integer arithmetic does not wrap around.

Index arithmetic does not overflow. Arithmetic on values wraps at its width; a value is loaded,
returned by a call, or passed as a scalar. A sum of values is still a linear combination, but modulo
a power of two, unless its bounds prove that it fits the width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tensorir.arith.const_interval import Interval
from tensorir.arith.linear import Linear, Product, Term, Wrapped, add_terms, without_zeros
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Var, integer_limits

T = TypeVar("T")
Bound = Callable[[Linear], Interval]


def fits(linear: Linear, dtype: DataType, bound: Bound) -> bool:
    """Return True if `linear`, written as arithmetic of `dtype`, provably does not wrap."""
    low, high = bound(linear)
    least, most = integer_limits(dtype)
    return least <= low and high <= most and agrees(linear, dtype, bound)


def sum_fits(
    parts: Iterable[tuple[int, T]], const: int, dtype: DataType, bound: Callable[[T], Interval]
) -> bool:
    """Return True if `dtype` holds every sum of a constant and multiples of bounded parts."""
    least, most = integer_limits(dtype)
    low = high = const
    for c, part in parts:
        ends = [c * end for end in bound(part)]
        low, high = low + min(ends), high + max(ends)
    return least <= low and high <= most


def agrees(linear: Linear, dtype: DataType, bound: Bound) -> bool:
    """Return True if arithmetic of `dtype` computes `linear` modulo a power of two.

    Sums and products agree even if they wrap; parts that are divided or compared must not wrap.
    """
    most = integer_limits(dtype)[1]
    if any(abs(c) > most for c in (linear.const, *linear.terms.values())):
        return False
    return all(_term_agrees(term, dtype, bound) for term in linear.terms)


def _term_agrees(term: Term, dtype: DataType, bound: Bound) -> bool:
    if isinstance(term, Var) or type(term) is Wrapped:
        return True
    if type(term) is Product:
        return all(_term_agrees(factor, dtype, bound) for factor in term.factors)
    most = integer_limits(dtype)[1]
    return all(n <= most for n in term.numbers) and all(
        fits(part, dtype, bound) for part in term.operands
    )


def reduce_to_width(linear: Linear, dtype: DataType) -> Linear:
    """Return a sum with small coefficients that is equal to `linear` modulo `2**bits` of `dtype`.

    A term that wraps at that width, or at a larger one, is replaced by its sum.
    """
    terms: dict[Term, int] = {}
    constant = linear.const
    for term, c in linear.terms.items():
        if type(term) is Wrapped and term.dtype.bits >= dtype.bits:
            add_terms(terms, term.index.terms, c)
            constant += c * term.index.const
        else:
            terms[term] = terms.get(term, 0) + c
    half = 1 << (dtype.bits - 1)
    small = {t: (c + half) % (2 * half) - half for t, c in terms.items()}
    return Linear(without_zeros(small), (constant + half) % (2 * half) - half)
