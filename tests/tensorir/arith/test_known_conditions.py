"""What follows from conditions that are known to hold: forms, bounds and residue classes.

Each fact is checked for every value of the domains below at which its condition holds.
"""

from __future__ import annotations

import pytest
from test_simplification_laws import computed, read
from test_simplification_of_random_expressions import points

from tensorir import Range, T, Var
from tensorir.arith import Analyzer, ModularSet
from tensorir.nodes.expr import Let

DOMAINS = {
    "x": range(-13, 14), "y": range(-9, 12), "z": range(-3, 6), "k": range(8),
}  # fmt: skip

FORMS = [
    # quotients
    ("0 <= y and y < 8", "(x * 8 + y) // 16", "x // 2"),
    ("0 <= x and x < 2 and 0 <= y and y < 8", "(x * 360 + y) // 25", "x * 14"),
    ("0 <= y and y < 4 and 0 <= z and z < 4", "(x * 16 + y * 4 + z) % 16", "y * 4 + z"),
    ("0 <= x and 0 <= z - y", "T.truncdiv(x * 4 - y + z, 2)", "x * 2 + (z - y) // 2"),
    ("0 <= x", "T.truncdiv(x + 4, 4)", "x // 4 + 1"),
    # symbols that are not 0, or nothing is divided
    ("x != 0", "x * y * 8 // (x * 16)", "y // 2"),
    ("x != 0", "x * y * 10 // (x * 3)", "y * 3 + y // 3"),
    ("x != 0", "(x * y * 6 + x * z * 6) // (x * 3)", "y * 2 + z * 2"),
    ("x != 0", "T.truncdiv(x * y * 10, x * 3)", "T.Div(y * 10, 3)"),
    ("x != 0", "x * y * 3 % (x * 2) - y % 2 * x", "0"),
    ("z > 0", "(x * z + y) // z", "y // z + x"),
    ("z > 0", "(x * z * 2 + y * z * 2 + z) // (z * 2)", "x + y"),
    # comparisons and choices
    ("0 <= y and y < 8 and 0 <= z and z < 2", "x * 16 + y * 2 + z < 32", "x < 2"),
    ("x > 0", "T.min((x + 3) // 4 * 4, T.max(x, 4))", "T.max(x, 4)"),
    ("x < y", "T.if_then_else(x <= y, z, k)", "z"),
    ("T.max(x, y) < 5", "T.Select(x < 7, y, z)", "y"),
    ("T.min(x, y) >= 5", "x > 4 and y > 3", "T.bool(True)"),
    ("x // 4 < 3", "T.min(x, 20)", "x"),
    ("x >= 0 and x != 0", "T.max(x, 1)", "x"),
]  # fmt: skip

BOUNDS = [
    ("k < 9", "x % 64 // 4 + x % 4", 0, 18),
    ("-9 <= x and x <= 4", "x * x", 0, 81),
    ("2 <= x and x <= 5", "x * x * x", 8, 125),
    ("-10 <= y and y <= -4", "x % y", -9, 0),
    ("0 <= x and x <= 4 and 4 <= y", "T.truncmod(x, y)", 0, 4),
    ("x <= 9", "T.Select(x > 1, x, 2)", 2, 9),
    ("-9 <= x and x <= 4", "T.Select(x < 0, 0 - x, x)", 0, 9),
    ("x <= 9", "T.if_then_else(x > 1, x, 2)", 2, 9),
    ("0 <= k", "T.clz(k)", 29, 32),
    ("0 <= k", "T.popcount(k)", 0, 3),
    ("x // 4 < 3 and x >= 0", "x", 0, 11),
    ("x >= 0 and x != 0 and x < 9", "x", 1, 8),
    ("x <= 0 and x != 0 and x > -9", "x", -8, -1),
    ("T.max(x, y) < 10 and x > 2", "x", 3, 9),
    ("T.min(x, y) >= 5 and x <= 6", "x", 5, 6),
    ("x * 8 + y % 8 >= 0 and x < 3", "x", 0, 2),
]  # fmt: skip
"""Conditions, expressions, and what these are at least and at most."""

SIGNS = ["T.max(x, y) - T.min(x, y)", "T.max(x, y) - x", "x - T.min(x, y)", "x * x"]


def read_both(condition, text):
    """Return a condition and an expression over the same variables, and these by name."""
    variables: dict[str, Var] = {}
    both = read(f"T.Select({condition}, {text}, {text})", variables)
    return both.condition, both.true_value, variables


def knowing(variables):
    """Return an analyzer that knows the domain of k."""
    analyzer = Analyzer(values=[variables["w"]])
    analyzer.bind(variables["k"], Range(8))
    return analyzer


@pytest.mark.parametrize(("condition", "text", "expected"), FORMS)
def test_forms(condition, text, expected):
    known, expr, variables = read_both(condition, text)
    analyzer = knowing(variables)
    with analyzer.constraint_scope(known):
        simple = analyzer.simplify(expr)
        assert str(simple) == expected
    holds, before, after = (computed(part, []) for part in (known, expr, simple))
    checked = 0
    for env in points(T.Select(known, expr, expr), DOMAINS):
        if holds(env):
            assert before(env) == after(env), env
            checked += 1
    assert checked > 0


@pytest.mark.parametrize(("condition", "text", "low", "high"), BOUNDS)
def test_bounds(condition, text, low, high):
    known, expr, variables = read_both(condition, text)
    analyzer = knowing(variables)
    with analyzer.constraint_scope(known):
        bound = analyzer.const_int_bound(expr)
    assert (bound.min_value, bound.max_value) == (low, high)
    holds, value = computed(known, []), computed(expr, [])
    for env in points(T.Select(known, expr, expr), DOMAINS):
        if holds(env):
            assert low <= value(env) <= high, env


@pytest.mark.parametrize("text", SIGNS)
def test_what_is_never_negative(text):
    _, expr, variables = read_both("k < 9", text)
    assert knowing(variables).const_int_bound(expr).min_value == 0


def test_values_are_not_squared_without_wrapping():
    variables: dict[str, Var] = {}
    expr = read("w * w", variables)
    bound = knowing(variables).const_int_bound(expr)
    assert (bound.min_value, bound.max_value) == (-(1 << 31), (1 << 31) - 1)


def test_names_for_indices():
    x, v = Var("x"), Var("v")
    analyzer = Analyzer()
    assert str(analyzer.simplify(Let(v, x * 2, v + 1 - x))) == "x + 1"
    assert analyzer.modular_set(Let(v, x * 4, v + 2)) == ModularSet(4, 2)
    loaded = Let(v, T.call_extern("int32", "f", x), v * v)
    assert "where" in str(analyzer.simplify(loaded)), "it is called once"
