"""Structural equality and hashes, up to names."""

import pytest

from tensorir import get_first_structural_mismatch, parse, structural_equal, structural_hash

SHAPES = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, {first})
    B = T.match_buffer(b, {second})
    for i in range(n):
        B[i] = A[i]
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("(n * T.int64(8),)", "(n,)"),
        ("((n + T.int64(7)) // T.int64(8) * T.int64(8),)", "(n,)"),
        ("(T.int64(64),), strides=(n + T.int64(1),)", "(n,)"),
        ("(T.int64(64),), elem_offset=T.min(n, T.int64(3))", "(n,)"),
    ],
)
def test_layouts_bind_the_variables_inside_their_expressions(first, second):
    a, b = (parse(SHAPES.format(first=first, second=second)) for _ in range(2))
    assert get_first_structural_mismatch(a, b) is None
    assert structural_hash(a) == structural_hash(b)


def test_what_is_bound_in_a_shape_is_bound_once():
    text = """
@T.prim_func
def main(a: T.handle, b: T.handle, m: T.int64, n: T.int64):
    A = T.match_buffer(a, ({x} * T.int64(8),))
    B = T.match_buffer(b, (m * n,))
    B[m] = A[n]
"""
    one, other = parse(text.format(x="m")), parse(text.format(x="n"))
    assert not structural_equal(one, other)
    assert structural_hash(one) != structural_hash(other)


def test_free_variables_are_bound_by_layouts_only():
    func = parse(SHAPES.format(first="(n * T.int64(8),)", second="(n,)"))
    other = parse(func.script())
    assert not structural_equal(func.body, other.body)
    assert structural_equal(func.body, other.body, map_free_vars=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("T.evaluate(0)", "T.evaluate(1)"),
        ("T.evaluate(1)", "T.evaluate(2)"),
        ("for i in range(3):\n        T.evaluate(1)", "for i in range(3):\n        T.evaluate(0)"),
        ("A[0] = 1\n    T.evaluate(1)", "A[0] = 1"),
    ],
)
def test_constants_that_are_evaluated_count(first, second):
    text = "@T.prim_func\ndef main(A: T.Buffer((4,), 'int32')):\n    {}"
    a, b = (parse(text.format(body)) for body in (first, second))
    assert not structural_equal(a, b)
    assert structural_equal(a, parse(a.script()))
