"""Interval arithmetic on expressions: every value that an expression takes is inside."""

from __future__ import annotations

import pytest
from hypothesis import given
from strategies import DOMAINS, INDEX_EXPRESSIONS, X, Y, Z, evaluate, points

from tensorir import Range
from tensorir.arith import Analyzer, IntervalSet, eval_set
from tensorir.arith.const_interval import exact_interval
from tensorir.nodes import expr as e
from tensorir.nodes.ops import const, min_, truncdiv, truncmod


@given(INDEX_EXPRESSIONS, DOMAINS)
def test_a_set_over_some_variables_holds_every_value(expr, domain):
    """X and Y run over their ranges while Z stays a symbol."""
    analyzer = Analyzer()
    analyzer.bind(Z, Range(domain[Z].start, domain[Z].stop))
    sets = {v: IntervalSet.from_range(Range(domain[v].start, domain[v].stop)) for v in (X, Y)}
    found = eval_set(expr, sets, analyzer)
    for env in points(domain):
        value = evaluate(expr, env)
        if found.min_value is not None:
            assert evaluate(found.min_value, env) <= value
        if found.max_value is not None:
            assert value <= evaluate(found.max_value, env)


@given(INDEX_EXPRESSIONS, DOMAINS)
def test_constant_intervals_hold_every_value(expr, domain):
    ranges = {v: (values[0], values[-1]) for v, values in domain.items()}
    found = exact_interval(expr, ranges)
    if found is not None:
        for env in points(domain):
            assert found[0] <= evaluate(expr, env) <= found[1]


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (Y, "0", "7"),
        (Y * 2 - X, "-3", "14"),
        (Y % 16 + Z, "z", "z + 7"),
        ((Z * 8 + Y) // 8, "z", "z"),
        ((Z * 8 + Y) % 8, "0", "7"),
        (min_(Y, Z), "T.min(0, z)", "T.min(7, z)"),
        (e.Select(Z < 3, X, Y + 2), "0", "9"),
        (Z * Y, None, None),
        (Z // (Y + 1), None, None),
    ],
)
def test_variables_whose_ranges_depend_on_each_other(expr, low, high):
    """X runs from 0 to 3 and Y from X to 7, as in a triangular nest; neither is in the ends."""
    sets = {
        Y: IntervalSet.from_range(Range.from_min_extent(X, 8 - X)),
        X: IntervalSet.from_range(Range(4)),
    }
    found = eval_set(expr, sets, Analyzer())
    ends = (found.min_value, found.max_value)
    assert tuple(None if end is None else str(end) for end in ends) == (low, high)


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        ((X % 2 * 64 + Y % 16 * 4) // 128 * 64 + Z * 16, "z * 16", "z * 16"),
        ((X % 2 * 64 + Y % 16 * 4) // 64 * 32 + Z, "z", "z + 32"),
        ((X // 2 * 4 + Y % 32 // 8 + Z * 2) // 2, "z", "z + 15"),
        ((X // 32 * 4 + Y % 32 // 8 + Z * 2 + X % 2) // 2, "z", "z + 2"),
    ],
)
def test_quotients_of_loops_that_were_fused_are_as_narrow_as_what_is_in_them(expr, low, high):
    """X runs from 0 to 15 and Y from 0 to 255."""
    sets = {X: IntervalSet.from_range(Range(16)), Y: IntervalSet.from_range(Range(256))}
    found = eval_set(expr, sets, Analyzer())
    assert (str(found.min_value), str(found.max_value)) == (low, high)


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (e.Select(X > 0, X - 1, X + 1), "-1", "9"),
        (e.Select(X > 0, X - 1, X + 1) + X * 2, "-1", "29"),
        (e.Select(X > Z, X, Z), "T.min(0, z)", "T.max(10, z)"),
        (X % Y, "0", "2"),
        (X // Y, "0", "10"),
        (truncmod(X - 5, Y), "-2", "2"),
        (truncdiv(X - 5, Y), "-5", "5"),
        (e.Ramp(X, const(2), 4), "0", "16"),
        (e.Cast("int32", e.Cast("float32", X)), "0", "10"),
    ],
)
def test_sets_over_constant_ends(expr, low, high):
    """X is in 0..10 and Y in 1..3; ends may be plain numbers."""
    found = Analyzer().int_set(expr, {X: IntervalSet(0, 10), Y: IntervalSet(1, 3)})
    assert (str(found.min_value), str(found.max_value)) == (low, high)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (X + Y, (0, 16)),
        (X - Y, (-7, 9)),
        (X * -3, (-27, 0)),
        (X // 4, (0, 2)),
        (X // -4, (-3, 0)),
        (X % 20, (0, 9)),
        (X % 4, (0, 3)),
        (X % -4, (-3, 0)),
        (e.Cast("int8", X * 100), (-128, 127)),
        (e.Cast("int8", X) + e.Cast("int8", Y), (0, 16)),
        (e.Cast("int8", X) * e.Cast("int8", X + 9), None),
    ],
)
def test_constant_intervals(expr, expected):
    assert exact_interval(expr, {X: (0, 9), Y: (0, 7)}) == expected
