"""Residue classes: congruences of integers modulo others (Granger 1989).

The classes are a lattice: `join` is the least upper bound of two classes, `meet` their
intersection. Products, quotients and remainders of classes are the best abstractions of the integer
operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd


@dataclass(frozen=True, slots=True)
class ModularSet:
    """The integers `coeff * k + base`; a coefficient of 0 means the constant `base`."""

    coeff: int
    base: int

    def times(self, other: ModularSet) -> ModularSet:
        """Return the class of `a * b`."""
        a, b = self, other
        return residue(gcd(a.coeff * b.coeff, a.coeff * b.base, a.base * b.coeff), a.base * b.base)

    def plus(self, other: ModularSet, scale: int = 1) -> ModularSet:
        """Return the class of `a + scale * b`."""
        return residue(gcd(self.coeff, scale * other.coeff), self.base + scale * other.base)

    def over(self, divisor: int) -> ModularSet:
        """Return the class of `a // divisor`."""
        if self.coeff % divisor:
            return ANY
        return residue(abs(self.coeff // divisor), self.base // divisor)

    def modulo(self, divisor: int) -> ModularSet:
        """Return a class that contains `a + k * divisor` for every integer k."""
        return residue(gcd(self.coeff, divisor), self.base)

    def remainder(self, divisor: int) -> ModularSet:
        """Return the class of `a % divisor`, rounded down."""
        if self.coeff % divisor == 0:
            return ModularSet(0, self.base % divisor)
        return self.modulo(divisor)

    def join(self, other: ModularSet) -> ModularSet:
        """Return the smallest class that contains both."""
        return residue(gcd(self.coeff, other.coeff, self.base - other.base), self.base)

    def meet(self, other: ModularSet) -> ModularSet:
        """Return the intersection. An empty one is not representable: then return `self`."""
        a, b = (self, other) if self.coeff else (other, self)
        common = gcd(a.coeff, b.coeff)
        if (a.base - b.base) % common if common else a.base != b.base:
            return self
        if b.coeff == 0:
            return b
        # The Chinese remainder theorem: step through `a` until the residue modulo `b` is right.
        steps = (b.base - a.base) // common * pow(a.coeff // common, -1, b.coeff // common)
        return residue(a.coeff * b.coeff // common, a.base + a.coeff * steps)


def residue(coeff: int, base: int) -> ModularSet:
    """Return the class with its base reduced modulo `coeff`."""
    return ModularSet(coeff, base % coeff if coeff else base)


ANY = ModularSet(1, 0)
"""All integers."""
