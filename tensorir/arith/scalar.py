"""Integers that are known numbers most of the time and expressions now and then.

Extents, scales and divisors of iterators are constants in nearly every program. They are kept as
Python ints, on which arithmetic costs next to nothing, and as expressions only where they are
symbolic. `ScalarMath` has the operations for which the difference matters; it asks an `Analyzer`
only about expressions.
"""

from __future__ import annotations

from math import lcm
from typing import TypeAlias

from tensorir.arith.analyzer import Analyzer
from tensorir.arith.linear import Linear
from tensorir.dtype import DataType
from tensorir.expr import IntImm, PrimExpr
from tensorir.ops import const, floordiv, floormod, max_, min_

Scalar: TypeAlias = int | PrimExpr


def as_scalar(value: Scalar) -> Scalar:
    """Return an immediate as the int it is, anything else as it is."""
    return value.value if type(value) is IntImm else value


def as_index(value: Scalar, dtype: DataType) -> PrimExpr:
    """Return a scalar as an expression of `dtype`."""
    if type(value) is int:
        return const(value, dtype)
    assert isinstance(value, PrimExpr)
    return value if value.dtype is dtype else value.astype(dtype)


class ScalarMath:
    """Comparison and division of scalars.

    Every `bool` answer means "surely"; False says that it is not so or not known.
    """

    __slots__ = ("_analyzer", "_interned")

    def __init__(self, analyzer: Analyzer | None = None) -> None:
        self._analyzer = analyzer
        self._interned: list[PrimExpr] = []

    @property
    def analyzer(self) -> Analyzer:
        """The analyzer that expressions are referred to; made on first use if none was given."""
        if self._analyzer is None:
            self._analyzer = Analyzer()
        return self._analyzer

    def tidy(self, value: Scalar) -> Scalar:
        """Return a scalar simplified; equal expressions become one object."""
        if type(value) is int:
            return value
        simple = as_scalar(self.analyzer.simplify(value))
        if isinstance(simple, int):
            return simple
        for known in self._interned:
            if known is simple or self.analyzer.can_prove_equal(known, simple):
                return known
        self._interned.append(simple)
        return simple

    def equal(self, a: Scalar, b: Scalar) -> bool:
        """Say whether two scalars are the same number."""
        if type(a) is int and type(b) is int:
            return a == b
        return a is b or self.analyzer.can_prove_equal(a, b)

    def at_least(self, a: Scalar, b: Scalar) -> bool:
        """Say whether `a >= b`."""
        if type(a) is int and type(b) is int:
            return a >= b
        difference = a - b
        if type(difference) is int:
            return difference >= 0
        return self.analyzer.can_prove_greater_equal(difference, 0)

    def less(self, a: Scalar, b: Scalar) -> bool:
        """Say whether `a < b`."""
        return self.at_least(b, a + 1)

    def divides(self, divisor: Scalar, value: Scalar) -> bool:
        """Say whether `value` is a multiple of `divisor`."""
        if type(divisor) is int:
            if type(value) is int:
                return value % divisor == 0
            linear = self._linear(value)
            return linear.const % divisor == 0 and _all_multiples(linear, divisor)
        if value is divisor or (type(value) is int and value == 0):
            return True
        remainder = self.tidy(floormod(value, divisor))
        return type(remainder) is int and remainder == 0

    def quotient(self, value: Scalar, divisor: Scalar) -> Scalar:
        """Return `value // divisor`."""
        if type(divisor) is int:
            if type(value) is int:
                return value // divisor
            linear = self._linear(value)
            if _all_multiples(linear, divisor):
                terms = {t: c // divisor for t, c in linear.terms.items()}
                shrunk = Linear(terms, linear.const // divisor)
                dtype = value.dtype  # type: ignore[union-attr]
                return as_scalar(self.analyzer.linearizer.write(shrunk, dtype))
        return self.tidy(floordiv(value, divisor))

    def remainder(self, value: Scalar, divisor: Scalar) -> Scalar:
        """Return `value % divisor`."""
        if type(divisor) is int:
            if type(value) is int:
                return value % divisor
            linear = self._linear(value)
            if _all_multiples(linear, divisor):
                return linear.const % divisor
        return self.tidy(floormod(value, divisor))

    def ceil_quotient(self, value: Scalar, divisor: Scalar) -> Scalar:
        """Return `value // divisor`, rounded up."""
        if type(value) is int and type(divisor) is int:
            return -(-value // divisor)
        return self.tidy(floordiv(value + (divisor - 1), divisor))

    def common_multiple(self, a: Scalar, b: Scalar) -> Scalar:
        """Return a common multiple of two scalars, the least one where it is known."""
        if type(a) is int and type(b) is int:
            return lcm(a, b)
        if self.divides(a, b):
            return b
        return a if self.divides(b, a) else self.tidy(a * b)

    def smaller(self, a: Scalar, b: Scalar) -> Scalar:
        """Return the smaller of two scalars."""
        if type(a) is int and type(b) is int:
            return min(a, b)
        return self.tidy(min_(a, b))

    def larger(self, a: Scalar, b: Scalar) -> Scalar:
        """Return the larger of two scalars."""
        if type(a) is int and type(b) is int:
            return max(a, b)
        return self.tidy(max_(a, b))

    def _linear(self, value: Scalar) -> Linear:
        assert isinstance(value, PrimExpr)
        return self.analyzer.linear(value)


def _all_multiples(linear: Linear, divisor: int) -> bool:
    return all(c % divisor == 0 for c in linear.terms.values())
