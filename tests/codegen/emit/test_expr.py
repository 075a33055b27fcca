"""Float arithmetic, logic, selection, vectors."""

from __future__ import annotations

import numpy as np
import pytest
from kernels import elementwise

import codegen
import tensorir
from codegen.errors import CodegenError
from tensorir.nodes import ops
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Div, Let, Max, Min, Select, Shuffle, Var


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_float_operators_round_like_numpy(dtype: str, lanes: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(-10, 10, 64).astype(dtype) for _ in range(2))
    results = elementwise(
        lambda x, y: [x + y, x - y, x * y, Div(x, y), Min(x, y), Max(x, y)], [dtype, dtype], lanes
    )(a, b)
    expected = [a + b, a - b, a * b, a / b, np.minimum(a, b), np.maximum(a, b)]
    for got, want in zip(results, expected, strict=True):
        assert np.array_equal(got, want)


def test_special_values_behave() -> None:
    a = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, np.inf, np.nan], np.float32)
    b = np.array([1.0, np.inf, 1.0, 0.0, 0.0, 0.0, np.inf, np.nan], np.float32)
    equal, unequal, less, quotient, difference = elementwise(
        lambda x, y: [
            ops.compare(tensorir.nodes.expr.EQ, x, y),
            ops.compare(tensorir.nodes.expr.NE, x, y),
            ops.compare(tensorir.nodes.expr.LT, x, y),
            Div(x, y),
            x - y,
        ],
        ["float32", "float32"],
    )(a, b)
    with np.errstate(all="ignore"):
        assert np.array_equal(equal, a == b)
        assert np.array_equal(unequal, a != b)
        assert np.array_equal(less, a < b)
        assert np.array_equal(quotient, a / b, equal_nan=True)
        assert np.array_equal(difference, a - b, equal_nan=True)


def test_minimum_of_nan_is_the_second_operand() -> None:
    a = np.array([np.nan, 1.0], np.float32)
    b = np.array([2.0, np.nan], np.float32)
    low, high = elementwise(lambda x, y: [Min(x, y), Max(x, y)], ["float32", "float32"])(a, b)
    assert np.array_equal(low, b, equal_nan=True)
    assert np.array_equal(high, b, equal_nan=True)


def test_multiply_and_add_may_fuse_but_nothing_is_reassociated() -> None:
    a = np.float32(1 + 2**-12)
    x, y = np.full(8, a), np.full(8, -(a * a))  # a*a rounds; fused, its rounding error remains
    (got,) = elementwise(lambda x, y: x * x + y, ["float32", "float32"], 8)(x, y)
    assert set(got.tolist()) <= {0.0, float(np.float64(a) * np.float64(a) - np.float64(a * a))}
    big, small = np.full(8, 1e8, np.float32), np.full(8, 1.0, np.float32)
    (sums,) = elementwise(lambda x, y: (x + y) - x, ["float32", "float32"], 8)(big, small)
    assert sums.tolist() == [0.0] * 8


def test_select_and_logic() -> None:
    a = np.arange(-4, 4, dtype=np.int32)

    def make(x: tensorir.PrimExpr) -> list[tensorir.PrimExpr]:
        negative, even = (
            x < 0,
            ops.compare(tensorir.nodes.expr.EQ, x % ops.const(2, x.dtype), ops.const(0, x.dtype)),
        )
        return [
            Select(negative, ops.const(0, x.dtype) - x, x),
            ops.logical_and(negative, even),
            ops.logical_or(negative, even),
            ops.logical_not(negative),
        ]

    for lanes in (1, 8):
        size, both, either, positive = elementwise(make, ["int32"], lanes)(a)
        assert size.tolist() == np.abs(a).tolist()
        assert both.tolist() == ((a < 0) & (a % 2 == 0)).tolist()
        assert either.tolist() == ((a < 0) | (a % 2 == 0)).tolist()
        assert positive.tolist() == (a >= 0).tolist()


def test_let_is_evaluated_once_and_scoped() -> None:
    var = Var("t", "float32")
    (got,) = elementwise(lambda x: Let(var, x + x, var * var), ["float32"])(
        np.array([1, 2, 3], np.float32)
    )
    assert got.tolist() == [4.0, 16.0, 36.0]


def test_shuffle_picks_lanes() -> None:
    def make(x: tensorir.PrimExpr, y: tensorir.PrimExpr) -> tensorir.PrimExpr:
        return Shuffle([x, y], [ops.as_expr(k) for k in (3, 2, 1, 0, 4, 0, 7, 7)][:4])

    a, b = np.arange(4, dtype=np.float32), np.arange(10, 14, dtype=np.float32)
    (got,) = elementwise(make, ["float32", "float32"], 4)(a, b)
    assert got.tolist() == [3.0, 2.0, 1.0, 0.0]


def test_condition_with_a_guarded_load_short_circuits() -> None:
    f = tensorir.parse(
        """
@T.prim_func
def f(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = 0
        if i < 4 and A[i] > 0:
            B[i] = 1
"""
    )
    b = np.zeros(8, np.int32)
    codegen.build(f, guard_pages=True)["f"](np.array([1, 0, 2, -1], np.int32), b)
    assert b.tolist() == [1, 0, 1, 0, 0, 0, 0, 0]


def test_eight_bit_floats_are_refused() -> None:
    buffer = tensorir.decl_buffer((4,), "e4m3_float8", "A")
    zero = ops.as_expr(0)
    store = tensorir.nodes.stmt.BufferStore(
        buffer, tensorir.nodes.expr.FloatImm(DataType("e4m3_float8"), 1.0), (zero,)
    )
    with pytest.raises(CodegenError, match="e4m3_float8 has no arithmetic"):
        codegen.build(tensorir.PrimFunc([buffer], store))
