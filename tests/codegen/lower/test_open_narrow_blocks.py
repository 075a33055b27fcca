"""Blocks whose axes are bound to loops of narrower types."""

from __future__ import annotations

import numpy as np
import pytest

import codegen
from tensorir import parse
from tensorir.interp import interpret

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

COPY = """
@T.prim_func
def main({head}a: T.handle, d: T.handle):
    A = T.match_buffer(a, ({rows}, {columns}), "int32")
    D = T.match_buffer(d, ({rows}, {columns}), "int32")
    B = T.alloc_buffer(({rows}, {columns}), "int32")
    for i in range({rows}):
        for j in range({columns}):
            with T.block("B"):
                vi = T.axis.spatial({rows}, i)
                vj = T.axis.spatial({columns}, j)
                B[vi, vj] = A[vi, vj] + 1
    for i in range({rows}):
        for j in range({columns}):
            with T.block("D"):
                vi = T.axis.spatial({rows}, i)
                vj = T.axis.spatial({columns}, j)
                D[vi, vj] = B[vi, vj]
"""


def test_a_reduction_over_a_narrow_loop_is_compiled():
    a, d = np.arange(300, dtype="int32").reshape(100, 3), np.zeros(100, "int32")
    codegen.build(parse(SUM), "llvm -num-cores=1")["main"](a, d)
    np.testing.assert_array_equal(d, a.sum(axis=1))


@pytest.mark.parametrize(
    ("head", "rows", "columns"),
    [
        ("", "T.int8(100)", "T.int8(3)"),
        ("n: T.int8, ", "n", "T.int8(3)"),
        ("n: T.int8, ", "n", "n"),
        ("n: T.int8, ", "T.int8(3)", "n"),
    ],
)
def test_memory_with_narrow_extents_is_as_large_as_their_product(head, rows, columns):
    func = parse(COPY.format(head=head, rows=rows, columns=columns))
    sizes = {"T.int8(100)": 100, "T.int8(3)": 3, "n": 100}
    a = np.arange(sizes[rows] * sizes[columns], dtype="int32").reshape(sizes[rows], sizes[columns])
    given = [100] if head else []
    for run in (lambda *x: interpret(func, *x), codegen.build(func, "llvm -num-cores=1")["main"]):
        d = np.zeros_like(a)
        run(*given, a, d)
        np.testing.assert_array_equal(d, a + 1)
