"""Bounds, residue classes and intervals: every value is inside, and they are tight."""

from __future__ import annotations

import functools
import itertools
import operator

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from strategies import DOMAINS, INDEX_EXPRESSIONS, X, Y, Z, evaluate, points

from tensorir import Range, T, Var
from tensorir.arith import Analyzer, IntervalSet, ModularSet, eval_set
from tensorir.arith import const_interval as interval
from tensorir.arith.const_interval import exact_interval
from tensorir.arith.modular import residue
from tensorir.errors import IRValueError
from tensorir.nodes import expr as e
from tensorir.nodes.buffer import decl_buffer
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import integer_limits
from tensorir.nodes.ops import (
    as_expr,
    bitwise_not,
    cast,
    const,
    floordiv,
    floormod,
    if_then_else,
    intrinsic,
    max_,
    min_,
    select,
    truncdiv,
    truncmod,
)
from tensorir.rewriting.visit import substitute
from tensorir.semantics import EXACT

# Bounds and residue classes: every value is inside, whatever wraps, and they are as tight as said

i, j, n = Var("i"), Var("j"), Var("n")

# ------------------------------------------------------------------------------- intervals, classes

_ENDS = range(-5, 7)
INTERVALS = [(a, b) for a in _ENDS for b in _ENDS if a <= b]
LAWS = {
    interval.product: EXACT[e.Mul],
    interval.floor_quotient: EXACT[e.FloorDiv],
    interval.floor_remainder: EXACT[e.FloorMod],
    interval.trunc_quotient: EXACT[e.Div],
    interval.trunc_remainder: EXACT[e.Mod],
    interval.common_bits: operator.and_,
    interval.either_bits: operator.or_,
    interval.different_bits: operator.xor,
    interval.shifted_left: EXACT["shift_left"],
    interval.shifted_right: EXACT["shift_right"],
}
DIVISIONS = (EXACT[e.FloorDiv], EXACT[e.FloorMod], EXACT[e.Div], EXACT[e.Mod])


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws_of_intervals(law):
    """Of all intervals between -5 and 6: the result holds each value, and an end is reached."""
    exact = LAWS[law]
    table = {
        (x, y): exact(x, y) for x in _ENDS for y in _ENDS if not (exact in DIVISIONS and y == 0)
    }
    tried = reached = 0
    for a, b in itertools.product(INTERVALS, repeat=2):
        found = law(a, b)
        values = [
            table[x, y]
            for x in range(a[0], a[1] + 1)
            for y in range(b[0], b[1] + 1)
            if (x, y) in table
        ]
        if found is None:
            assert not values or b[0] < 0
            continue
        assert found[0] <= min(values)
        assert max(values) <= found[1]
        tried += 1
        reached += found[0] == min(values) or found[1] == max(values)
    assert reached > tried // 2


CLASSES = [residue(m, b) for m in range(7) for b in range(max(m, 1))] + [residue(0, -4)]


def members(found: ModularSet) -> list[int]:
    return [x for x in range(-24, 25) if _is_in(x, found)]


def _is_in(value: int, found: ModularSet) -> bool:
    return (value - found.base) % found.coeff == 0 if found.coeff else value == found.base


