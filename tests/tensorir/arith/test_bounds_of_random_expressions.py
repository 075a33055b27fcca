"""Bounds and sets hold every value of whatever is built at random: casts, choices, vectors, words."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from test_simplification_of_random_expressions import (
    DOMAINS,
    INDICES,
    WORDS,
    analyzer,
    numbers,
    outcome,
    points,
    stride,
    vectors,
)

from tensorir import Var
from tensorir.arith import Analyzer, IntervalSet
from tensorir.interp.memory import InterpreterError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.ops import if_then_else, truncmod


def through_floats(dtype):
    """Return a strategy of integers that are cast to floating point numbers and back."""
    return st.builds(
        lambda value, float_type: e.Cast(DataType(dtype), e.Cast(float_type, value)),
        numbers("int32", 2),
        st.sampled_from([DataType(name) for name in ("float16", "bfloat16", "float32")]),
    )


def remainders():
    """Return a strategy of remainders by what may be 0 or negative."""
    return st.builds(
        lambda kind, a, b: kind(a, b),
        st.sampled_from([e.FloorMod, e.Mod, e.FloorDiv, e.Div]),
        numbers("int32", 1),
        numbers("int32", 2).filter(lambda b: not isinstance(b, e.IntImm)),
    )


def computed(expr):
    """Yield the values of an expression at some hundreds of points, with the points."""
    compute = outcome(expr)
    for env in itertools.islice(points(expr), 0, None, stride(expr)):
        try:
            value = compute(dict(env))
        except InterpreterError:
            continue  # A division by 0.
        yield env, value if isinstance(value, tuple) else (value,)


@settings(max_examples=120)
@given(
    st.one_of(
        numbers("int32", 2),
        numbers("int8", 2),
        numbers("uint8", 2),
        vectors(1),
        remainders(),
        through_floats("int32"),
        through_floats("int8"),
    )
)
def test_bounds_hold_every_value(expr):
    bound = analyzer().const_int_bound(expr)
    for env, values in computed(expr):
        for value in values:
            assert bound.min_value <= value <= bound.max_value, f"{expr} at {env}"


@settings(max_examples=120)
@given(st.one_of(numbers("int32", 2), remainders(), through_floats("int32")))
def test_sets_hold_every_value(expr):
    sets = {var: IntervalSet(DOMAINS[var.name].start, DOMAINS[var.name][-1]) for var in INDICES}
    found = Analyzer(values=WORDS).int_set(expr, sets)
    low, high = (
        None if end is None else outcome(end) for end in (found.min_value, found.max_value)
    )
    for env, (value,) in computed(expr):
        assert low is None or low(dict(env)) <= value, f"{expr} at {env}: {found}"
        assert high is None or value <= high(dict(env)), f"{expr} at {env}: {found}"


def test_a_remainder_is_at_most_the_dividend_whatever_divides_it():
    x, y = Var("x"), Var("y")
    known = Analyzer()
    with known.constraint_scope(e.And(x >= 0, x < 7)):
        assert known.const_int_bound(x % y).max_value == 6
        assert known.const_int_bound(truncmod(x, y)).min_value == 0
        assert known.const_int_bound(if_then_else(y > 0, x % y, 0)).min_value == 0
