"""Where allocations move, and how large they are."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import parse

# -------------------------- Temporaries of symbolic sizes take what they hold, not what bounds them


def test_a_size_that_is_bounded_by_a_large_number_is_the_size():
    func = parse("""
    @T.prim_func
    def main(a: T.handle, c: T.handle, n: T.int64):
        A = T.match_buffer(a, (T.min(n, T.int64(1000000000)), T.int64(512)), "float32")
        C = T.match_buffer(c, (T.min(n, T.int64(1000000000)), T.int64(512)), "float32")
        B = T.alloc_buffer((T.min(n, T.int64(1000000000)), T.int64(512)))
        for i, j in T.grid(T.min(n, T.int64(1000000000)), T.int64(512)):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] + T.float32(1)
        for i, j in T.grid(T.min(n, T.int64(1000000000)), T.int64(512)):
            with T.block("c"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = B[vi, vj] * T.float32(2)
    """)
    a, c = np.ones((3, 512), "float32"), np.zeros((3, 512), "float32")
    codegen.build(func, target="llvm")["main"](a, c, 3)
    np.testing.assert_array_equal(c, 4)


@pytest.mark.parametrize("extent", [4, 7])
def test_a_part_of_an_unbounded_size_is_still_cut_to_what_is_used(extent):
    func = parse(f"""
    @T.prim_func
    def main(a: T.handle, c: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, {extent}), "float32")
        C = T.match_buffer(c, (n, {extent}), "float32")
        B = T.alloc_buffer((n, {extent}))
        for i in range(n):
            for j in range({extent}):
                with T.block("b"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1)
            for j in range({extent}):
                with T.block("c"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = B[vi, vj] * T.float32(2)
    """)
    assert f"T.allocate([{extent}]," in codegen.lower(func).script()
