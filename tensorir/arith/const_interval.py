"""Intervals of integers, and arithmetic on them (Cousot and Cousot 1977).

An interval is its minimum and maximum, Python ints; a bound beyond `HALF_INFINITE` counts as
infinite, so sums of bounds need no special cases. Bits are bounded as in Warren 2012, section 4-3,
but by whole powers of two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import PrimExpr, Var, integer_limits
from tensorir.rewriting.visit import substitute
from tensorir.semantics import convert

Interval: TypeAlias = tuple[int, int]
Ranges: TypeAlias = Mapping[Var, Interval]

INFINITE: Final = 1 << 100
HALF_INFINITE: Final = 1 << 80
EVERYTHING: Final[Interval] = (-INFINITE, INFINITE)


# ------------------------------------------------------------------------------------- arithmetic


def product(a: Interval, b: Interval) -> Interval:
    """Return the interval of `a * b`."""
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    low, high = min(corners), max(corners)
    if low >= -INFINITE and high <= INFINITE:
        return low, high
    return max(-INFINITE, min(INFINITE, low)), max(-INFINITE, min(INFINITE, high))


def floor_quotient(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a // b` for nonzero divisors; None if there are none."""
    if 0 < b[0] == b[1]:
        return floor_bound(a[0], b[0]), floor_bound(a[1], b[0])
    corners = [floor_bound(x, d) for x in a for d in _divisors(b)]
    return (min(corners), max(corners)) if corners else None


def floor_bound(bound: int, divisor: int) -> int:
    """Return a bound divided, rounding down; infinite bounds stay infinite."""
    if abs(bound) >= HALF_INFINITE:
        if abs(divisor) >= HALF_INFINITE:
            return 0 if (bound < 0) == (divisor < 0) else -INFINITE
        return bound if divisor > 0 else -bound
    return bound // divisor


