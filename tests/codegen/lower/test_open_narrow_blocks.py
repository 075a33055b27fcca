"""Blocks whose axes are bound to loops of narrower types."""

from __future__ import annotations

import numpy as np

import codegen
from tensorir import parse

SUM = """
@T.prim_func
def main(A: T.Buffer((100, 3), "int32"), D: T.Buffer((100,), "int32")):
    for i in range(T.int16(100)):
        for j in range(T.int16(3)):
            with T.block("D"):
                vi = T.axis.spatial(T.int16(100), i)
                vj = T.axis.reduce(T.int16(3), j)
                with T.init():
                    D[vi] = 0
                D[vi] += A[vi, vj]
"""


def test_a_reduction_over_a_narrow_loop_is_compiled():
    a, d = np.arange(300, dtype="int32").reshape(100, 3), np.zeros(100, "int32")
    codegen.build(parse(SUM), "llvm -num-cores=1")["main"](a, d)
    np.testing.assert_array_equal(d, a.sum(axis=1))
