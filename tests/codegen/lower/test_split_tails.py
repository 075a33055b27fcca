"""Whole tiles run without conditions, tails with constant ones."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from codegen.lower.split_tails import MAX_ADDED
from tensorir import parse
from tensorir.function import PrimFunc
from tensorir.nodes import stmt as s
from tensorir.rewriting.visit import walk

TARGET = "llvm -mcpu=skylake-avx512 -num-cores=1"


def program(body: str) -> PrimFunc:
    func = parse(
        f"""
@T.prim_func
def main(A: T.Buffer((4096,), "float32"), C: T.Buffer((4096,), "float32"), n: T.int32):
    T.func_attr({{"tir.noalias": True}})
{body}
"""
    )
    assert isinstance(func, PrimFunc)
    return func


def test_vectors_of_a_tail_that_are_whole_have_no_mask() -> None:
    before = program(
        """
    for i in range(3):
        for p in T.unroll(3):
            for j in T.vectorized(16):
                if i * 48 + p * 16 + j < 130:
                    C[i * 48 + p * 16 + j] = A[i * 48 + p * 16 + j]
"""
    )
    stores = [n for n in walk(codegen.lower(before, TARGET).body) if isinstance(n, s.BufferStore)]
    assert [store.predicate is None for store in stores] == [True] * 3 + [True] * 2 + [False]


def count(func: PrimFunc) -> int:
    return sum(isinstance(node, s.BufferStore) for node in walk(func.body))


def test_versions_do_not_grow_without_bound() -> None:
    """Six tails, one inside the other, would be 64 versions."""
    names = "abcdef"
    loops = "".join(f"{'    ' * (k + 1)}for {name} in range(8):\n" for k, name in enumerate(names))
    indent = "    " * 7
    tests = " and ".join(f"{name} * 32 + r < 250" for name in names)
    body = f"{loops}{indent}for r in T.unroll(32):\n{indent}    if {tests}:\n"
    body += f"{indent}        C[({' + '.join(names)}) * 32 + r] = A[r]\n"
    grown = count(codegen.lower(program(body), TARGET))
    assert 4 * 32 < grown <= MAX_ADDED + 32


# ------------------------------------------------------------------------------------- what it does


@pytest.mark.parametrize("n", [-1, 0, 3, 4, 29, 30, 31, 32, 40])
@pytest.mark.parametrize("low", [0, 1, 5])
def test_each_element_is_written_once(n: int, low: int) -> None:
    func = program(
        f"""
    for i in range(3):
        for j in range(3):
            for k in range(2):
                for r in T.unroll(4):
                    if {low} <= i * 12 + j * 4 + r and i * 12 + j * 4 + r < n:
                        C[i * 12 + j * 4 + r] = C[i * 12 + j * 4 + r] + A[k]
"""
    )
    a = np.arange(4096, dtype=np.float32)
    c = np.zeros(4096, np.float32)
    codegen.build(func, "llvm -num-cores=1")["main"](a, c, n)
    expected = np.zeros(4096, np.float32)
    expected[low : max(low, min(n, 36))] = 1
    np.testing.assert_array_equal(c, expected)


def test_an_argument_near_the_largest_integer_does_not_wrap() -> None:
    func = program(
        """
    for i in range(2):
        for k in range(2):
            for r in T.unroll(4):
                if i * 4 + r < n:
                    C[i * 4 + r] = C[i * 4 + r] + A[k]
"""
    )
    run = codegen.build(func, "llvm -num-cores=1")["main"]
    for n, rows in ((2**31 - 1, 8), (-(2**31), 0)):
        c = np.zeros(4096, np.float32)
        run(np.ones(4096, np.float32), c, n)
        assert c.sum() == 2 * rows


def test_versions_have_accumulators_of_their_own() -> None:
    """One for both would be accessed through masks, and stay in memory."""
    before = program(
        """
    for f in range(48):
        R = T.allocate([16], "float32", "local")
        R_1 = T.Buffer((16,), data=R)
        for j in T.vectorized(16):
            if f // 6 * 16 + j < 127:
                R_1[j] = A[f // 6 * 16 + j]
        for k in range(64):
            for j in T.vectorized(16):
                if f // 6 * 16 + j < 127:
                    R_1[j] = R_1[j] + A[f % 6 * 64 + k]
        for j in T.vectorized(16):
            if f // 6 * 16 + j < 127:
                C[f * 16 + j] = R_1[j]
"""
    )
    after = codegen.lower(before, TARGET)
    assert sum(isinstance(node, s.Allocate) for node in walk(after.body)) == 2
    masked = [n for n in walk(after.body) if type(n) is s.BufferStore and n.predicate is not None]
    assert [store.buffer.name for store in masked] == ["C"]
