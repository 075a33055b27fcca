"""Index arithmetic does not overflow: it is widened, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower import LoweringError, lower
from codegen.lower.check_overflow import READINGS
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes.index_arithmetic import INDEX_NODES


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


def after(text: str) -> str:
    return lower(program(text), "llvm", until="check_overflow").script()


LARGE_PRODUCT = """
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
    for i in range(64):
        A[i * 1000000000 // 1000000000] = i
"""


def test_an_intermediate_value_of_33_bits() -> None:
    text = after(LARGE_PRODUCT)
    assert 'T.Cast("int64", i) * T.int64(1000000000) // T.int64(1000000000)' in text
    a = np.zeros(64, "int32")
    codegen.build(program(LARGE_PRODUCT), "llvm")["main"](a)
    np.testing.assert_array_equal(a, np.arange(64))


PREDICATE = """
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
    for i in range(64):
        with T.block("A"):
            vi = T.axis.spatial(64, i)
            T.where(i * 100000000 < 2000000000)
            A[vi] = vi * 100000000 // 3
"""


@pytest.mark.parametrize("kind", ["range", "T.vectorized"])
def test_predicates_and_values(kind: str) -> None:
    func = program(PREDICATE.replace("range", kind))
    found, expected = np.zeros(64, "int32"), np.zeros(64, "int32")
    interpret(func, expected)
    codegen.build(func, "llvm")["main"](found)
    np.testing.assert_array_equal(found, expected)
    assert found[30] == 0
    assert found[19] == 1900000000 // 3


def test_what_fits_stays_as_it_is() -> None:
    func = program(
        """
@T.prim_func
def main(A: T.Buffer((64, 64), "int32"), n: T.int32):
    for i, j in T.grid(64, 64):
        A[i, j] = (i * 64 + j) * n * 1000000
"""
    )
    assert lower(func, "llvm", until="check_overflow").body is func.body


def test_symbolic_extents_stay_as_they_are() -> None:
    func = program(
        """
@T.prim_func
def main(a: T.handle):
    n, m = T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "int32")
    for i, j in T.grid(n, m):
        if i * m + j < n * m - 1:
            A[i, j] = 1
"""
    )
    assert lower(func, "llvm", until="check_overflow").body is func.body


def test_a_loop_whose_variable_overflows() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
    for i in range(5):
        for j in T.serial(i * 1000000000, i * 1000000000 + 1):
            A[j // 1000000000] = 1
"""
    with pytest.raises(LoweringError, match="loop j of int32 has values from 0 to 4000000000"):
        after(text)


def test_a_bound_variable_that_overflows() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
    for i in range(64):
        v: T.int32 = i * 1000000000
        A[v // 1000000000] = i
"""
    message = "variable v of int32 has values from 0 to 63000000000.* declare it as int64"
    with pytest.raises(LoweringError, match=message):
        after(text)


def test_64_bits_are_not_enough() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
    for i in T.serial(T.int64(64)):
        A[i * T.int64(1000000000000000000) // T.int64(1000000000000000000)] = 1
"""
    with pytest.raises(LoweringError, match=r"i \* .* to 63000000000000000000, which int64 cannot"):
        after(text)


def test_what_is_not_known_is_not_refused() -> None:
    func = program(
        """
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
    for i in T.serial(T.int64(8)):
        v = T.int64()
        A[T.Let(v + i, where={v: i}) + T.int64(3) * i] = 1
"""
    )
    assert lower(func, "llvm", until="check_overflow").body is func.body


def test_values_wrap() -> None:
    func = program(
        """
@T.prim_func
def main(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for i in range(64):
        B[i] = A[i] * 1000000000 // 1000000000
"""
    )
    assert lower(func, "llvm", until="check_overflow").body is func.body


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


def test_a_cast_to_fewer_bits() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((64,), "int32")):
    for i in range(T.int64(5)):
        A[T.cast(i * T.int64(1000000000), "int32") // 1000000000] = 1
"""
    with pytest.raises(LoweringError, match="values from 0 to 4000000000, which int32 cannot hold"):
        after(text)


def test_a_branch_may_exclude_what_does_not_fit() -> None:
    func = program(
        """
@T.prim_func
def main(A: T.Buffer((64,), "int64")):
    for i in range(T.int64(64)):
        A[i] = T.if_then_else(i < T.int64(9), i * T.int64(1000000000000000000), T.int64(0))
"""
    )
    assert lower(func, "llvm", until="check_overflow").body is func.body