def trunc_quotient(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a / b` rounded to zero, for nonzero divisors.

    Return None if there are none.
    """
    corners = [
        abs(x) // abs(d) * (1 if (x < 0) == (d < 0) else -1) for x in a for d in _divisors(b)
    ]
    return (min(corners), max(corners)) if corners else None


def floor_remainder(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a % b` for nonzero divisors; None if there are none.

    This is the remainder of division rounded down, which has the divisor's sign; `trunc_remainder`
    has the dividend's sign (Leijen 2001 compares them).
    """
    if b[0] <= 0 <= b[1]:
        parts = [floor_remainder(a, p) for p in ((b[0], -1), (1, b[1])) if p[0] <= p[1]]
        found = [part for part in parts if part is not None]
        return union(*found) if found else None
    if b[0] == b[1] and max(abs(a[0]), abs(a[1])) < HALF_INFINITE and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    if b[0] > 0:
        if a[0] < 0:
            return 0, b[1] - 1
        return a if a[1] < b[0] else (0, min(a[1], b[1] - 1))
    if a[1] > 0:
        return b[0] + 1, 0
    return a if a[0] > b[1] else (max(a[0], b[0] + 1), 0)


def trunc_remainder(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a - trunc(a / b) * b` for nonzero divisors.

    Return None if there are none.
    """
    sizes = [abs(d) for d in _divisors(b)]
    if not sizes:
        return None
    if max(-a[0], a[1]) < min(sizes):
        return a
    most = max(sizes) - 1
    return max(min(a[0], 0), -most), min(max(a[1], 0), most)


def _divisors(b: Interval) -> list[int]:
    """Return the minimum and maximum of the negative and of the positive part of an interval."""
    ends: list[int] = []
    if b[0] < 0:
        ends += (b[0], min(b[1], -1))
    if b[1] > 0:
        ends += (max(b[0], 1), b[1])
    return ends


def union(*parts: Interval) -> Interval:
    """Return the smallest interval that contains all the given intervals."""
    return min(p[0] for p in parts), max(p[1] for p in parts)


def common_bits(a: Interval, b: Interval) -> Interval:
    """Return an interval that holds `a & b`, of integers in two's complement."""
    if a[0] >= 0 or b[0] >= 0:
        return 0, min(x[1] for x in (a, b) if x[0] >= 0)
    return -_power_above(max(-a[0], -b[0]) - 1), max(a[1], b[1])


def either_bits(a: Interval, b: Interval) -> Interval:
    """Return an interval that holds `a | b`, of integers in two's complement."""
    return invert_bits(common_bits(invert_bits(a), invert_bits(b)))


def different_bits(a: Interval, b: Interval) -> Interval:
    """Return an interval that holds `a ^ b`, of integers in two's complement."""
    limit = _power_above(max(a[1], b[1], -a[0] - 1, -b[0] - 1))
    return (0 if a[0] >= 0 and b[0] >= 0 else -limit), limit - 1


def invert_bits(a: Interval) -> Interval:
    """Return the interval of `~a`, which is `-a - 1`."""
    return -a[1] - 1, -a[0] - 1


def _power_above(value: int) -> int:
    """Return the least power of two above a nonnegative value."""
    return 1 << value.bit_length()


def shifted_left(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a * 2**b`; None if `b` may be negative."""
    return product(a, _powers(b)) if b[0] >= 0 else None


def shifted_right(a: Interval, b: Interval) -> Interval | None:
    """Return the interval of `a // 2**b`; None if `b` may be negative."""
    return floor_quotient(a, _powers(b)) if b[0] >= 0 else None


def _powers(exponent: Interval) -> Interval:
    # Exponents are clipped to 64, the bits of the widest type: larger shifts give 0, or copies of
    # the sign.
    return 1 << min(exponent[0], 64), 1 << min(exponent[1], 64)


# ----------------------------------------------------------------------------------- expressions


Operand: TypeAlias = Callable[[PrimExpr], "Interval | None"]
"""Returns the interval of an operand; None if it is not an integer, or if a part of it may wrap."""


def exact_interval(node: PrimExpr, ranges: Ranges) -> Interval | None:
    """Return the minimum and maximum of `node`, or None if something in it may wrap around.

    If it is not None, computing the expression with more bits gives the same value. `ranges` bounds
    variables; other leaves may have any value of their dtype. Also None for quotients and
    remainders by a divisor that may be 0.
    """
    return _Exact(ranges)(node)


class _Exact:
    """`exact_interval` of each operand, for the rules of operations."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def __call__(self, part: PrimExpr) -> Interval | None:
        kind = type(part)
        if kind is Var or kind is e.SizeVar:
            known = self._ranges.get(part)  # type: ignore[call-overload]
            return known if known is not None else type_interval(part)
        if kind in _DIVISIONS:
            divisor = self(part.b)  # type: ignore[attr-defined]
            if divisor is None or divisor[0] <= 0 <= divisor[1]:
                return None
        rule = _RULES.get(kind)
        return rule(part, self) if rule is not None else type_interval(part)


def value_interval(node: PrimExpr, operand: Operand) -> Interval | None:
    """Return an interval that holds the value of `node`, wrapped to its dtype; None for
    non-integers.

    `operand` returns the intervals of the operands. A quotient by 0 has no value.
    """
    rule = _RULES.get(type(node))
    found = rule(node, operand) if rule is not None else None
    return type_interval(node) if found is None else found


def type_interval(node: PrimExpr) -> Interval | None:
    """Return the range of an expression's dtype; None if it is not an integer dtype."""
    return integer_limits(node.dtype) if node.dtype.is_integral else None


def _fit(found: Interval | None, dtype: DataType) -> Interval | None:
    if found is None:
        return None
    least, most = integer_limits(dtype)
    return found if least <= found[0] and found[1] <= most else None


def _binary(
    combine: Callable[[Interval, Interval], Interval | None],
) -> Callable[[Any, Operand], Interval | None]:
    def rule(n: e.BinaryOp, operand: Operand) -> Interval | None:
        a = operand(n.a)
        if a is None:
            return None
        b = operand(n.b)
        return None if b is None else _fit(combine(a, b), n.dtype)

    return rule


def _cast(n: e.Cast, operand: Operand) -> Interval | None:
    middle = n.value
    if isinstance(middle, e.Cast) and middle.dtype.is_floating and middle.value.dtype.is_integral:
        if middle.dtype.bits < 16:
            return type_interval(n)  # A value that is too large for the type becomes NaN.
        # Rounding to nearest, and then to zero, is monotonic.
        ends = operand(middle.value) if n.dtype.is_integral and not n.dtype.is_bool else None
        return type_interval(n) if ends is None else _round_trip(ends, middle, n.dtype)
    inner = operand(n.value) if n.dtype.is_integral and n.value.dtype.is_integral else None
    return type_interval(n) if inner is None else _fit(inner, n.dtype) or type_interval(n)


def _round_trip(ends: Interval, middle: e.Cast, target: DataType) -> Interval:
    """Return the interval of integers that are cast to floating point numbers and back."""
    limits = integer_limits(middle.value.dtype.element)
    source, between = middle.value.dtype.element, middle.dtype.element
    inside = max(ends[0], limits[0]), min(ends[1], limits[1])
    low, high = (convert(convert(end, source, between), between, target.element) for end in inside)
    return low, high


def _select(n: e.Select, operand: Operand) -> Interval | None:
    a, b = operand(n.true_value), operand(n.false_value)
    return None if a is None or b is None else union(a, b)


def _let(n: e.Let, operand: Operand) -> Interval | None:
    return operand(substitute(n.body, {n.var: n.value}))


def _ramp(n: e.Ramp, operand: Operand) -> Interval | None:
    base, stride = operand(n.base), operand(n.stride)
    if base is None or stride is None:
        return None
    reach = product(stride, (0, n.lanes - 1))
    return _fit((base[0] + reach[0], base[1] + reach[1]), n.dtype)


def _call(n: e.Call, operand: Operand) -> Interval | None:
    """Return the interval of a call, which computes in its own type regardless of the operands."""
    name = getattr(n.op, "short_name", "")
    if name in _COUNTS:
        return _bits_counted(name, n.args[0].dtype.bits, operand(n.args[0]))
    combine = _CALLS.get(name)
    if combine is None or not n.dtype.is_integral:
        return type_interval(n)
    parts = [operand(a) or type_interval(a) or EVERYTHING for a in n.args]
    return _fit(combine(*parts), n.dtype) or type_interval(n)


def _bits_counted(name: str, width: int, a: Interval | None) -> Interval:
    """Return the interval of a count of bits: of the set bits, or of the leading zeros."""
    if a is None or a[0] < 0:
        return 0, width
    if name == "popcount":
        return int(a[0] > 0), a[1].bit_length()
    return width - a[1].bit_length(), width - a[0].bit_length()


_COUNTS: Final = frozenset({"clz", "popcount"})

_CALLS: Final[dict[str, Callable[..., Interval | None]]] = {
    "bitwise_and": common_bits,
    "bitwise_or": either_bits,
    "bitwise_xor": different_bits,
    "bitwise_not": invert_bits,
    "if_then_else": lambda _, a, b: union(a, b),
    "likely": lambda a: a,
    "shift_left": shifted_left,
    "shift_right": shifted_right,
}

_DIVISIONS: Final = frozenset({e.FloorDiv, e.FloorMod, e.Div, e.Mod})

ARITHMETIC: Final[dict[type, Callable[[Interval, Interval], Interval | None]]] = {
    e.Add: lambda a, b: (a[0] + b[0], a[1] + b[1]),
    e.Sub: lambda a, b: (a[0] - b[1], a[1] - b[0]),
    e.Mul: product,
    e.FloorDiv: floor_quotient,
    e.FloorMod: floor_remainder,
    e.Div: trunc_quotient,
    e.Mod: trunc_remainder,
    e.Min: lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    e.Max: lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
}
"""Rules that compute the interval of a result, before it wraps, from the intervals of its operands.
"""

_RULES: Final[dict[type, Callable[[Any, Operand], Interval | None]]] = {
    e.IntImm: lambda n, _: (n.value, n.value),
    **{kind: _binary(combine) for kind, combine in ARITHMETIC.items()},
    e.Call: _call,
    e.Cast: _cast,
    e.Let: _let,
    e.Select: _select,
    e.Ramp: _ramp,
    e.Broadcast: lambda n, operand: operand(n.value),
}
