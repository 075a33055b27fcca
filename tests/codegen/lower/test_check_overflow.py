"""Index arithmetic does not overflow: it is widened, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower import LoweringError, lower
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret


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
