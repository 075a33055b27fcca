"""Random expressions: simplification keeps their values, bounds hold them."""

from __future__ import annotations

import itertools
from functools import cache
from math import prod

from hypothesis import given, settings
from hypothesis import strategies as st

from tensorir import Range, Var
from tensorir.arith import Analyzer, IntervalSet
from tensorir.interp.expressions import ExpressionCompiler
from tensorir.interp.memory import InterpreterError
from tensorir.nodes import expr as e
from tensorir.nodes.dtype import DataType
from tensorir.nodes.index_arithmetic import is_index_arithmetic
from tensorir.nodes.ops import bitwise_and, const, if_then_else, shift_left, shift_right
from tensorir.rewriting.visit import walk

# -------- Simplification keeps the value of whatever is built at random, and has nothing left to do

LANES = 4
INDICES = [Var("x"), Var("y"), Var("z")]
"""Variables of loops."""
WORDS = [Var("s"), Var("t")]
"""Values of 32 bits, such as scalar parameters."""
BYTES = {kind: [Var("a", kind), Var("b", kind)] for kind in ("int8", "uint8")}
BOOLS = [Var("p", "bool"), Var("q", "bool")]
VECTORS = [Var("v", f"int32x{LANES}")]

DOMAINS = {
    "x": range(-3, 9), "y": range(8), "z": range(5),
    "s": (-(1 << 31), -7, -1, 0, 1, 2, 6, (1 << 31) - 1), "t": (-(1 << 31), -2, 0, 3),
    "a": (-128, -127, -65, -3, -1, 0, 1, 2, 15, 64, 127, 128, 200, 255), "b": (-128, -1, 0, 1, 5, 127, 128, 255),
    "p": (False, True), "q": (False, True),
    "v": ((0, 1, 2, 3), (-5, 7, 4, 4)),
}  # fmt: skip


def of(dtype, values):
    """Return those of `values` that a dtype holds."""
    kind = DataType(dtype)
    if kind.lanes > 1 or kind.is_bool:
        return list(values)
    low, high = e.integer_limits(kind)
    return [v for v in values if low <= v <= high]


def points(expr, domains=DOMAINS):
    """Yield values for the variables in `expr`, those of `domains` that their dtypes hold."""
    found = list(dict.fromkeys(part for part in walk(expr) if isinstance(part, Var)))
    each = [of(var.dtype, domains[var.name]) for var in found]
    for values in itertools.product(*each):
        yield dict(zip(found, values, strict=True))


