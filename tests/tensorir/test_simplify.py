"""Canonical index arithmetic in whole programs, and in expressions over tensors."""

import pytest

from tensorir import T, Var, assert_structural_equal, parse, simplify, te

A = te.placeholder((8, 8), name="A")


def test_reductions_are_simplified_within_their_axes():
    k, i = te.reduce_axis((0, 8), "k"), te.var("i")
    total = simplify(te.sum(A[k + i - i, k % 8], axis=k, where=k < 100))
    assert [str(part) for part in total.source] == ["A[k, k]"]
    assert int(total.condition) == 1
    assert total.axis == (k,)


def test_reductions_of_tuples_stay_together():
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda a, b: (te.const(0, a), te.min_value(b)),
    )
    k = te.reduce_axis((0, 8), "k")
    for part in map(simplify, both((k * 1 + 0, A[k, 0 * k]), axis=k)):
        assert [str(value) for value in part.source] == ["k", "A[k, 0]"]


@pytest.mark.parametrize(
    ("expr", "simplified"),
    [
        (te.min_value("int32"), "-2147483648"),
        (te.max_value("int64") - te.const(1, "int64"), "T.int64(9223372036854775806)"),
        (te.max_value("uint64"), "T.uint64(18446744073709551615)"),
        (te.min_value("int8") + te.const(-1, "int8"), "T.int8(127)"),
        (te.max_value("bool"), "T.bool(True)"),
        (te.max_value("e4m3_float8"), "T.e4m3_float8(448.0)"),
    ],
)
def test_extreme_values(expr, simplified):
    assert str(simplify(expr)) == simplified


def test_sums_with_extreme_values_keep_their_parts():
    i = Var("i", "int32")
    for extreme in (T.min_value("int32"), T.max_value("int32")):
        assert_structural_equal(simplify(simplify(i - extreme)), simplify(i - extreme))
        assert "i" in str(simplify(i - extreme))


def test_how_an_index_is_written_does_not_count():
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i, j in T.grid(8, 8):
        with T.block("B"):
            v = T.axis.spatial(64, {})
            B[v] = A[{}]
"""
    one = simplify(parse(text.format("i * 8 + j", "v")))
    other = simplify(parse(text.format("j + i * 4 * 2", "v // 8 * 8 + v % 8")))
    assert_structural_equal(one, other)
