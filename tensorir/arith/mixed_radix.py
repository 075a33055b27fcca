"""Sums that count through their variables, such as `i * 32 + j * 4 + k`.

Nearly all bindings of a scheduled program are of this form: an affine map that is plain to see.
`iter_map` uses it as a short cut, which must give what the general way gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from tensorir.arith.coefficients import coefficients
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Add, IntImm, Mul, PrimExpr, Var


class Bounds(Protocol):
    """The first value of a variable and the number of values: a `Range`, or a loop."""

    @property
    def min(self) -> PrimExpr:
        """The least value."""

    @property
    def extent(self) -> PrimExpr:
        """The number of values."""


Digits: TypeAlias = "list[tuple[Var, int]]"
"""Variables and their scales, outermost first; the sum of the products is the index."""


def mixed_radix(
    indices: Sequence[PrimExpr], domain: Mapping[Var, Bounds], keep_unit: bool
) -> list[Digits] | None:
    """Return the digits of each index, None unless all are plain to see.

    That is: every variable has a constant range from 0 and occurs once in all indices together, and
    the scale of each is what the ones inside it count up to. Variables of one value are left out
    unless `keep_unit`.
    """
    seen: set[Var] = set()
    result: list[Digits] = []
    for index in indices:
        if type(index) is Var:
            # Most indices are a variable, which needs no reading.
            scales = {index: 1}
        else:
            total = coefficients(index)
            if total.parts or total.constant:
                return None
            scales = total.of
        terms: list[tuple[Var, int, int]] = []
        for var, scale in scales.items():
            values = domain.get(var)
            if values is None or var in seen or var.dtype is not index.dtype:
                return None
            seen.add(var)
            low, extent = values.min, values.extent
            if type(extent) is not IntImm or type(low) is not IntImm or low.value != 0:
                return None
            if extent.value != 1 or keep_unit:
                terms.append((var, scale, extent.value))
        digits = _ordered(terms)
        if digits is None:
            return None
        result.append(digits)
    return result


def _ordered(terms: list[tuple[Var, int, int]]) -> Digits | None:
    """Return terms by scale, outermost first; of equal ones those of one value are innermost."""
    if len(terms) == 1:
        var, scale, _ = terms[0]
        return [(var, 1)] if scale == 1 else None
    expected = 1
    picked: Digits = []
    while terms:
        found = -1
        for k in range(len(terms) - 1, -1, -1):
            if terms[k][1] == expected:
                if terms[k][2] == 1:
                    found = k
                    break
                if found < 0:
                    found = k
        if found < 0:
            return None
        var, scale, extent = terms.pop(found)
        picked.append((var, scale))
        expected = scale * extent
    picked.reverse()
    return picked


def plainly_simplified(
    indices: Sequence[PrimExpr], domain: Mapping[Var, Bounds], keep_unit: bool
) -> tuple[PrimExpr, ...] | None:
    """Return indices with their terms in order, None unless all are plain to see."""
    plain = mixed_radix(indices, domain, keep_unit)
    if plain is None:
        return None
    return tuple(
        i if type(i) is Var and digits else written(digits, i.dtype)
        for digits, i in zip(plain, indices, strict=True)
    )


def radix_span(terms: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the step and the count of the values that a sum of `scale * variable` takes.

    `terms` are scales and extents. None unless the values are evenly spaced because each scale is
    what the ones below it count up to.
    """
    moving = sorted(term for term in terms if term[1] != 1)
    if not moving:
        return 1, 1
    step = moving[0][0]
    if step <= 0:
        return None
    expected = step
    for scale, extent in moving:
        if scale != expected:
            return None
        expected *= extent
    return step, expected // step


def written(digits: Digits, dtype: DataType) -> PrimExpr:
    """Return the index that has these digits."""
    result: PrimExpr | None = None
    for var, scale in digits:
        term: PrimExpr = var if scale == 1 else Mul(var, IntImm(dtype, scale))
        result = term if result is None else Add(result, term)
    return IntImm(dtype, 0) if result is None else result