def stride(expr):
    """Return how many points to go on by so that some hundreds are checked."""
    found = {part for part in walk(expr) if isinstance(part, Var)}
    return 1 + 2 * (prod(len(of(var.dtype, DOMAINS[var.name])) for var in found) // 400)


def analyzer():
    """Return an analyzer that knows the ranges of indices, and which variables are values."""
    result = Analyzer(values=WORDS)
    for var in INDICES:
        domain = DOMAINS[var.name]
        result.bind(var, Range(domain.start, domain.stop))
    return result


def outcome(expr):
    """Return a function that computes `expr`, as the interpreter stores it."""
    return ExpressionCompiler(set(WORDS)).stored(expr)


def keeps_its_value(expr):
    """Compare `expr` with its simplest form wherever it has a value."""
    simple = analyzer().simplify(expr)
    before, after = outcome(expr), outcome(simple)
    for env in itertools.islice(points(expr), 0, None, stride(expr)):
        assert before(dict(env)) == after(dict(env)), f"{expr} -> {simple} at {env}"
    if is_index_arithmetic(expr, WORDS) is is_index_arithmetic(simple, WORDS):
        # A value that turns out to be an index obeys more laws from then on.
        again = analyzer().simplify(simple)
        # Factors come in the order in which a product is first met, which may be another now.
        assert sorted(str(again)) == sorted(str(simple)), f"{expr} -> {simple} -> {again}"


# -------------------------------------------------------------------------------------- generating

_ARITHMETIC = (e.Add, e.Sub, e.Mul, e.Min, e.Max)
_DIVISIONS = (e.FloorDiv, e.FloorMod, e.Div, e.Mod)
_COMPARISONS = (e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE)


@cache
def numbers(dtype, depth):
    """Return a strategy of integers of a dtype, without vectors."""
    kind = DataType(dtype)
    low, high = e.integer_limits(kind)
    small = [c for c in (-16, -4, -3, -1, 0, 1, 2, 3, 4, 6, 8, 12, 127, 250) if low <= c <= high]
    variables = {"int32": [*INDICES, *INDICES, *WORDS]}.get(dtype) or BYTES[dtype]
    leaf = st.one_of(st.sampled_from(variables), st.sampled_from([const(c, dtype) for c in small]))
    if depth == 0:
        return leaf
    inner = numbers(dtype, depth - 1)
    divisor = st.sampled_from([const(c, dtype) for c in small if c])
    amount = st.sampled_from([const(c, dtype) for c in (0, 1, 3)])
    mask = st.sampled_from([const(c, dtype) for c in (0, 1, 7, 12)])
    other = {"int32": "uint8", "uint8": "int32", "int8": "int32"}[dtype]
    return st.one_of(
        leaf,
        *[st.builds(op, inner, inner) for op in _ARITHMETIC * 2],
        *[st.builds(op, inner, divisor) for op in _DIVISIONS],
        st.builds(e.Select, conditions(depth - 1), inner, inner),
        st.builds(e.Select, conditions(depth - 1), inner, inner),
        st.builds(if_then_else, conditions(depth - 1), inner, inner),
        st.builds(shift_left, inner, amount),
        st.builds(shift_right, inner, amount),
        st.builds(bitwise_and, inner, mask),
        st.builds(lambda a: e.Cast(kind, a), numbers(other, depth - 1)),
        st.builds(lambda a: e.Cast(kind, a), conditions(depth - 1)),
    )


@cache
def conditions(depth):
    """Return a strategy of scalar conditions."""
    leaf = st.sampled_from(BOOLS)
    if depth == 0:
        return leaf
    inner = conditions(depth - 1)
    compared = [
        st.builds(op, numbers(dtype, depth - 1), numbers(dtype, depth - 1))
        for op in _COMPARISONS
        for dtype in ("int32", "int32", "uint8", "int8")
    ]
    return st.one_of(
        leaf,
        *compared,
        *[st.builds(op, inner, inner) for op in (e.And, e.Or) * 4],
        *[st.builds(op, inner, inner) for op in (e.EQ, e.NE)],
        st.builds(e.Not, inner),
        st.builds(e.Select, inner, inner, inner),
    )


@cache
def vectors(depth):
    """Return a strategy of vectors of int32."""
    small = st.sampled_from([const(c) for c in (-4, -1, 0, 1, 2, 3, 4, 8)])
    scalar = numbers("int32", 1)
    leaf = st.one_of(
        st.builds(lambda b, s: e.Ramp(b, s, LANES), scalar, small),
        st.builds(lambda b: e.Broadcast(b, LANES), scalar),
        st.sampled_from(VECTORS),
    )
    if depth == 0:
        return leaf
    inner = vectors(depth - 1)
    divisor = small.filter(lambda c: c.value != 0).map(lambda c: e.Broadcast(c, LANES))
    return st.one_of(
        leaf,
        *[st.builds(op, inner, inner) for op in _ARITHMETIC],
        *[st.builds(op, inner, divisor) for op in _DIVISIONS],
        st.builds(e.Select, masks(depth - 1), inner, inner),
    )


@cache
def masks(depth):
    """Return a strategy of vectors of conditions."""
    inner = vectors(max(depth, 1) - 1)
    compared = st.one_of(*[st.builds(op, inner, inner) for op in _COMPARISONS])
    leaf = st.one_of(compared, st.sampled_from(BOOLS).map(lambda p: e.Broadcast(p, LANES)))
    if depth == 0:
        return leaf
    mask = masks(depth - 1)
    return st.one_of(
        leaf, st.builds(e.And, mask, mask), st.builds(e.Or, mask, mask), mask.map(e.Not)
    )


@settings(max_examples=60)
@given(numbers("int32", 3))
def test_words(expr):
    keeps_its_value(expr)


@settings(max_examples=60)
@given(numbers("uint8", 3))
def test_unsigned_bytes(expr):
    keeps_its_value(expr)


@settings(max_examples=60)
@given(numbers("int8", 3))
def test_signed_bytes(expr):
    keeps_its_value(expr)


@settings(max_examples=60)
@given(conditions(3))
def test_conditions(expr):
    keeps_its_value(expr)


@settings(max_examples=60)
@given(vectors(2))
def test_vectors(expr):
    keeps_its_value(expr)


@settings(max_examples=60)
@given(masks(1))
def test_masks(expr):
    keeps_its_value(expr)


# Bounds and sets hold every value of whatever is built at random: casts, choices, vectors, words


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
