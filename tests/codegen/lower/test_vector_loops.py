"""Loops that become vectors, and the values in them."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.compile import llvm_source
from codegen.lower import lower
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.interp import interpret
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import walk


def choices(depth: int) -> str:
    """Return choices by what is loaded, each in the condition of the next."""
    value = "A[i]"
    for k in range(depth):
        value = f"T.if_then_else({value} < {k - 3}, A[(i + {k}) % 16] + 1, A[15 - i])"
    return value


@pytest.mark.parametrize("depth", [3, 10, 20])
def test_choices_inside_one_another_share_their_masks(depth: int) -> None:
    func = parse(f"""
@T.prim_func
def main(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    T.func_attr({{"tir.noalias": True}})
    for i in T.vectorized(16):
        B[i] = {choices(depth)}
""")
    lowered = lower(func, "llvm -mcpu=skylake-avx512 -num-cores=1")
    assert not any(isinstance(node, s.For) for node in walk(lowered.body))
    assert sum(1 for _ in walk(lowered.body)) < 60 * depth * depth
    given = np.arange(16, dtype="int32")[::-1] - 4
    expected, found = np.zeros(16, "int32"), np.zeros(16, "int32")
    interpret(func, given.copy(), expected)
    codegen.build(func, "llvm -num-cores=1")["main"](given.copy(), found)
    np.testing.assert_array_equal(found, expected)


def test_accumulators_of_an_unvectorised_tile_are_vectors() -> None:
    func = parse(
        """
@T.prim_func
def main(A: T.Buffer((12, 20), "float32"), B: T.Buffer((20, 24), "float32"),
         C: T.Buffer((12, 24), "float32")):
    T.func_attr({"tir.noalias": True})
    for i, jo in T.grid(12, 3):
        for j in range(8):
            C[i, jo * 8 + j] = T.float32(0)
        for k, j in T.grid(20, 8):
            C[i, jo * 8 + j] = C[i, jo * 8 + j] + A[i, k] * B[k, jo * 8 + j]
"""
    )
    library = codegen.build(func, "llvm -num-cores=1")
    rng = np.random.default_rng(0)
    a, b = rng.random((12, 20), np.float32), rng.random((20, 24), np.float32)
    c = np.empty((12, 24), np.float32)
    library["main"](a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    multiplications = [line for line in library.inspect_llvm().splitlines() if "fmul" in line]
    assert multiplications
    assert all("<8 x float>" in line for line in multiplications)


# ----------------------- Lanes that hold the numbers of their elements, the candidates of an argmax

FOUR_VECTORS = """
@T.prim_func
def main(B: T.Buffer((32000,), "{dtype}"), n: T.int32):
    for i in range(1000):
        for k in T.unroll(4):
            for j in T.vectorized(8):
                B[i * 32 + k * 8 + j] = {value}
"""


def ramp_program(value: str, dtype: str = "int32") -> PrimFunc:
    func = parse(FOUR_VECTORS.format(value=value, dtype=dtype))
    assert isinstance(func, PrimFunc)
    return func


def test_vectors_of_one_iteration_share_the_broadcast() -> None:
    func = ramp_program("i * 32 + k * 8 + j")
    assembly = llvm_source(func, "llvm -mcpu=haswell").assembly()
    body = assembly[assembly.index("tensorir.kernel.main:") :]
    assert body.count("vpbroadcastd") == 1


@pytest.mark.parametrize(
    "value",
    ["i * 32 + k * 8 + j", "i - 7 + (k - 5) * 8 + j", "k * 8 + 3 - i + j * n", "n * 4 - 9 + j"],
)
def test_they_hold_what_the_interpreter_says(value: str) -> None:
    func = ramp_program(value)
    for n in (3, 2**30):
        expected, found = np.zeros(32000, "int32"), np.zeros(32000, "int32")
        interpret(func, expected, n)
        codegen.build(func)["main"](found, n)
        np.testing.assert_array_equal(found, expected)
