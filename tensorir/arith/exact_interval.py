"""Which values an integer expression can take, as far as 64-bit index arithmetic needs to know.

`exact_interval` gives the interval of an expression in which nothing can wrap around, so that
computing it in 64 bits gives the same value as computing it in its own type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tensorir import expr as e
from tensorir.dtype import DataType
from tensorir.expr import PrimExpr, Var, integer_limits

Interval: TypeAlias = tuple[int, int]
Ranges: TypeAlias = Mapping[Var, Interval]


def exact_interval(node: PrimExpr, ranges: Ranges) -> Interval | None:
    """Return the lowest and highest value of `node`, or None if something in it may wrap.

    `ranges` bounds variables; other leaves may be anything that their dtype holds.
    """
    rule = _RULES.get(type(node))
    if rule is not None:
        return rule(node, ranges)
    return integer_limits(node.dtype) if node.dtype.is_integral else None


def _fitting(low: int, high: int, dtype: DataType) -> Interval | None:
    least, most = integer_limits(dtype)
    return (low, high) if least <= low and high <= most else None


def _constant(n: e.IntImm, _: Ranges) -> Interval:
    return n.value, n.value


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


def _product(a: Interval, b: Interval) -> Interval:
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(corners), max(corners)


def _floor_quotient(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    corners = (a[0] // b[0], a[0] // b[1], a[1] // b[0], a[1] // b[1])
    return min(corners), max(corners)


def _trunc_quotient(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    corners = [int(abs(x) // y) * (1 if x >= 0 else -1) for x in a for y in b]
    return min(0, *corners) if a[0] <= 0 else min(corners), max(corners)


def _floor_remainder(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    if a[0] >= 0 and a[1] < b[0]:
        return a
    return 0, b[1] - 1


def _trunc_remainder(a: Interval, b: Interval) -> Interval | None:
    if b[0] <= 0:
        return None
    most = b[1] - 1
    return (0 if a[0] >= 0 else -most), (0 if a[1] <= 0 else most)


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
    reach = _product(stride, (0, n.lanes - 1))
    return _fitting(base[0] + reach[0], base[1] + reach[1], n.dtype)


_RULES: Final[dict[type, Callable[[Any, Ranges], Interval | None]]] = {
    e.IntImm: _constant,
    e.Var: _variable,
    e.SizeVar: _variable,
    e.Add: _binary(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    e.Sub: _binary(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    e.Mul: _binary(_product),
    e.FloorDiv: _binary(_floor_quotient),
    e.FloorMod: _binary(_floor_remainder),
    e.Div: _binary(_trunc_quotient),
    e.Mod: _binary(_trunc_remainder),
    e.Min: _binary(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    e.Max: _binary(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    e.Cast: _cast,
    e.Select: _select,
    e.Ramp: _ramp,
    e.Broadcast: lambda n, ranges: exact_interval(n.value, ranges),
}
