"""Sets of integers as sorted disjoint intervals, and the shortest comparisons for a set."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, TypeAlias

from tensorir.arith.const_interval import HALF_INFINITE, INFINITE, Interval

IntegerSet: TypeAlias = tuple[Interval, ...]
"""Sorted disjoint intervals with gaps between them; a bound beyond `HALF_INFINITE` is infinite."""

ALL: Final[IntegerSet] = ((-INFINITE, INFINITE),)


def at_least(low: int) -> IntegerSet:
    """Return the set of integers that are at least `low`."""
    return ((low, INFINITE),)


def singleton(value: int) -> IntegerSet:
    """Return the set of one integer."""
    return ((value, value),)


def complement(values: IntegerSet) -> IntegerSet:
    """Return the integers that are not in a set."""
    result: list[Interval] = []
    if not values:
        return ALL
    low = -INFINITE
    for first, last in values:
        if first > -HALF_INFINITE:
            result.append((low, first - 1))
        low = last + 1
    if values[-1][1] < HALF_INFINITE:
        result.append((low, INFINITE))
    return tuple(result)


def intersection(a: IntegerSet, b: IntegerSet) -> IntegerSet:
    """Return the integers that are in both sets."""
    common = [(max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b]
    return tuple(sorted(part for part in common if part[0] <= part[1]))


def scaled(values: IntegerSet, factor: int, offset: int) -> IntegerSet:
    """Return the integers v for which `factor * v + offset` is in a set; the factor is not 0."""
    result: list[Interval] = []
    for first, last in values:
        low, high = (first, last) if factor > 0 else (-last, -first)
        shift = offset if factor > 0 else -offset
        size = abs(factor)
        low = low if low <= -HALF_INFINITE else -((shift - low) // size)
        high = high if high >= HALF_INFINITE else (high - shift) // size
        if low <= high:
            result.append((low, high))
    return tuple(sorted(result))


def comparisons(values: IntegerSet, within: Interval) -> list[IntegerSet] | None:
    """Return sets, each testable by one comparison, whose intersection within `within` is the set.

    A result is an unbounded interval, a single integer, or all integers but one. Return None if
    more than these are needed. `values` is a non-empty subset of `within`.
    """
    least, most = values[0][0], values[-1][1]
    if least == most:
        return [singleton(least)]
    result: list[IntegerSet] = []
    if least > within[0]:
        result.append(at_least(least))
    if most < within[1]:
        result.append(complement(at_least(most + 1)))
    for (_, before), (after, _) in pairwise(values):
        if after != before + 2:
            return None
        result.append(complement(singleton(before + 1)))
    return result
