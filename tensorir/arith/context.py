"""What is known while an expression is analysed: ranges of variables, and facts that hold.

Bounds are intervals of Python ints; beyond `HALF_INFINITE` a bound counts as infinite, which lets
sums and products of bounds be computed without special cases.
"""

from __future__ import annotations

from typing import Final

from tensorir.arith.linear import (
    Atom,
    Extremum,
    Interval,
    Linear,
    Opaque,
    Product,
    Quotient,
    SymbolicQuotient,
    Term,
)
from tensorir.expr import SizeVar, Var

INFINITE: Final = 1 << 100
HALF_INFINITE: Final = 1 << 80
EVERYTHING: Final[Interval] = (-INFINITE, INFINITE)


class Context:
    """Ranges of variables and facts `linear >= 0`; `stamp` changes whenever they do."""

    def __init__(self) -> None:
        self.ranges: dict[Var, Interval] = {}
        self.values: dict[Var, Linear] = {}
        """Variables that stand for an expression."""
        self.order: dict[Var, int] = {}
        """In which order variables were bound."""
        self.facts: list[Linear] = []
        self.stamp = 0

    def changed(self) -> None:
        """Invalidate every bound computed so far."""
        self.stamp += 1

    def bound(self, linear: Linear) -> Interval:
        """Return an interval that holds every value of `linear`."""
        if linear.stamp == self.stamp:
            return linear.bound
        if linear.parts is None:
            low, high = self._sum((c, self.term_bound(t)) for t, c in linear.terms.items())
        else:
            low, high = self._sum((c, self.piece_bound(p)) for c, p in linear.parts)
        low, high = self._tighten(linear, low + linear.const, high + linear.const)
        linear.bound = (max(low, -INFINITE), min(high, INFINITE))
        linear.stamp = self.stamp
        return linear.bound

    def _sum(self, parts: object) -> Interval:
        low = high = 0
        for coefficient, (least, most) in parts:  # type: ignore[attr-defined]
            if coefficient > 0:
                low += coefficient * least
                high += coefficient * most
            else:
                low += coefficient * most
                high += coefficient * least
        return low, high

    def _tighten(self, linear: Linear, low: int, high: int) -> Interval:
        """Improve a bound by facts about the same combination of terms."""
        for fact in self.facts:
            if len(fact.terms) != len(linear.terms) or not fact.terms:
                continue
            term, coefficient = next(iter(fact.terms.items()))
            other = linear.terms.get(term)
            if other is None or other % coefficient:
                continue
            scale = other // coefficient
            if any(linear.terms.get(t) != c * scale for t, c in fact.terms.items()):
                continue
            offset = linear.const - scale * fact.const
            if scale > 0:
                low = max(low, offset)
            else:
                high = min(high, offset)
        return low, high

    def piece_bound(self, piece: object) -> Interval:
        """Return the bound of a term or of a remainder."""
        if isinstance(piece, (Remainder, SymbolicRemainder)):
            return piece.bound(self)
        return self.term_bound(piece)  # type: ignore[arg-type]

    def term_bound(self, term: Term) -> Interval:
        """Return an interval that holds every value of a term."""
        if isinstance(term, Atom):
            if term.stamp != self.stamp:
                term.bound = self._atom_bound(term)
                term.stamp = self.stamp
            return term.bound
        known = self.ranges.get(term)
        if known is None:
            known = (0, INFINITE) if type(term) is SizeVar else EVERYTHING
        return known if not self.facts else self._tighten(Linear({term: 1}, 0), *known)

    def _atom_bound(self, atom: Atom) -> Interval:
        if type(atom) is Quotient:
            low, high = self.bound(atom.index)
            return floor_bound(low, atom.divisor), floor_bound(high, atom.divisor)
        if type(atom) is Extremum:
            bounds = [self.bound(a) for a in atom.args]
            pick = max if atom.largest else min
            return pick(b[0] for b in bounds), pick(b[1] for b in bounds)
        if type(atom) is Opaque:
            return atom.interval
        if type(atom) is Product:
            low, high = self.term_bound(atom.factors[0])
            for factor in atom.factors[1:]:
                least, most = self.term_bound(factor)
                corners = [_times(a, b) for a in (low, high) for b in (least, most)]
                low, high = min(corners), max(corners)
            return low, high
        if type(atom) is SymbolicQuotient:
            return self._symbolic_quotient_bound(atom)
        return EVERYTHING

    def _symbolic_quotient_bound(self, atom: SymbolicQuotient) -> Interval:
        low, high = self.bound(atom.index)
        least, most = self.bound(atom.divisor)
        if least <= 0:
            return EVERYTHING
        corners = [
            0 if d >= HALF_INFINITE and n >= 0 else floor_bound(n, d)
            for n in (low, high)
            for d in (least, most)
        ]
        return min(corners), max(corners)


class Remainder:
    """`(index % modulus) // divisor`: what a sum of quotients is printed and bounded as."""

    __slots__ = ("divisor", "index", "modulus")

    def __init__(self, index: Linear, modulus: int, divisor: int) -> None:
        self.index = index
        self.modulus = modulus
        self.divisor = divisor

    def bound(self, context: Context) -> Interval:
        """Return an interval that holds every value."""
        low, high = context.bound(self.index)
        if abs(low) < HALF_INFINITE and abs(high) < HALF_INFINITE:
            first, last = low // self.modulus, high // self.modulus
            if first == last:
                base = first * self.modulus
                return (low - base) // self.divisor, (high - base) // self.divisor
        return 0, self.modulus // self.divisor - 1


class SymbolicRemainder:
    """`(index % modulus) // divisor` where modulus and divisor are expressions."""

    __slots__ = ("divisor", "index", "modulus")

    def __init__(self, index: Linear, modulus: Linear, divisor: Linear) -> None:
        self.index = index
        self.modulus = modulus
        self.divisor = divisor

    def bound(self, context: Context) -> Interval:
        """Return an interval that holds every value."""
        low, high = context.bound(self.modulus)
        if low < 1 or context.bound(self.divisor)[0] < 1:
            return EVERYTHING
        return 0, high - 1


def floor_bound(bound: int, divisor: int) -> int:
    """Return a bound divided, infinite ones staying infinite."""
    return bound if abs(bound) >= HALF_INFINITE else bound // divisor


def _times(a: int, b: int) -> int:
    if a == 0 or b == 0:
        return 0
    product = a * b
    return max(-INFINITE, min(INFINITE, product))
