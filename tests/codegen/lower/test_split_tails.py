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


@pytest.mark.parametrize("low", [0, 1, 5])
def test_each_element_is_written_once(low: int) -> None:
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
    run = codegen.build(func, "llvm -num-cores=1")["main"]
    for n in (-1, 0, 3, 4, 29, 30, 31, 32, 40):
        c, expected = np.zeros((2, 4096), np.float32)
        run(a, c, n)
        expected[low : max(low, min(n, 36))] = 1
        np.testing.assert_array_equal(c, expected)
