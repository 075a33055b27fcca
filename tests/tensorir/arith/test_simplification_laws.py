"""Forms that the simplifier gives, and the conditions it knows."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_random_expressions import points
from text_cases import each_row

from tensorir import Range, T, Var, parse
from tensorir.arith import Analyzer
from tensorir.interp.expressions import ExpressionCompiler
from tensorir.interp.memory import InterpreterError
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import decl_buffer

HERE = Path(__file__).parent

# --------- The laws of the simplifier, each with the form that it gives and checked for every value

PARAMETERS = {
    "x": "int32", "y": "int32", "z": "int32", "k": "int32", "l": "int64", "w": "int32",
    "a": "uint8", "b": "uint8", "i": "int8", "j": "int8", "p": "bool", "q": "bool",
}  # fmt: skip
DOMAINS = {
    "x": range(-9, 10), "y": range(-5, 7), "z": range(-3, 4), "k": range(8), "l": range(-9, 10),
    "w": (-(1 << 31), -(1 << 31) + 1, -17, -8, -1, 0, 1, 7, 8, 1 << 30, (1 << 31) - 1),
    "a": range(256), "b": (0, 1, 2, 7, 100, 128, 255),
    "i": range(-128, 128), "j": (-128, -127, -5, -1, 0, 1, 6, 100, 127),
    "p": (False, True), "q": (False, True),
}  # fmt: skip
"""x, y, z, l are indices, known to be in no range; k is an index in 0..7; w, a, b, i, j values."""


def read(text, variables):
    """Return the expression that `text` says, over these parameters."""
    declared = ", ".join(f"{name}: T.{dtype}" for name, dtype in PARAMETERS.items())
    func = parse(f"@T.prim_func\ndef main({declared}):\n    T.evaluate({text})\n")
    variables.update({var.name: var for var in func.params})
    return func.body.value


def computed(expr, values):
    return ExpressionCompiler(set(values)).stored(expr)


@each_row(HERE / "laws.txt")
def test_law(row, pytestconfig):
    variables: dict[str, Var] = {}
    expr = read(row.cells[0], variables)
    values = [variables["w"]]
    analyzer = Analyzer(values=values)
    analyzer.bind(variables["k"], Range(8))
    simple = analyzer.simplify(expr)
    row.check(str(simple), pytestconfig)
    assert str(analyzer.simplify(simple)) == str(simple)
    before, after = computed(expr, values), computed(simple, values)
    for env in points(expr, DOMAINS):
        expected_value = value_of(before, env)
        if expected_value is not None:
            assert expected_value == after(env), env


def value_of(compute, env):
    """Return a value; None for a division by 0."""
    try:
        return compute(env)
    except InterpreterError:
        return None


@pytest.mark.parametrize("dtype", ["int32x4", "int64x4", "boolx4"])
def test_vectors_of_floats_as_integers_stay(dtype):
    expr = read(
        f'T.Cast("{dtype}", T.Broadcast(T.float32(2.5), 4) * T.Broadcast(T.Cast("float32", y), 4))',
        {},
    )
    assert Analyzer().simplify(expr) is expr


# ----------- What follows from conditions that are known to hold: forms, bounds and residue classes

KNOWN_DOMAINS = {
    "x": range(-13, 14), "y": range(-9, 12), "z": range(-3, 6), "k": range(8),
}  # fmt: skip


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


@each_row(HERE / "conditions.txt", "forms")
def test_forms(row, pytestconfig):
    known, expr, variables = read_both(*row.cells[:2])
    analyzer = knowing(variables)
    with analyzer.constraint_scope(known):
        simple = analyzer.simplify(expr)
        row.check(str(simple), pytestconfig)
    holds, before, after = (computed(part, []) for part in (known, expr, simple))
    checked = 0
    for env in points(T.Select(known, expr, expr), KNOWN_DOMAINS):
        if holds(env):
            assert before(env) == after(env), env
            checked += 1
    assert checked > 0


@each_row(HERE / "conditions.txt", "bounds")
def test_bounds(row, pytestconfig):
    known, expr, variables = read_both(*row.cells[:2])
    analyzer = knowing(variables)
    with analyzer.constraint_scope(known):
        bound = analyzer.const_int_bound(expr)
    low, high = bound.min_value, bound.max_value
    row.check(f"{low}, {high}", pytestconfig)
    holds, value = computed(known, []), computed(expr, [])
    for env in points(T.Select(known, expr, expr), KNOWN_DOMAINS):
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


# ----------- Simplified programs are the same in every process: names order terms, addresses do not


def test_equal_sums_of_loads_have_one_form():
    A, B = decl_buffer((8,), "int32", "A"), decl_buffer((8,), "int32", "B")
    i = Var("i")
    analyzer = Analyzer()
    analyzer.bind(i, Range(8))
    for expr in (B[i] + A[i] + i + A[0], A[0] + i + A[i] + B[i], A[i] + A[0] + B[i] + i):
        assert str(analyzer.simplify(expr, sort=True)) == "i + A[i] + A[0] + B[i]"


def test_zeros_of_both_signs_are_no_equal_values():
    p = Var("p", "bool")
    choice = e.Select(p, e.FloatImm("float32", 0.0), e.FloatImm("float32", -0.0))
    assert Analyzer().simplify(choice) is choice
