"""Loops of one iteration leave nothing behind."""

from __future__ import annotations

import codegen
from tensorir import parse
from tensorir.function import PrimFunc


def test_a_loop_of_one_iteration_in_an_index_that_is_converted() -> None:
    func = parse(
        """
@T.prim_func
def main(a: T.handle, B: T.Buffer((8,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    for i, j in T.grid(T.uint16(1), T.Cast("int64", n)):
        B[0] = T.Select(A[T.min(T.Cast("int32", j) - T.Cast("int32", i), n)] > T.float32(0), B[1], B[2])
"""
    )
    assert isinstance(func, PrimFunc)
    text = codegen.lower(func, "llvm -mcpu=x86-64", verify=True).script()
    assert text.count("for ") == 1
