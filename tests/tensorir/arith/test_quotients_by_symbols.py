"""Minima, maxima and choices of quotients by variables, where the variables are positive."""

from __future__ import annotations

import random

import pytest

from tensorir import Var
from tensorir.arith import Analyzer
from tensorir.interp.expressions import ExpressionCompiler
from tensorir.nodes import expr as e
from tensorir.nodes.expr import PrimExpr
from tensorir.nodes.ops import const, if_then_else

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
