"""Intervals of integers, and arithmetic on them (Cousot and Cousot 1977).

An interval is its least and largest value, Python ints; beyond `HALF_INFINITE` a bound counts as
infinite, which lets sums of bounds be computed without special cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tensorir import expr as e
from tensorir.dtype import DataType
from tensorir.expr import PrimExpr, Var, integer_limits

Interval: TypeAlias = tuple[int, int]
Ranges: TypeAlias = Mapping[Var, Interval]

INFINITE: Final = 1 << 100
HALF_INFINITE: Final = 1 << 80
EVERYTHING: Final[Interval] = (-INFINITE, INFINITE)


# ------------------------------------------------------------------------------------- arithmetic


def product(a: Interval, b: Interval) -> Interval:
    """Return the interval of `a * b`."""
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _times(a: int, b: int) -> int:
    return max(-INFINITE, min(INFINITE, a * b))


def truncated_quotient(a: Interval, b: Interval) -> Interval:
    """Return an interval of `a / b` rounded toward zero."""
    if b[0] == b[1] and b[0] > 0:
        low, high = (abs(x) if abs(x) >= HALF_INFINITE else abs(x) // b[0] for x in a)
        return -low if a[0] < 0 else low, -high if a[1] < 0 else high
    largest = max(abs(a[0]), abs(a[1]))
    return -largest, largest


def floor_quotient(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a // b`, None if the divisor may be 0."""
    if b[0] <= 0 <= b[1]:
        return None
    corners = [floor_bound(x, d) for x in a for d in b]
    return min(corners), max(corners)


def floor_bound(bound: int, divisor: int) -> int:
    """Return a bound divided, rounding down; infinite ones stay infinite."""
    if abs(bound) >= HALF_INFINITE:
        if abs(divisor) >= HALF_INFINITE:
            return 0 if (bound < 0) == (divisor < 0) else -INFINITE
        return bound if divisor > 0 else -bound
    return bound // divisor


def trunc_quotient(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a / b` rounded to zero, None if the divisor may be 0."""
    if b[0] <= 0 <= b[1]:
        return None
    corners = [abs(x) // abs(d) * (1 if (x < 0) == (d < 0) else -1) for x in a for d in b]
    return min(corners), max(corners)


def floor_remainder(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a % b`, None if the divisor may be 0."""
    if b[0] <= 0 <= b[1]:
        return None
    if b[0] == b[1] and max(abs(a[0]), abs(a[1])) < HALF_INFINITE and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    if b[0] > 0:
        return a if a[0] >= 0 and a[1] < b[0] else (0, b[1] - 1)
    return a if a[1] <= 0 and a[0] > b[1] else (b[0] + 1, 0)


def trunc_remainder(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a - trunc(a / b) * b`, None if the divisor may be 0."""
    if b[0] <= 0 <= b[1]:
        return None
    most = max(abs(b[0]), abs(b[1])) - 1
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


# ----------------------------------------------------------------------------------- expressions


def exact_interval(node: PrimExpr, ranges: Ranges) -> Interval | None:
    """Return the lowest and highest value of `node`, or None if something in it may wrap around.

    Where it is not None, computing the expression with more bits gives the same value. `ranges`
    bounds variables; other leaves may be anything that their dtype holds.
    """
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, ranges)
    return integer_limits(node.dtype) if node.dtype.is_integral else None


def _fitting(low: int, high: int, dtype: DataType) -> Interval | None:
    least, most = integer_limits(dtype)
    return (low, high) if least <= low and high <= most else None


def _variable(n: Var, ranges: Ranges) -> Interval | None:
    known = ranges.get(n)
    if known is not None:
        return known
    return integer_limits(n.dtype) if n.dtype.is_integral else None


def _binary(
    combine: Callable[[Interval, Interval], Interval | None],
) -> Callable[[Any, Ranges], Interval | None]:
    def rule(n: e.BinaryOp, ranges: Ranges) -> Interval | None:
        a = exact_interval(n.a, ranges)
        if a is None:
            return None
        b = exact_interval(n.b, ranges)
        if b is None:
            return None
        found = combine(a, b)
        return None if found is None else _fitting(*found, n.dtype)

    return rule


def _cast(n: e.Cast, ranges: Ranges) -> Interval | None:
    if not n.dtype.is_integral:
        return None
    if n.value.dtype.is_integral:
        inner = exact_interval(n.value, ranges)
        if inner is not None and _fitting(*inner, n.dtype) is not None:
            return inner
    return integer_limits(n.dtype)


def _select(n: e.Select, ranges: Ranges) -> Interval | None:
    a, b = exact_interval(n.true_value, ranges), exact_interval(n.false_value, ranges)
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _ramp(n: e.Ramp, ranges: Ranges) -> Interval | None:
    base, stride = exact_interval(n.base, ranges), exact_interval(n.stride, ranges)
    if base is None or stride is None:
        return None
    reach = product(stride, (0, n.lanes - 1))
    return _fitting(base[0] + reach[0], base[1] + reach[1], n.dtype)


_RULES: Final[dict[type, Callable[[Any, Ranges], Interval | None]]] = {
    e.IntImm: lambda n, _: (n.value, n.value),
    e.Var: _variable,
    e.SizeVar: _variable,
    e.Add: _binary(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    e.Sub: _binary(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    e.Mul: _binary(product),
    e.FloorDiv: _binary(floor_quotient),
    e.FloorMod: _binary(floor_remainder),
    e.Div: _binary(trunc_quotient),
    e.Mod: _binary(trunc_remainder),
    e.Min: _binary(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    e.Max: _binary(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    e.Cast: _cast,
    e.Select: _select,
    e.Ramp: _ramp,
    e.Broadcast: lambda n, ranges: exact_interval(n.value, ranges),
}
