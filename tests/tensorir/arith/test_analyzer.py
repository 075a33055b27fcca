"""The analyzer: simplification keeps values, bounds are sound, proofs are true."""

from __future__ import annotations

import doctest
import operator

import pytest
from hypothesis import given
from strategies import CONDITIONS, DOMAINS, INDEX_EXPRESSIONS, evaluate, points

from tensorir import Range, Var, te
from tensorir.arith import Analyzer, linearize
from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.ops import const, min_, truncdiv, truncmod
from tensorir.script import T


def analyzer_for(domain):
    analyzer = Analyzer()
    for var, values in domain.items():
        analyzer.bind(var, Range(values.start, values.stop))
    return analyzer


def test_the_example_of_linear_forms_runs():
    assert doctest.testmod(linearize) == (0, 8)


@given(INDEX_EXPRESSIONS, DOMAINS)
def test_simplify_keeps_every_value(expr, domain):
    simple = analyzer_for(domain).simplify(expr)
    for env in points(domain):
        assert evaluate(simple, env) == evaluate(expr, env)


@given(CONDITIONS, DOMAINS)
def test_simplify_keeps_the_truth_of_conditions(condition, domain):
    simple = analyzer_for(domain).simplify(condition)
    for env in points(domain):
        assert bool(evaluate(simple, env)) == bool(evaluate(condition, env))


@given(INDEX_EXPRESSIONS, CONDITIONS, DOMAINS)
def test_simplify_keeps_values_where_a_constraint_holds(expr, condition, domain):
    analyzer = analyzer_for(domain)
    with analyzer.constraint_scope(condition):
        simple = analyzer.simplify(expr)
    for env in points(domain):
        if evaluate(condition, env):
            assert evaluate(simple, env) == evaluate(expr, env)


@given(INDEX_EXPRESSIONS, DOMAINS)
def test_bounds_hold_every_value(expr, domain):
    bound = analyzer_for(domain).const_int_bound(expr)
    for env in points(domain):
        assert bound.min_value <= evaluate(expr, env) <= bound.max_value


@given(INDEX_EXPRESSIONS, DOMAINS)
def test_modular_set_holds_every_value(expr, domain):
    residue = analyzer_for(domain).modular_set(expr)
    for env in points(domain):
        value = evaluate(expr, env)
        if residue.coeff:
            assert (value - residue.base) % residue.coeff == 0
        else:
            assert value == residue.base


@given(CONDITIONS, DOMAINS)
def test_nothing_false_is_proved(condition, domain):
    if analyzer_for(domain).can_prove(condition):
        assert all(evaluate(condition, env) for env in points(domain))


i, j, k, f, n = Var("i"), Var("j"), Var("k"), Var("f"), Var("n")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((i * 3 + j) * 4 + k, "i * 12 + j * 4 + k"),
        ((i * 12 + j * 4 + k) // 4, "i * 3 + j"),
        ((i * 12 + j * 4 + k) % 4, "k"),
        (f // 128 % 128, "f % 16384 // 128"),
        (f // 4 * 4 + f % 4, "f"),
        (f // 4 * 32 + i, "f // 4 * 32 + i"),
        ((n + 15) // 16, "(n + 15) // 16"),
        (9 - i, "9 - i"),
        (e.LT((i * 3 + j) * 4 + k, const(126)), "i * 12 + j * 4 + k < 126"),
        (e.LT((i * 3 + j) * 4 + k, const(128)), "i * 3 + j < 32"),
        (e.GE(i, const(3)), "3 <= i"),
        (e.GT(f, n), "n < f"),
        ((n + 1) // 2 - n // 2 + 2, "n % 2 + 2"),
    ],
)
def test_canonical_forms(expr, expected):
    analyzer = Analyzer()
    for var, extent in ((i, 11), (j, 3), (k, 4), (f, 128**3)):
        analyzer.bind(var, Range(extent))
    assert str(analyzer.simplify(expr)) == expected


def test_symbolic_extents_prove_bounds():
    analyzer = Analyzer()
    analyzer.bind(i, Range(n))
    analyzer.bind(j, Range(4))
    assert analyzer.can_prove(i * 4 + j < n * 4)
    assert not analyzer.can_prove(i * 4 + j < n * 4 - 1)


def test_binding_twice_is_an_error():
    analyzer = Analyzer()
    analyzer.bind(i, Range(4))
    with pytest.raises(ValueError, match="i is bound already"):
        analyzer.bind(i, Range(5))


@pytest.mark.parametrize("kind", [e.FloorDiv, e.FloorMod, e.Div, e.Mod])
def test_what_is_divided_by_zero_stays_as_written(kind):
    analyzer = Analyzer()
    analyzer.bind(j, Range(1))
    for quotient in (kind(i, j), kind(i, j * 4), kind(i, const(0))):
        assert analyzer.simplify(quotient) is quotient
        assert str(analyzer.simplify(quotient + j + 1)) == f"{quotient} + 1"


@pytest.mark.parametrize("divide", [operator.floordiv, operator.mod, truncdiv, truncmod])
@pytest.mark.parametrize("dividend", [e.Ramp(i, const(1), 4), e.Broadcast(const(8), 4)])
def test_dividing_all_lanes_by_zero_is_refused(divide, dividend):
    with pytest.raises(IRValueError, match="Divide by zero"):
        divide(dividend, e.Broadcast(const(0), 4))
    with pytest.raises(IRValueError, match="Divide by zero"):
        divide(dividend, 0)


def test_what_is_reduced_is_simplified_by_the_ranges_of_the_axes():
    row, column = te.reduce_axis((0, 10), name="row"), te.reduce_axis((-5, 3), name="column")
    total = te.sum(e.Select(row + column < 12, row + column, const(0)), [row, column])
    assert str(Analyzer().simplify(total)) == str(te.sum(row + column, [row, column]))
    assert str(Analyzer().simplify(te.sum(row.var // 10, row))) == str(te.sum(const(0), row))


def test_a_combiner_is_simplified_by_what_is_known():
    sign = Var("sign")
    either = te.comm_reducer(
        lambda a, b: e.Select(sign < 0, a + b, a * b),
        lambda dtype: e.Select(sign < 0, const(0, dtype), const(1, dtype)),
    )
    row = te.reduce_axis((0, 10), name="row")
    A = te.placeholder((10,), name="A")
    analyzer = Analyzer()
    analyzer.bind(sign, Range(-10, -3))
    assert str(analyzer.simplify(either(A[row], row))) == str(te.sum(A[row], row))


def test_calls_with_effects_are_never_equal():
    one, other = (T.call_extern("int32", "rand") for _ in range(2))
    p = Var("p", "bool")
    for expr in (one - other, min_(one, other), e.Select(p, one, other), e.EQ(one, other)):
        assert str(Analyzer().simplify(expr)).count("rand") == 2
    assert not Analyzer().can_prove_equal(one, other)


def test_a_difference_of_loads_of_floats_stays_for_it_may_be_nan():
    whole, real = decl_buffer((4,), "int32", "whole"), decl_buffer((4,), "float32", "real")
    assert str(Analyzer().simplify(whole[0] - whole[0])) == "0"
    assert str(Analyzer().simplify(real[0] - real[0])) == "real[0] - real[0]"