@pytest.mark.parametrize("divisor", [1, 2, 3, 4, 6])
def test_laws_of_classes_and_numbers(divisor):
    for a in CLASSES:
        for x in members(a):
            assert _is_in(x // divisor, a.over(divisor))
            assert _is_in(x % divisor, a.remainder(divisor))
            assert _is_in(x + 5 * divisor, a.modulo(divisor))


# ---------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (T.bitwise_and(i, 7), 0, 7),
        (T.bitwise_and(i - 20, -8), -32, 19),
        (T.bitwise_or(i, 64), 0, 127),
        (T.shift_right(i, j), 0, 39),
        (T.shift_left(i % 4, j), 0, 48),
        (e.Select(n < 3, i, j + 50), 0, 54),
        (if_then_else(n < 3, i, j), 0, 39),
        (truncmod(i - 20, 8), -7, 7),
        (truncdiv(i - 20, j + 2), -10, 9),
        (i // (j + 2), 0, 19),
        (i // j, 0, 39),
        (n % (j + 2), 0, 5),
        (truncmod(n, j + 2), -5, 5),
        (min_(T.bitwise_and(n, 15), i), 0, 15),
        (cast("int8", i) * cast("int8", j), -128, 127),
        (cast("int32", cast("uint8", n)), 0, 255),
        (cast("int32", n < 3) * 5, 0, 5),
        (n, -(1 << 31), (1 << 31) - 1),
        (T.Let(n * n + i, where={n: j}), 0, 55),
        (i % n, -(1 << 31), 39),
        (i % (j - 2), -1, 1),
        (i % (i * 1000), 0, 39),
        (i * -1 % (i * -1000), -39, 0),
        (i % T.bitwise_and(n, 63), 0, 39),
        (e.Ramp(i, const(2), 4) + e.Broadcast(j, 4), 0, 49),
        (e.Ramp(i, const(-2), 4) % e.Broadcast(const(8), 4), 0, 7),
        (e.Ramp(i, j, 4), 0, 51),
        (cast("int32", cast("float32", i)), 0, 39),
        (cast("int32", cast("float16", i * 1000)), 0, 39008),
        (cast("int8", cast("float32", i * 10)), 0, 127),
        (cast("int32", cast("float32", truncmod(cast("int8", n), const(3, "int8")))), -2, 2),
        (cast("uint32", truncmod(cast("int8", n), const(3, "int8"))), 0, (1 << 32) - 1),
        ((i + j + 2) * 64 - (i + 1) * (j + 1), 127, 2680),
    ],
)
def test_bounds(expr, low, high):
    analyzer = Analyzer()
    analyzer.bind(i, Range(40))
    analyzer.bind(j, Range(5))
    bound = analyzer.const_int_bound(expr)
    assert (bound.min_value, bound.max_value) == (low, high)


def same(a, b):
    return e.EQ(a, as_expr(b))


@pytest.mark.parametrize(
    ("condition", "expr", "coeff", "base"),
    [
        (same(i % 8, 3), i, 8, 3),
        (same(i % 8, 3), i % 4, 0, 3),
        (same(i % 8, 3), i * 3 + 2, 24, 11),
        (same(truncmod(i, 8), 3), i, 8, 3),
        (same(truncmod(i + 1, 8), 3), i, 8, 2),
        (same(i, j * 8 + 3), i, 8, 3),
        (same(j * 8 + 3, i), i, 8, 3),
        (same(i * 2 % 8, 6), i, 4, 3),
        (e.And(same(i % 4, 3), same(i % 6, 5)), i, 12, 11),
        (same(i % 8, 3), truncmod(i * 2, 6), 2, 0),
        (same(i % 8, 3), min_(i, j * 4 + 3), 4, 3),
        (same(i % 8, 3), e.Select(j < 2, i, j * 6 + 1), 2, 1),
        (same(i % 8, 3), cast("int8", i), 8, 3),
        (same(i % 8, 3), i * (j * 8 + 1), 8, 3),
        (same(i % 8, 3), (i + 5) // 4, 2, 0),
        (same(i % 8, 3), T.shift_left(i, 2), 32, 12),
        (i < 8, T.bitwise_and(i, -4), 4, 0),
        (i < 8, cast("uint8", i) * const(6, "uint8"), 2, 0),
    ],
)
def test_residue_classes(condition, expr, coeff, base):
    analyzer = Analyzer()
    with analyzer.constraint_scope(condition):
        assert analyzer.modular_set(expr) == ModularSet(coeff, base)
    assert analyzer.modular_set(i) == ModularSet(1, 0), "outside nothing is known"


def test_a_bound_anew_variable_forgets_its_class():
    analyzer = Analyzer()
    analyzer.bind(i, Range(40))
    with analyzer.constraint_scope(same(i % 8, 3)):
        analyzer.bind(i, Range(20), allow_override=True)
        assert analyzer.modular_set(i) == ModularSet(1, 0)


def test_what_was_loaded_may_be_another_value_later():
    memory = decl_buffer((4,), "int32")
    analyzer = Analyzer()
    with analyzer.constraint_scope(same(memory[0] % 8, 3)):
        assert analyzer.modular_set(memory[0]) == ModularSet(1, 0)


TYPES = [DataType(t) for t in ("int32", "int64", "int8", "uint8")]


_BINARY = [
    *(operator.add, operator.sub, operator.mul, min_, max_),
    *(floordiv, floormod, truncdiv, truncmod),
    *[
        functools.partial(intrinsic, name)
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right")
    ],
]


def _combined(op, a, b):
    """Return `a op b`; `a` where it is refused, as a division by the constant 0 is."""
    try:
        return op(a, b)
    except IRValueError:
        return a


def _let(value, body, var):
    """Return `body` with a new variable for `var` that stands for `value`."""
    new = Var("let", value.dtype)
    return e.Let(new, value, substitute(body, {var: new}))


def _expressions(dtype, variables):
    def grow(parts):
        return st.one_of(
            st.builds(_combined, st.sampled_from(_BINARY), parts, parts),
            st.builds(bitwise_not, parts),
            st.builds(lambda t, a: cast(dtype, cast(t, a)), st.sampled_from(TYPES), parts),
            st.builds(
                lambda choose, a, b, x, y: choose(a < b, x, y),
                st.sampled_from([select, if_then_else]),
                *[parts] * 4,
            ),
            st.builds(_let, parts, parts, st.sampled_from(variables)),
        )

    low = max(integer_limits(dtype)[0], -20)
    numbers = st.integers(low, 20).map(lambda v: const(v, dtype))
    return st.recursive(st.one_of(st.sampled_from(variables), numbers), grow, max_leaves=6)


VARIABLES = {t: (Var("a", t), Var("b", t)) for t in TYPES}


@st.composite
def typed_expressions(draw):
    """Draw an expression of some type, and small ranges of its variables, often next to a limit."""
    dtype = draw(st.sampled_from(TYPES))
    variables = VARIABLES[dtype]
    least, most = integer_limits(dtype)
    starts = [s for s in (-3, 0, 0, 5, 100, 120, 250, -128) if least <= s <= most - 6]
    spans = {}
    for v in variables:
        low = draw(st.sampled_from(starts))
        spans[v] = range(low, low + draw(st.integers(1, 6)))
    return draw(_expressions(dtype, variables)), spans


def _values(expr, spans):
    for env in points(spans):
        try:
            yield int(evaluate(expr, env)), env
        except IRValueError:
            continue  # A division by 0.


def _known(analyzer, expr):
    try:
        return analyzer.const_int_bound(expr), analyzer.modular_set(expr)
    except IRValueError:
        reject()  # A divisor that is known to be 0.


@given(typed_expressions(), st.integers(1, 6), st.integers(0, 5))
def test_bounds_and_classes_hold_every_value(case, modulus, rest):
    expr, spans = case
    analyzer = Analyzer()
    for var, span in spans.items():
        low, extent = const(span.start, var.dtype), const(len(span), var.dtype)
        analyzer.bind(var, Range.from_min_extent(low, extent))
    bound, found = _known(analyzer, expr)
    exact = interval.exact_interval(expr, {v: (s[0], s[-1]) for v, s in spans.items()})
    for value, _ in _values(expr, spans):
        assert bound.min_value <= value <= bound.max_value
        assert _is_in(value, found)
        assert exact is None or exact[0] <= value <= exact[1]
    var = next(iter(spans))
    condition = same(floormod(var, const(modulus, var.dtype)), const(rest % modulus, var.dtype))
    with analyzer.constraint_scope(condition):
        bound, found = _known(analyzer, expr)
    for value, env in _values(expr, spans):
        if evaluate(condition, env):
            assert bound.min_value <= value <= bound.max_value
            assert _is_in(value, found)


# --------------- Interval arithmetic on expressions: every value that an expression takes is inside


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
