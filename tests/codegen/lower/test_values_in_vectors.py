"""Value arithmetic wraps in indices, masks and lanes as it does in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret

PROGRAM = """
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "{dtype}"), n: T.int32):
    T.func_attr({{"tir.noalias": True}})
{body}
"""


def compiled_is_as_interpreted(body: str, a: object, n: int = 0, dtype: str = "int32") -> None:
    indented = "\n".join("    " + line for line in body.strip("\n").splitlines())
    func = parse(PROGRAM.format(body=indented, dtype=dtype))
    assert isinstance(func, PrimFunc)
    given = np.resize(np.asarray(a, "int32"), 16)
    found, expected = np.zeros(16, dtype), np.zeros(16, dtype)
    interpret(func, given.copy(), expected, n)
    codegen.build(func, "llvm")["main"](given.copy(), found, n)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_an_index_that_wraps_into_bounds(kind: str) -> None:
    body = f"for i in T.{kind}(16):\n    B[A[i] * 4 + i] = i"
    compiled_is_as_interpreted(body, [0, 1 << 30])


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_a_parameter_in_an_index_wraps(kind: str) -> None:
    body = f"for i in T.{kind}(16):\n    B[i] = A[n * 8 + i]"
    compiled_is_as_interpreted(body, range(16), n=1 << 29)


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_a_narrow_index_wraps(kind: str) -> None:
    index = 'T.Cast("int32", T.Cast("uint8", A[i]) * T.uint8(64)) + i'
    compiled_is_as_interpreted(f"for i in T.{kind}(16):\n    B[{index}] = i", [0, 4, 8, 252])


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_a_sum_that_wraps_is_widened_lane_by_lane(kind: str) -> None:
    body = f'for i in T.{kind}(16):\n    B[i] = T.Cast("int64", A[0] + i)'
    compiled_is_as_interpreted(body, [(1 << 31) - 5], dtype="int64")


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
@pytest.mark.parametrize("condition", ["n + i < 10", "A[0] + i < 10"])
def test_a_mask_that_wraps(kind: str, condition: str) -> None:
    body = f"for i in T.{kind}(16):\n    if {condition}:\n        B[i] = 1 + i"
    compiled_is_as_interpreted(body, [(1 << 31) - 5], n=(1 << 31) - 5)
    compiled_is_as_interpreted(body, [-(1 << 31)], n=-(1 << 31))


def test_the_same_load_twice_is_read_twice() -> None:
    body = """
B[A[0]] = 1
A[0] = 3
B[A[0]] = 2
"""
    compiled_is_as_interpreted(body, [1])


def test_a_bound_value_wraps_where_it_is_used() -> None:
    body = """
for i in range(16):
    v = T.int32()
    with T.LetStmt(A[i] * 4, var=v):
        B[v + i] = v
"""
    compiled_is_as_interpreted(body, [0, 1 << 30])


@pytest.mark.parametrize("kind", ["serial", "vectorized"])
def test_wide_products_of_values(kind: str) -> None:
    body = f'for i in T.{kind}(16):\n    B[i] = T.Cast("int64", A[i] * A[i])'
    compiled_is_as_interpreted(body, [1 << 20, 3, -(1 << 17)], dtype="int64")


SIZES = """
@T.prim_func
def main(a: T.handle, B: T.Buffer((16,), "int32")):
    n, s = T.int32(), T.int32()
    A = T.match_buffer(a, (n,), "int8", strides=(s,))
    for i in T.{kind}(16):
        B[i] = {value}
"""


@pytest.mark.parametrize("kind", ["unroll", "vectorized"])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("T.Select((i + 1) * n < 5, 1, 0)", lambda i, n: 0),
        ("T.Select(5 - i >= (i + 1) * n, 1, 0)", lambda i, n: 0),
        ("T.Select(n * 4 + i < n * 4 + 8, 1, 0)", lambda i, n: i < 8),
        ("T.Select(n * 4 - i == n * 4 - 3, 1, 0)", lambda i, n: i == 3),
        ("T.Select(i < n * 4, 1, 0)", lambda i, n: 1),
        ("(i + 1) * n // n", lambda i, n: i + 1),
        ("(i + 1) * n % 7", lambda i, n: (i + 1) * n % 7),
        ("T.max(i * n, 2 * n) // n", lambda i, n: max(i, 2)),
        ("T.min((i + 1) * n, 5)", lambda i, n: 5),
        ("T.Select(i < 3, i * n, n * 5) // n", lambda i, n: i if i < 3 else 5),
        ("T.if_then_else(i % 3 == 0, i * n, 0) // n", lambda i, n: i if i % 3 == 0 else 0),
    ],
)
def test_sizes_that_are_large(kind, value, expected) -> None:
    n, b = 10**9, np.zeros(16, "int32")
    a = np.lib.stride_tricks.as_strided(np.zeros(1, "int8"), (n,), (0,))
    codegen.build(parse(SIZES.format(kind=kind, value=value)), "llvm -num-cores=1")["main"](a, b)
    assert b.tolist() == [expected(i, n) for i in range(16)]
