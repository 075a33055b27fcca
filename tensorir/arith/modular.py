"""Residue classes: what is known of an integer modulo another (Granger 1989)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tensorir.arith.linear import Linear


@dataclass(frozen=True, slots=True)
class ModularSet:
    """The integers `coeff * k + base`; a coefficient of 0 means the constant `base`."""

    coeff: int
    base: int


def modular_set(linear: Linear) -> ModularSet:
    """Return the residue class of a linear combination, whatever the values of its terms."""
    coeff = gcd(*linear.terms.values()) if linear.terms else 0
    return ModularSet(coeff, linear.const % coeff if coeff else linear.const)
