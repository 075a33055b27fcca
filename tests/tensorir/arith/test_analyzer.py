"""The analyzer: simplification keeps values, bounds are sound, proofs are true."""

from __future__ import annotations

import doctest
import operator
import random
from itertools import pairwise

import pytest
from hypothesis import given
from strategies import CONDITIONS, DOMAINS, INDEX_EXPRESSIONS, evaluate, points

from tensorir import Range, Var, parse, simplify, te
from tensorir.arith import Analyzer, linearize
from tensorir.arith.linear import Linear
from tensorir.errors import IRValueError
from tensorir.interp.expressions import ExpressionCompiler
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import const, floordiv, if_then_else, logical_and, min_, truncdiv, truncmod
from tensorir.script import T

# --------------------- The analyzer: simplification keeps values, bounds are sound, proofs are true


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
        ((n + 1) // 2 * 3 + n // 2 + i, "(n + 1) // 2 * 2 + n + i"),
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


def test_squares_of_squares_keep_their_variables():
    squares = [Var(f"square_{k}", "int32") for k in range(40)]
    power = squares[-1]
    for before, square in reversed([*pairwise(squares)]):
        power = e.Let(square, before * before, power)
    assert str(simplify(power)) == str(power)


def test_a_difference_of_loads_of_floats_stays_for_it_may_be_nan():
    whole, real = decl_buffer((4,), "int32", "whole"), decl_buffer((4,), "float32", "real")
    assert str(Analyzer().simplify(whole[0] - whole[0])) == "0"
    assert str(Analyzer().simplify(real[0] - real[0])) == "real[0] - real[0]"


# --------------------------------------------------- A fact lives as long as the scope that gave it

context_i, context_j, context_n, m = Var("i"), Var("j"), Var("n"), Var("m")


def test_an_extent_is_positive_inside_its_loop_only():
    analyzer = Analyzer()
    with analyzer.loop_scope(context_i, 0, context_n):
        assert analyzer.can_prove(context_n >= 1)
        assert analyzer.can_prove(context_i < context_n)
    assert not analyzer.can_prove(context_n >= 1)
    assert not analyzer.can_prove(context_i < context_n)


def test_leaving_a_scope_restores_what_was_computed_before():
    analyzer = Analyzer()
    analyzer.bind(context_i, Range(8))
    assert str(analyzer.simplify(context_i // 4)) == "i // 4"
    with analyzer.constraint_scope(context_i < 4):
        assert str(analyzer.simplify(context_i // 4)) == "0"
    assert str(analyzer.simplify(context_i // 4)) == "i // 4"


def test_a_scope_ends_where_an_exception_leaves_it():
    analyzer = Analyzer()
    try:
        with analyzer.scope():
            analyzer.bind(context_i, Range(context_n))
            raise KeyError
    except KeyError:
        pass
    assert not analyzer.can_prove(context_i < context_n)


def test_binding_anew_forgets_what_followed_from_the_old_binding():
    analyzer = Analyzer()
    analyzer.bind(context_i, Range(context_n))
    analyzer.bind(context_j, context_i + 1)
    analyzer.bind(context_i, Range(m), allow_override=True)
    assert analyzer.can_prove(context_i < m)
    assert analyzer.can_prove(m >= 1)
    assert not analyzer.can_prove(context_i < context_n)
    assert not analyzer.can_prove(context_n >= 1)
    assert not analyzer.can_prove_equal(context_j, context_i + 1)


def test_binding_anew_forgets_assumptions_about_quotients():
    analyzer = Analyzer()
    analyzer.bind(context_i, Range(100))
    with analyzer.constraint_scope(floordiv(context_i, 4) + context_j < context_n):
        assert analyzer.can_prove(floordiv(context_i, 4) + context_j < context_n)
        analyzer.bind(context_i, Range(50), allow_override=True)
        assert not analyzer.can_prove(floordiv(context_i, 4) + context_j < context_n)


def test_an_inner_loop_over_the_same_variable_hides_the_outer_one():
    analyzer = Analyzer()
    with analyzer.loop_scope(context_i, 0, context_n):
        with analyzer.loop_scope(context_i, 5, m):
            assert analyzer.can_prove(context_i >= 5)
            assert not analyzer.can_prove(context_i < context_n)
        assert analyzer.can_prove(context_i < context_n)


def test_what_a_condition_says_of_memory_does_not_last():
    counter = decl_buffer((1,), "int32", "counter")
    analyzer = Analyzer()
    with analyzer.constraint_scope(logical_and(counter[0] < 5, context_i < 5)):
        assert not analyzer.can_prove(counter[0] < 5)
        assert analyzer.can_prove(context_i < 5)


GUARDED = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((2,), "int32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    for i in range(n):
        B[0] = 1
    if n > 0:
        B[1] = A[n - 1]
"""


def test_simplify_leaves_loops():
    assert "if 1 <= n:" in simplify(parse(GUARDED)).script()


def test_factors_of_an_extent_are_positive_only_if_they_may_be_sizes():
    analyzer = Analyzer()
    analyzer.bind(context_j, Range(-4, 4))
    with analyzer.loop_scope(context_i, 0, context_n * m):
        assert analyzer.can_prove(context_n >= 1)
    with analyzer.loop_scope(context_i, 0, context_j * context_j):
        assert not analyzer.can_prove(context_j >= 1)


def test_a_proof_tries_few_facts_however_many_loops_there_are(monkeypatch):
    sizes, loops = [Var(f"n{k}") for k in range(200)], [Var(f"i{k}") for k in range(200)]
    analyzer = Analyzer()
    for var, size in zip(loops, sizes, strict=True):
        analyzer.bind(var, Range(size))
    tried = []
    plus = Linear.plus
    total = sum(loops[1:], loops[0])
    goal = analyzer.linear(sizes[0]).plus(analyzer.linear(total), -1)
    monkeypatch.setattr(Linear, "plus", lambda self, *args: tried.append(self) or plus(self, *args))
    assert not analyzer.linearizer.at_least_zero(goal)
    assert 0 < len(tried) < 10


# ----------- Minima, maxima and choices of quotients by variables, where the variables are positive

X, Y = Var("x"), Var("y")


def simplified(expr: PrimExpr) -> PrimExpr:
    analyzer = Analyzer()
    with analyzer.constraint_scope(X > 0), analyzer.constraint_scope(Y > 0):
        return analyzer.simplify(expr)


def number(value: int) -> PrimExpr:
    return const(value, "int32")


def over_next(value: int) -> PrimExpr:
    """Return a remainder by `x + 1`, which is a sum with a multiple of `x` when it is read."""
    return e.FloorMod(number(value), e.Add(X, number(1)))


@pytest.mark.parametrize(
    "expr",
    [
        e.Min(e.FloorDiv(over_next(6), X), e.FloorMod(Y, X)),
        e.Max(e.Min(number(11), e.FloorMod(number(37), X)), e.Div(over_next(27), X)),
        e.Min(e.Mul(e.Div(over_next(39), X), number(4)), e.Div(number(40), Y)),
        e.LE(e.Div(number(40), X) - 15, e.FloorDiv(over_next(4), X)),
    ],
    ids=str,
)
def test_a_quotient_whose_dividend_has_another_one_is_compared(expr: PrimExpr) -> None:
    simple = simplified(expr)
    assert values(simple) == values(expr)


def test_a_goal_is_still_proved_by_what_a_quotient_rounds() -> None:
    analyzer = Analyzer()
    with analyzer.constraint_scope(X > 0), analyzer.constraint_scope(Y > 0):
        assert analyzer.can_prove(e.FloorDiv(Y, X) * X <= Y)


def values(expr: PrimExpr) -> list[int]:
    compute = ExpressionCompiler(set()).stored(expr)
    return [int(compute({X: x, Y: y})) for x in range(1, 9) for y in (1, 2, 7, 30)]


def random_quotients(rng: random.Random, depth: int) -> PrimExpr:
    if depth == 0:
        value = number(rng.randint(1, 40))
        divisor = rng.choice([X, Y, e.Add(X, number(1))])
        kinds = [e.FloorDiv, e.FloorMod, e.Div, e.Mod]
        leaves = [rng.choice(kinds)(rng.choice([value, Y]), divisor), X, value]
        return rng.choices(leaves, [6, 1, 1])[0]

    def part() -> PrimExpr:
        return random_quotients(rng, depth - 1)

    kind = rng.randrange(6)
    if kind < 2:
        return rng.choice([e.Min, e.Max])(part(), part())
    if kind == 2:
        return rng.choice([e.Add, e.Sub])(part(), part())
    if kind == 3:
        return rng.choice([e.FloorMod, e.FloorDiv])(part(), rng.choice([X, number(3)]))
    if kind == 4:
        return e.Mul(part(), number(rng.randint(-3, 4)))
    condition = rng.choice([e.LT, e.LE, e.EQ])(part(), part())
    return rng.choice([e.Select, if_then_else])(condition, part(), part())


@pytest.mark.parametrize("seed", range(8))
def test_random_quotients_keep_their_values(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(15):
        expr = random_quotients(rng, rng.randint(1, 3))
        assert values(simplified(expr)) == values(expr), str(expr)


def test_halves_that_an_extremum_takes_or_another_half_joins():
    x, y, z = (Var(name) for name in "xyz")
    above, below = (z + 1) // 2, z // 2
    mean = (y + 1) // 2
    for expr in (
        min_(x, above) - above + below,
        min_(x - above, 4) + above + below,
        (above + mean + 1) // 2 + (above + mean) // 2 - above + below,
    ):
        simple = Analyzer().simplify(expr)
        for values in ({x: 3, y: 7, z: 5}, {x: -2, y: 4, z: 8}, {x: 9, y: -3, z: -7}):
            assert evaluate(simple, values) == evaluate(expr, values)
