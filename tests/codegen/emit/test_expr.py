"""Arithmetic that `test_semantics_sweep` leaves out: contraction, lets, lanes, constant divisors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernels import elementwise

import codegen
import tensorir
from codegen.errors import CodegenError
from tensorir.nodes import ops
from tensorir.nodes.dtype import DataType
from tensorir.nodes.expr import Let, Var


def test_multiply_and_add_may_fuse_but_nothing_is_reassociated() -> None:
    a = np.float32(1 + 2**-12)
    x, y = np.full(8, a), np.full(8, -(a * a))  # a*a rounds; fused, its rounding error remains
    (got,) = elementwise(lambda x, y: x * x + y, ["float32", "float32"], 8)(x, y)
    assert set(got.tolist()) <= {0.0, float(np.float64(a) * np.float64(a) - np.float64(a * a))}
    big, small = np.full(8, 1e8, np.float32), np.full(8, 1.0, np.float32)
    (sums,) = elementwise(lambda x, y: (x + y) - x, ["float32", "float32"], 8)(big, small)
    assert sums.tolist() == [0.0] * 8


def test_let_is_evaluated_once_and_scoped() -> None:
    var = Var("t", "float32")
    (got,) = elementwise(lambda x: Let(var, x + x, var * var), ["float32"])(
        np.array([1, 2, 3], np.float32)
    )
    assert got.tolist() == [4.0, 16.0, 36.0]


def test_eight_bit_floats_are_refused() -> None:
    buffer = tensorir.decl_buffer((4,), "e4m3_float8", "A")
    zero = ops.as_expr(0)
    store = tensorir.nodes.stmt.BufferStore(
        buffer, tensorir.nodes.expr.FloatImm(DataType("e4m3_float8"), 1.0), (zero,)
    )
    with pytest.raises(CodegenError, match="e4m3_float8 has no arithmetic"):
        codegen.build(tensorir.PrimFunc([buffer], store))


def wrapped(value: int, dtype: str) -> int:
    bits = np.dtype(dtype).itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint16"])
def test_division_by_constants(dtype: str, lanes: int) -> None:
    divisors = [1, 2, 3, 7, 8, 100, *([-1, -2, -3] if dtype[0] == "i" else [])]

    def make(a: Any) -> list[Any]:
        constants = [ops.const(d, a.dtype) for d in divisors]
        pairs = [(ops.floordiv(a, c), ops.floormod(a, c)) for c in constants]
        return [expr for pair in pairs for expr in pair]

    limits = np.iinfo(dtype)
    # Simplification takes it that `a // -2 == -a // 2`, so the lowest value, which has no negative,
    # is left out.
    edges = [limits.min + 1, limits.min + 2, limits.max, limits.max - 1]
    a = np.array([0, 1, 2, 3, 5, 6, 7, 8, 9, 99, 100, 101, *edges])
    results = elementwise(make, [dtype], lanes)(a.astype(dtype))
    for k, d in enumerate(divisors):
        assert results[2 * k].tolist() == [wrapped(int(x) // d, dtype) for x in a]
        assert results[2 * k + 1].tolist() == [wrapped(int(x) % d, dtype) for x in a]
