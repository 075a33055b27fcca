"""Lanes that hold the numbers of their elements, the candidates of an argmax."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.compile import llvm_source
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret

FOUR_VECTORS = """
@T.prim_func
def main(B: T.Buffer((32000,), "{dtype}"), n: T.int32):
    for i in range(1000):
        for k in T.unroll(4):
            for j in T.vectorized(8):
                B[i * 32 + k * 8 + j] = {value}
"""


def program(value: str, dtype: str = "int32") -> PrimFunc:
    func = parse(FOUR_VECTORS.format(value=value, dtype=dtype))
    assert isinstance(func, PrimFunc)
    return func


def test_vectors_of_one_iteration_share_the_broadcast() -> None:
    func = program("i * 32 + k * 8 + j")
    assembly = llvm_source(func, "llvm -mcpu=haswell").assembly()
    body = assembly[assembly.index("tensorir.kernel.main:") :]
    assert body.count("vpbroadcastd") == 1


@pytest.mark.parametrize(
    "value",
    ["i * 32 + k * 8 + j", "i - 7 + (k - 5) * 8 + j", "k * 8 + 3 - i + j * n", "n * 4 - 9 + j"],
)
def test_they_hold_what_the_interpreter_says(value: str) -> None:
    func = program(value)
    for n in (3, 2**30):
        expected, found = np.zeros(32000, "int32"), np.zeros(32000, "int32")
        interpret(func, expected, n)
        codegen.build(func)["main"](found, n)
        np.testing.assert_array_equal(found, expected)
