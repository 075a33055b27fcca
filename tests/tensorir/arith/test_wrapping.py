"""Arithmetic on values wraps around, and no law that this breaks is used on it."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import codegen
from tensorir import Range, Var, parse, simplify
from tensorir.arith import Analyzer, IntervalSet, eval_set
from tensorir.interp import interpret
from tensorir.memory.value_variables import value_variables
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.expr import IntImm
from tensorir.nodes.ops import const, max_, min_, truncdiv, truncmod

A = decl_buffer((2,), "int8", "A")
B = decl_buffer((4,), "int32", "B")
i = Var("i")


def byte(value):
    return const(value, "int8")


LOADS = A[0], A[1]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (A[0] * byte(16) // byte(16), "A[0] * T.int8(16) // T.int8(16)"),
        (A[0] * byte(16) * byte(16), "T.int8(0)"),
        (A[0] + A[1] - A[0], "A[1]"),
        (A[0] + byte(1) - byte(1), "A[0]"),
        ((A[0] // byte(4) + byte(31)) // byte(2), "(A[0] // T.int8(4) + T.int8(31)) // T.int8(2)"),
        (B[0] * 65536 // 65536, "B[0] * 65536 // 65536"),
        (e.Cast("int32", A[0]) * 16 // 16, 'T.Cast("int32", A[0])'),
        (e.Cast("int32", A[0] + byte(100)), 'T.Cast("int32", A[0] + T.int8(100))'),
        (e.Cast("int8", B[0] // (1 << 25)), 'T.Cast("int8", B[0] // 33554432)'),
        (e.LT(B[0], B[0] + 1), "B[0] < B[0] + 1"),
        (e.LT(B[0] % 8 + 1, B[0] % 8 + 2), "T.bool(True)"),
        (e.EQ(A[0] + byte(1), A[0] + byte(1)), "T.bool(True)"),
    ],
)
def test_forms_of_values(expr, expected):
    assert str(Analyzer().simplify(expr)) == expected


def test_a_narrowing_cast_stays_outside_what_does_not_fit_inside():
    analyzer = Analyzer()
    analyzer.bind(i, Range(10000))
    assert str(analyzer.simplify(e.Cast("int8", i // 1000))) == 'T.Cast("int8", i // 1000)'
    assert analyzer.const_int_bound(e.Cast("int8", i // 1000)).max_value == 9


def test_the_least_value_of_a_type_is_added():
    assert str(Analyzer().simplify(i + const(-(1 << 31), "int32"))) == "i + -2147483648"


def test_a_comparison_with_the_greatest_value_of_a_type_stays():
    wide, other = Var("wide", "int64"), Var("other", "int64")
    most = const((1 << 63) - 1, "int64")
    assert str(Analyzer().simplify(e.LT(most, wide + other))) == (
        "T.int64(9223372036854775807) < wide + other"
    )
    assert str(Analyzer().simplify(e.LT(most, wide))) == "T.bool(False)"


@pytest.mark.parametrize(
    "expr",
    [
        e.FloorMod(e.FloorDiv(i, const(1 << 30, "int32")), const(16, "int32")),
        e.Mul(e.Add(i, const(7, "int32")), const(-(1 << 31), "int32")),
    ],
    ids=str,
)
def test_an_expression_stays_whose_simplest_form_has_constants_beyond_the_type(expr):
    assert str(Analyzer().simplify(expr)) == str(expr)


def test_a_value_that_is_a_constant_makes_no_index_of_what_wraps():
    s = Var("s", "int32")
    expr = min_(s, const(-(1 << 31), "int32")) + (i - 2)
    assert Analyzer(values=[s]).simplify(expr) is expr


def test_unsigned_integers_are_read_where_nothing_wraps():
    U = decl_buffer((2,), "uint8", "U")
    wide = e.Cast("int32", U[0])
    analyzer = Analyzer()
    assert analyzer.can_prove(wide + 1 > 0)
    assert analyzer.can_prove(e.Cast("int32", U[0] % const(4, "uint8")) < 4)
    assert not analyzer.can_prove(e.Cast("int32", U[0] + const(1, "uint8")) > 0)


def test_constants_wrap_at_their_width():
    three, five = const(3, "uint8"), const(5, "uint8")
    assert Analyzer().const_int_bound(e.Sub(three, five)).min_value == 254
    assert Analyzer().can_prove_equal(e.Cast("int32", e.Sub(three, five)), 254)
    assert Analyzer().const_int_bound(e.Add(byte(100), byte(100))).max_value == -56


SCALARS = """
@T.prim_func
def main(a: T.handle, n: T.int32, m: T.int32, B: T.Buffer((2,), "bool")):
    A = T.match_buffer(a, (n,), "int32")
    B[0] = n < n + 1
    B[1] = m < m + 1
