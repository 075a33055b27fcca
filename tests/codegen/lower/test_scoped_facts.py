"""What is known inside a loop or branch is not used outside of it."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret


def program(text: str) -> PrimFunc:
    func = parse(text)
    assert isinstance(func, PrimFunc)
    return func


READ_OF_THE_LAST = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (2,), "int32")
    for i in range(n):
        B[0] = 1
    if n > 0:
        B[1] = A[n - 1]
"""

STORE_FOR_NONE = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (2,), "int32")
    for i in range(n):
        B[0] = A[i]
    if n < 1:
        B[1] = 7
"""

CHANGED_CONDITION = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (2,), "int32")
    if B[0] > 3:
        B[0] = 0
        if B[0] > 3:
            B[1] = 7
"""

OVERWRITTEN_EXTENT = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (2,), "int32")
    for i in range(B[0]):
        B[0] = 0
        if i < B[0]:
            B[1] = 7
"""

OVERWRITTEN_START = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (2,), "int32")
    for i in T.serial(B[0] - 5, B[0] - 4):
        B[0] = 0
        B[i + 1] = 7
"""

STRIDE_IN_A_BRANCH = """
@T.prim_func
def main(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "int32")
    B = T.match_buffer(b, (2,), "int32")
    with T.block("root"):
        C = T.alloc_buffer((2, n), "int32")
        for i, j in T.grid(2, n):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = 10 * vi + vj
        if n == 1:
            B[0] = C[1, 0]
        if n > 0:
            B[1] = C[1, n - 1]
"""


@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize(
    "text",
    [
        READ_OF_THE_LAST,
        STORE_FOR_NONE,
        CHANGED_CONDITION,
        OVERWRITTEN_EXTENT,
        OVERWRITTEN_START,
        STRIDE_IN_A_BRANCH,
    ],
)
def test_compiled_is_as_interpreted(text: str, n: int) -> None:
    func = program(text)
    a = np.arange(5, 5 + n, dtype="int32")
    found, expected = np.full(2, 5, "int32"), np.full(2, 5, "int32")
    interpret(func, a, expected)
    codegen.build(func, "llvm")["main"](a, found)
    np.testing.assert_array_equal(found, expected)


def test_an_extent_that_is_the_variable_of_the_loop_around() -> None:
    func = program(
        """
@T.prim_func
def main(B: T.Buffer((2,), "int32"), C: T.Buffer((2,), "int32")):
    for i in range(2):
        B[i] = 1
        for k in range(i):
            C[i] = k + 5
"""
    )
    b, c = np.zeros(2, "int32"), np.zeros(2, "int32")
    codegen.build(func, "llvm")["main"](b, c)
    np.testing.assert_array_equal(b, [1, 1])
    np.testing.assert_array_equal(c, [0, 5])


def test_a_guard_that_a_loop_would_imply_stays_behind_the_loop() -> None:
    text = codegen.lower(program(READ_OF_THE_LAST), "llvm").script()
    assert "if 1 <= n:" in text


def test_a_condition_that_may_divide_by_zero_stays_in_its_loop() -> None:
    func = program(
        """
@T.prim_func
def main(B: T.Buffer((4,), "int32"), n: T.int32):
    for i in range(4):
        if i < n and 8 // n == 2:
            B[i] = 1
"""
    )
    text = codegen.lower(func, "llvm").script()
    assert text.index("for i in") < text.index("8 // n")
