"""Index arithmetic is widened, value arithmetic wraps, facts end with their scopes."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower.check_overflow import READINGS
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes.index_arithmetic import INDEX_NODES

# ---------------------------- Index arithmetic does not overflow: it is widened, or refused by name


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def test_every_node_of_index_arithmetic_is_read() -> None:
    assert set(READINGS) == INDEX_NODES


CONVERTED = {
    "cast": 'T.cast((i + 1) * M, "int64")',
    "cast in a sum": 'T.cast((i + 1) * M, "int64") + T.int64(1)',
    "cast of a quotient": 'T.cast((i + 1) * M // 2, "int64") - T.int64(1)',
    "cast of a remainder": 'T.cast(T.truncmod((i - 3) * M, 1000003), "int64")',
    "cast of a smaller one": 'T.cast(T.min((i + 1) * M, 2147483647), "int64")',
    "cast of a cast": 'T.cast(T.cast((i + 1) * M // 7, "int64") // T.int64(2), "int64")',
    "cast to float": 'T.cast(T.cast((i + 1) * M, "float64"), "int64")',
    "cast to unsigned": 'T.cast(T.cast((i + 1) * M, "uint32"), "int64")',
    "cast to a byte": 'T.cast(T.cast((i + 1) * M // 3, "int8"), "int64")',
    "cast of a comparison": 'T.cast((i - 4) * M < 5, "int64")',
    "cast of conditions": 'T.cast(not ((i + 1) * M < 5 or (i - 5) * M > 0), "int64")',
    "Select": 'T.cast(T.Select(i > 1, (i + 1) * M, 5), "int64")',
    "if_then_else": 'T.cast(T.if_then_else(i > 1, (i + 1) * M, 5), "int64") + T.int64(1)',
    "a cast in a branch": 'T.if_then_else(i > 1, T.cast((i + 1) * M, "int64"), T.int64(5))',
    "likely": 'T.if_then_else(T.likely(T.cast((i + 1) * M, "int64") > T.int64(5)), T.int64(3), T.int64(5))',
    "Let": 'T.cast(T.Let(v * 10, where={v: (i + 1) * (M // 10)}), "int64")',
    "abs": 'T.cast(T.abs((i - 5) * M), "int64")',
}
CONVERTING = """
@T.prim_func
def main(sizes: T.handle, D: T.Buffer((5,), "int64")):
    M = T.int32()
    Sizes = T.match_buffer(sizes, (M, 0), "int8")
    for i in KIND(5):
        v = T.int32()
        D[i] = VALUE
"""


CASES = [
    pytest.param(value.replace("M", size), kind, id=f"{name}, {size}, {kind}")
    for name, value in CONVERTED.items()
    for kind in ("range", "T.vectorized")
    for size in ("1000000000", "M")
    # Lanes are compared in 32 bits, whatever the sizes of buffers.
    if (kind, size) != ("T.vectorized", "M") or ("likely" not in value and "<" not in value)
]


@pytest.mark.parametrize(("value", "kind"), CASES)
def test_what_is_converted_has_all_its_bits(value: str, kind: str) -> None:
    func = program(CONVERTING.replace("VALUE", value).replace("KIND", kind))
    found, expected = np.zeros(5, "int64"), np.zeros(5, "int64")
    sizes = np.empty((10**9, 0), "int8")
    interpret(func, sizes, expected)
    codegen.build(func, "llvm")["main"](sizes, found)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "value",
    ["(i + 1) * M // 3", "T.truncmod((i - 3) * M, 30003)", "T.min((i + 1) * M, 77)",
     "T.max((i - 4) * M, 77)", "T.Select((i + 1) * M < E[i + 1], 1, 2)"],
)  # fmt: skip
def test_sizes_for_which_32_bits_are_too_few(value: str) -> None:
    func = program(
        f"""
@T.prim_func
def main(sizes: T.handle, E: T.Buffer((6,), "int32"), D: T.Buffer((5,), "int32")):
    M = T.int32()
    Sizes = T.match_buffer(sizes, (M, 0), "int8")
    for i in range(5):
        D[i] = {value}
"""
    )
    found, expected = np.zeros(5, "int32"), np.zeros(5, "int32")
    given = np.empty((10**9, 0), "int8"), np.arange(6, dtype="int32")
    interpret(func, *given, expected)
    codegen.build(func, "llvm")["main"](*given, found)
    np.testing.assert_array_equal(found, expected)


# ----------------- Value arithmetic wraps in indices, masks and lanes as it does in the interpreter

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