"""


def test_scalar_parameters_are_values_unless_they_are_sizes():
    func = parse(SCALARS)
    assert [var.name for var in value_variables(func)] == ["m"]
    text = simplify(func).script()
    assert "B[0] = T.bool(True)" in text
    assert "B[1] = m < m + 1" in text


# ------------------------------------------------------------------------------------- evaluation


def wrap(value, dtype):
    low, high = e.integer_limits(dtype)
    return (value - low) % (high - low + 1) + low


_OPERATORS = {
    e.Add: operator.add,
    e.Sub: operator.sub,
    e.Mul: operator.mul,
    e.FloorDiv: operator.floordiv,
    e.FloorMod: operator.mod,
    e.Div: lambda a, b: abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1),
    e.Mod: lambda a, b: a - abs(a) // abs(b) * (1 if (a >= 0) == (b >= 0) else -1) * b,
    e.Min: min,
    e.Max: max,
    e.LT: operator.lt,
    e.LE: operator.le,
    e.GT: operator.gt,
    e.GE: operator.ge,
    e.EQ: operator.eq,
    e.NE: operator.ne,
}


def evaluate(node, env):
    """Return the value of an expression whose arithmetic wraps at its width."""
    if isinstance(node, IntImm):
        return node.value
    if isinstance(node, e.BufferLoad):
        return env[node.indices[0].value]
    if isinstance(node, e.Cast):
        return wrap(evaluate(node.value, env), node.dtype)
    if isinstance(node, e.Not):
        return not evaluate(node.a, env)
    a, b = evaluate(node.a, env), evaluate(node.b, env)
    value = _OPERATORS[type(node)](a, b)
    return value if isinstance(node, e.CmpOp) else wrap(value, node.dtype)


_CONSTANTS = st.sampled_from([-128, -100, -16, -2, -1, 1, 2, 3, 4, 7, 16, 50, 127]).map(byte)
_DIVISORS = st.sampled_from([-128, -16, -3, -1, 1, 2, 3, 4, 16, 127]).map(byte)


def _grow(parts):
    return st.one_of(
        *[
            st.builds(op, parts, parts)
            for op in (operator.add, operator.sub, operator.mul, min_, max_)
        ],
        *[
            st.builds(op, parts, _DIVISORS)
            for op in (operator.floordiv, operator.mod, truncdiv, truncmod)
        ],
        st.builds(
            lambda a, b: e.Cast("int8", e.Cast("int16", a) * e.Cast("int16", b)), parts, parts
        ),
        st.builds(
            lambda a, c: e.Cast("int8", e.Cast("uint8", a) // const(c, "uint8")),
            parts,
            st.sampled_from([1, 2, 7, 64, 200]),
        ),
    )


VALUES = st.recursive(st.one_of(st.sampled_from(LOADS), _CONSTANTS), _grow, max_leaves=6)
COMPARISONS = st.builds(
    lambda kind, a, b: kind(a, b),
    st.sampled_from([e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE]),
    VALUES,
    VALUES,
)
EDGES = (-128, -127, -65, -16, -3, -1, 0, 1, 2, 15, 63, 64, 100, 127)
POINTS = list(itertools.product(EDGES, EDGES))


@given(VALUES)
def test_simplify_keeps_wrapped_values(expr):
    simple = Analyzer().simplify(expr)
    for env in POINTS:
        assert evaluate(simple, env) == evaluate(expr, env)


@given(COMPARISONS)
def test_simplify_keeps_the_truth_of_comparisons_of_values(condition):
    simple = Analyzer().simplify(condition)
    for env in POINTS:
        assert bool(evaluate(simple, env)) == bool(evaluate(condition, env))


@given(VALUES)
def test_bounds_and_residues_hold_wrapped_values(expr):
    analyzer = Analyzer()
    bound, residue = analyzer.const_int_bound(expr), analyzer.modular_set(expr)
    for env in POINTS:
        value = evaluate(expr, env)
        assert bound.min_value <= value <= bound.max_value
        assert (value - residue.base) % residue.coeff == 0 if residue.coeff else True


@given(COMPARISONS, VALUES)
def test_simplify_keeps_values_under_a_condition_on_values(condition, expr):
    analyzer = Analyzer()
    with analyzer.constraint_scope(condition):
        simple = analyzer.simplify(expr)
    for env in POINTS:
        if evaluate(condition, env):
            assert evaluate(simple, env) == evaluate(expr, env)


# ------------------------------------------------------------------------------------ whole programs


def test_eval_set_of_a_cast_that_wraps_is_all_that_the_type_holds():
    analyzer = Analyzer()
    wide = eval_set(e.Cast("uint8", i), {i: IntervalSet.from_range(Range(301))}, analyzer)
    assert (wide.min_value.value, wide.max_value.value) == (0, 255)
    narrow = eval_set(e.Cast("uint8", i), {i: IntervalSet.from_range(Range(30))}, analyzer)
    assert (narrow.min_value.value, narrow.max_value.value) == (0, 29)


@pytest.mark.parametrize(
    ("dtype", "factor", "data", "expected"),
    [
        ("int8", 16, [1, 10, 20, 100], [1, -6, 4, 4]),
        ("int32", 1 << 28, [1, 10, 20, 100], [1, -6, 4, 4]),
    ],
)
def test_a_product_that_wraps_is_divided_as_it_is(dtype, factor, data, expected):
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((4,), "{dtype}"), B: T.Buffer((4,), "{dtype}")):
    for i in range(4):
        B[i] = A[i] * T.{dtype}({factor}) // T.{dtype}({factor})
"""
    )
    for program in (func, simplify(func)):
        a, b = np.array(data, dtype), np.zeros(4, dtype)
        codegen.build(program, target="llvm")["main"](a, b)
        assert b.tolist() == expected
        b[:] = 0
        interpret(program, a, b)
        assert b.tolist() == expected
