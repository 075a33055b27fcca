"""Flat indices as sums of variables times constants, read off their written form.

After flattening an index is written as such a sum, so that reading and rebuilding it needs no
analysis.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tensorir.expr import Add, IntImm, Mul, PrimExpr, Sub, Var
from tensorir.ops import add, const, mul, sub
from tensorir.visit import walk


@dataclass(slots=True)
class LinearTerms:
    """`sum(coefficient * part) + constant`, the parts in the order in which they are written."""

    parts: list[tuple[PrimExpr, int]]
    constant: int

    def coefficient(self, var: Var) -> int | None:
        """Return the factor of `var`, 0 if it is no part; None if it is inside another part."""
        total = 0
        for part, factor in self.parts:
            if part is var:
                total += factor
            elif not isinstance(part, Var) and any(inner is var for inner in walk(part)):
                return None
        return total

    def replaced(
        self, values: Mapping[Var, Collection[tuple[Var, int]]], last: Collection[Var]
    ) -> LinearTerms:
        """Return the sum with variables replaced by sums; the variables in `last` come last."""
        parts: list[tuple[PrimExpr, int]] = []
        for part, factor in self.parts:
            if isinstance(part, Var) and part in values:
                parts.extend((var, factor * scale) for var, scale in values[part])
            else:
                parts.append((part, factor))
        parts.sort(key=lambda item: isinstance(item[0], Var) and item[0] in last)
        return LinearTerms(parts, self.constant)

    def write(self, like: PrimExpr) -> PrimExpr:
        """Return the sum as an expression of the dtype of `like`."""
        dtype = like.dtype
        result: PrimExpr = const(0, dtype)
        for part, factor in self.parts:
            if factor < 0 and type(result) is not IntImm:
                result = sub(result, mul(part, const(-factor, dtype)))
            else:
                result = add(result, mul(part, const(factor, dtype)))
        if self.constant < 0:
            return sub(result, const(-self.constant, dtype))
        return add(result, const(self.constant, dtype))


def linear_terms(index: PrimExpr) -> LinearTerms:
    """Read a scalar index; what is not linear in it becomes a part with factor 1."""
    parts: list[tuple[PrimExpr, int]] = []
    constant = _read(index, 1, parts)
    return LinearTerms(parts, constant)


def _read(index: PrimExpr, factor: int, parts: list[tuple[PrimExpr, int]]) -> int:
    kind = type(index)
    if kind is IntImm:
        return factor * index.value  # type: ignore[attr-defined, no-any-return]
    if kind is Add or kind is Sub:
        sign = factor if kind is Add else -factor
        left = _read(index.a, factor, parts)  # type: ignore[attr-defined]
        return left + _read(index.b, sign, parts)  # type: ignore[attr-defined]
    if kind is Mul and type(index.b) is IntImm:  # type: ignore[attr-defined]
        return _read(index.a, factor * index.b.value, parts)  # type: ignore[attr-defined]
    parts.append((index, factor))
    return 0
